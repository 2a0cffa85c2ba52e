// IQ2_XXS: vectors of 8 from a grid of 256, 2.06 bits a value.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d f16 | qs 32 u16: two words a sub-block of 32 |
//   first word: 4 grid indexes; second: 4 x 7 sign bits, scale in bits 28..31;  db = (d * (0.5 + s)) * 0.25
#ifndef NIBBLE_CORE_FORMATS_IQ2_XXS_H
#define NIBBLE_CORE_FORMATS_IQ2_XXS_H

#include "core/formats/description.h"
#include "core/formats/grids.h"

namespace nibble::format {

struct IQ2_XXS {
  static constexpr nibble_format kId = NIBBLE_IQ2_XXS;
  static constexpr char kName[] = "iq2_xxs";
  static constexpr int kBlockValues = 256;
  static constexpr int kBlockBytes = 66;
  static constexpr Engine kEngine = Engine::grid;

  using Entry = std::uint64_t;
  static constexpr Grid kGrid = Grid::iq2xxs;
  static constexpr bool kHasDelta = false;
  static constexpr int kScaleGroups = 4;

  /// Group g of 8 values; sub-block g / 4, group g % 4 in it.
  static NIBBLE_HD constexpr GridGroup group(const std::uint8_t* block, int g) {
    const int i = g / 4, l = g % 4;
    const std::uint8_t* words = block + 2 + 8 * i;
    const std::uint32_t tail = load_u32(words + 4);
    return {.index = {words[l]},
            .signs = even_signs(tail >> 7 * l & 127u),
            .scale = mul_rn(mul_rn(load_half(block), 0.5f + static_cast<float>(tail >> 28)), 0.25f)};
  }
};

}  // namespace nibble::format

#endif
