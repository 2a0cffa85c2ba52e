// Q5_1: five bits a value, a scale and a min.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d f16 | m f16 | qh 4 bytes: bit j is bit 4 of value j | qs 16 bytes as Q4_0 |    y = (q * d) + m
#ifndef NIBBLE_CORE_FORMATS_Q5_1_H
#define NIBBLE_CORE_FORMATS_Q5_1_H

#include "core/formats/description.h"

namespace nibble::format {

struct Q5_1 {
  static constexpr nibble_format kId = NIBBLE_Q5_1;
  static constexpr char kName[] = "q5_1";
  static constexpr int kBlockValues = 32;
  static constexpr int kBlockBytes = 24;
  static constexpr Engine kEngine = Engine::runs;

  static constexpr int kRunLength = 16;
  static constexpr Combine kCombine = Combine::sum;
  static constexpr int kScaleHalf = 0, kMinHalf = 2;

  static NIBBLE_HD constexpr Run run(int r) {
    return {.low = {.at = 8, .shift = 4 * r, .bits = 4},
            .high = {.at = 4 + 2 * r, .bits = 1, .packing = Packing::bits}};
  }
  static NIBBLE_HD constexpr Scale scale(const std::uint8_t* block, int /*r*/) {
    return {load_half(block + kScaleHalf), load_half(block + kMinHalf)};
  }
};

}  // namespace nibble::format

#endif
