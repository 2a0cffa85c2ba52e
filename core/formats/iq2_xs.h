// IQ2_XS: vectors of 8 from a grid of 512.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d f16 | qs 32 u16: 9 bits of index, 7 of signs | scales 8 bytes: a nibble for two groups |
//   db = (d * (0.5 + s)) * 0.25
#ifndef NIBBLE_CORE_FORMATS_IQ2_XS_H
#define NIBBLE_CORE_FORMATS_IQ2_XS_H

#include "core/formats/description.h"
#include "core/formats/grids.h"

namespace nibble::format {

struct IQ2_XS {
  static constexpr nibble_format kId = NIBBLE_IQ2_XS;
  static constexpr char kName[] = "iq2_xs";
  static constexpr int kBlockValues = 256;
  static constexpr int kBlockBytes = 74;
  static constexpr Engine kEngine = Engine::grid;

  using Entry = std::uint64_t;
  static constexpr Grid kGrid = Grid::iq2xs;
  static constexpr bool kHasDelta = false;
  static constexpr int kScaleGroups = 2;

  /// Group g of 8 values; sub-block g / 4, group g % 4 in it.
  static NIBBLE_HD constexpr GridGroup group(const std::uint8_t* block, int g) {
    const int i = g / 4, l = g % 4;
    const std::uint32_t u = load_u16(block + 2 + 2 * g);
    const std::uint32_t s = static_cast<std::uint32_t>(block[66 + i]) >> (l < 2 ? 0 : 4) & 15u;
    return {.index = {u & 511u},
            .signs = even_signs(u >> 9),
            .scale = mul_rn(mul_rn(load_half(block), 0.5f + static_cast<float>(s)), 0.25f)};
  }
};

}  // namespace nibble::format

#endif
