// IQ3_S: vectors of 4 from a grid of 512, signs in full.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d f16 | qs 64 bytes | qh 8 bytes | signs 32 bytes | scales 4 bytes: a nibble a sub-block |
//   index = qs | a bit of qh << 8;  db = d * (1 + 2s)
#ifndef NIBBLE_CORE_FORMATS_IQ3_S_H
#define NIBBLE_CORE_FORMATS_IQ3_S_H

#include "core/formats/description.h"
#include "core/formats/grids.h"

namespace nibble::format {

struct IQ3_S {
  static constexpr nibble_format kId = NIBBLE_IQ3_S;
  static constexpr char kName[] = "iq3_s";
  static constexpr int kBlockValues = 256;
  static constexpr int kBlockBytes = 110;
  static constexpr Engine kEngine = Engine::grid;

  using Entry = std::uint32_t;
  static constexpr Grid kGrid = Grid::iq3s;
  static constexpr bool kHasDelta = false;
  static constexpr int kScaleGroups = 4;

  /// Group g of 8 values; sub-block g / 4, group g % 4 in it.
  static NIBBLE_HD constexpr GridGroup group(const std::uint8_t* block, int g) {
    const int i = g / 4, l = g % 4;
    const std::uint32_t high = block[66 + i];
    const std::uint32_t s = static_cast<std::uint32_t>(block[106 + i / 2]) >> 4 * (i & 1) & 15u;
    return {.index = {block[2 + 2 * g] | (high << (8 - 2 * l) & 256u), block[3 + 2 * g] | (high << (7 - 2 * l) & 256u)},
            .signs = block[74 + g],
            .scale = mul_rn(load_half(block), static_cast<float>(1u + 2u * s))};
  }
};

}  // namespace nibble::format

#endif
