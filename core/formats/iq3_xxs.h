// IQ3_XXS: vectors of 4 from a grid of 256.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d f16 | qs 64 bytes | scales_and_signs 8 u32: 4 x 7 sign bits, scale in bits 28..31 |
//   db = (d * (0.5 + s)) * 0.5
#ifndef NIBBLE_CORE_FORMATS_IQ3_XXS_H
#define NIBBLE_CORE_FORMATS_IQ3_XXS_H

#include "core/formats/description.h"
#include "core/formats/grids.h"

namespace nibble::format {

struct IQ3_XXS {
  static constexpr nibble_format kId = NIBBLE_IQ3_XXS;
  static constexpr char kName[] = "iq3_xxs";
  static constexpr int kBlockValues = 256;
  static constexpr int kBlockBytes = 98;
  static constexpr Engine kEngine = Engine::grid;

  using Entry = std::uint32_t;
  static constexpr Grid kGrid = Grid::iq3xxs;
  static constexpr bool kHasDelta = false;
  static constexpr int kScaleGroups = 4;

  /// Group g of 8 values; sub-block g / 4, group g % 4 in it.
  static NIBBLE_HD constexpr GridGroup group(const std::uint8_t* block, int g) {
    const int i = g / 4, l = g % 4;
    const std::uint32_t word = load_u32(block + 66 + 4 * i);
    return {.index = {block[2 + 2 * g], block[3 + 2 * g]},
            .signs = even_signs(word >> 7 * l & 127u),
            .scale = mul_rn(mul_rn(load_half(block), 0.5f + static_cast<float>(word >> 28)), 0.5f)};
  }
};

}  // namespace nibble::format

#endif
