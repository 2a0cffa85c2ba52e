// IQ2_S: vectors of 8 from a grid of 1024, signs in full.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d f16 | qs 32 bytes | signs 32 bytes | qh 8 bytes | scales 8 bytes: a nibble for two groups |
//   index = qs | two bits of qh << 8;  db = (d * (0.5 + s)) * 0.25
#ifndef NIBBLE_CORE_FORMATS_IQ2_S_H
#define NIBBLE_CORE_FORMATS_IQ2_S_H

#include "core/formats/description.h"
#include "core/formats/grids.h"

namespace nibble::format {

struct IQ2_S {
  static constexpr nibble_format kId = NIBBLE_IQ2_S;
  static constexpr char kName[] = "iq2_s";
  static constexpr int kBlockValues = 256;
  static constexpr int kBlockBytes = 82;
  static constexpr Engine kEngine = Engine::grid;

  using Entry = std::uint64_t;
  static constexpr Grid kGrid = Grid::iq2s;
  static constexpr bool kHasDelta = false;
  static constexpr int kScaleGroups = 2;

  /// Group g of 8 values; sub-block g / 4, group g % 4 in it.
  static NIBBLE_HD constexpr GridGroup group(const std::uint8_t* block, int g) {
    const int i = g / 4, l = g % 4;
    const std::uint32_t high = static_cast<std::uint32_t>(block[66 + i]) << (8 - 2 * l) & 0x300u;
    const std::uint32_t s = static_cast<std::uint32_t>(block[74 + i]) >> (l < 2 ? 0 : 4) & 15u;
    return {.index = {block[2 + g] | high},
            .signs = block[34 + g],
            .scale = mul_rn(mul_rn(load_half(block), 0.5f + static_cast<float>(s)), 0.25f)};
  }
};

}  // namespace nibble::format

#endif
