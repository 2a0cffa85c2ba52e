// Q5_0: five bits a value, the fifth in a word of its own.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d f16 | qh 4 bytes: bit j is bit 4 of value j | qs 16 bytes as Q4_0 |    y = (q - 16) * d
#ifndef NIBBLE_CORE_FORMATS_Q5_0_H
#define NIBBLE_CORE_FORMATS_Q5_0_H

#include "core/formats/description.h"

namespace nibble::format {

struct Q5_0 {
  static constexpr nibble_format kId = NIBBLE_Q5_0;
  static constexpr char kName[] = "q5_0";
  static constexpr int kBlockValues = 32;
  static constexpr int kBlockBytes = 22;
  static constexpr Engine kEngine = Engine::runs;

  static constexpr int kRunLength = 16;
  static constexpr Combine kCombine = Combine::product;
  static constexpr int kBias = 16;
  static constexpr int kScaleHalf = 0;

  static NIBBLE_HD constexpr Run run(int r) {
    return {.low = {.at = 6, .shift = 4 * r, .bits = 4},
            .high = {.at = 2 + 2 * r, .bits = 1, .packing = Packing::bits}};
  }
  static NIBBLE_HD constexpr Scale scale(const std::uint8_t* block, int /*r*/) {
    return {load_half(block + kScaleHalf)};
  }
};

}  // namespace nibble::format

#endif
