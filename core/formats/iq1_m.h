// IQ1_M: IQ1_S's grid, 3-bit scales for 16 values, the block scale scattered in their top bits.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | qs 32 bytes | qh 16 bytes: a nibble a group: 3 index bits, sign of delta | scales 4 u16 |
//   dl = d * (2s + 1);  y = dl * (grid + delta)
#ifndef NIBBLE_CORE_FORMATS_IQ1_M_H
#define NIBBLE_CORE_FORMATS_IQ1_M_H

#include "core/formats/description.h"
#include "core/formats/grids.h"

namespace nibble::format {

struct IQ1_M {
  static constexpr nibble_format kId = NIBBLE_IQ1_M;
  static constexpr char kName[] = "iq1_m";
  static constexpr int kBlockValues = 256;
  static constexpr int kBlockBytes = 56;
  static constexpr Engine kEngine = Engine::grid;

  using Entry = std::uint64_t;
  static constexpr Grid kGrid = Grid::iq1s;
  static constexpr bool kHasDelta = true;
  static constexpr int kScaleGroups = 2;

  static NIBBLE_HD constexpr float block_scale(const std::uint8_t* block) {
    const std::uint8_t* sc = block + 48;
    return float_from_half(load_u16(sc) >> 12 | (load_u16(sc + 2) >> 8 & 0x00f0u) | (load_u16(sc + 4) >> 4 & 0x0f00u) |
                           (load_u16(sc + 6) & 0xf000u));
  }

  /// Group g of 8 values; sub-block g / 4, group g % 4 in it.
  static NIBBLE_HD constexpr GridGroup group(const std::uint8_t* block, int g) {
    const int i = g / 4, l = g % 4;
    const std::uint32_t high = static_cast<std::uint32_t>(block[32 + g / 2]) >> 4 * (g & 1) & 15u;
    const std::uint32_t s = load_u16(block + 48 + 2 * (i / 2)) >> (6 * (i % 2) + (l < 2 ? 0 : 3)) & 7u;
    return {.index = {block[g] | (high & 7u) << 8},
            .scale = mul_rn(block_scale(block), static_cast<float>(2u * s + 1u)),
            // An eighth with the sign moved into place: a branch on it would be guessed wrong every other time.
            .delta = float_from_bits(float_bits(0.125f) | (high & 8u) << 28)};
  }
};

}  // namespace nibble::format

#endif
