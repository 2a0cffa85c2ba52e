// IQ1_S: ternary vectors of 8 from a grid of 2048, shifted by an eighth.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d f16 | qs 32 bytes | qh 8 u16: 4 x 3 index bits, scale in bits 12..14, sign of delta in bit 15 |
//   dl = d * (2s + 1);  y = dl * (grid + delta)
#ifndef NIBBLE_CORE_FORMATS_IQ1_S_H
#define NIBBLE_CORE_FORMATS_IQ1_S_H

#include "core/formats/description.h"
#include "core/formats/grids.h"

namespace nibble::format {

struct IQ1_S {
  static constexpr nibble_format kId = NIBBLE_IQ1_S;
  static constexpr char kName[] = "iq1_s";
  static constexpr int kBlockValues = 256;
  static constexpr int kBlockBytes = 50;
  static constexpr Engine kEngine = Engine::grid;

  using Entry = std::uint64_t;
  static constexpr Grid kGrid = Grid::iq1s;
  static constexpr bool kHasDelta = true;
  static constexpr int kScaleGroups = 4;

  /// Group g of 8 values; sub-block g / 4, group g % 4 in it.
  static NIBBLE_HD constexpr GridGroup group(const std::uint8_t* block, int g) {
    const int i = g / 4, l = g % 4;
    const std::uint32_t h = load_u16(block + 34 + 2 * i);
    return {.index = {block[2 + g] | (h >> 3 * l & 7u) << 8},
            .scale = mul_rn(load_half(block), static_cast<float>(2u * (h >> 12 & 7u) + 1u)),
            .delta = h & 0x8000u ? -0.125f : 0.125f};
  }
};

}  // namespace nibble::format

#endif
