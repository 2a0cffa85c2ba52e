// Q4_1: four bits a value, a scale and a min.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d f16 | m f16 | qs 16 bytes: low nibbles values 0..15, high 16..31 |    y = (q * d) + m
#ifndef NIBBLE_CORE_FORMATS_Q4_1_H
#define NIBBLE_CORE_FORMATS_Q4_1_H

#include "core/formats/description.h"

namespace nibble::format {

struct Q4_1 {
  static constexpr nibble_format kId = NIBBLE_Q4_1;
  static constexpr char kName[] = "q4_1";
  static constexpr int kBlockValues = 32;
  static constexpr int kBlockBytes = 20;
  static constexpr Engine kEngine = Engine::runs;

  static constexpr int kRunLength = 16;
  static constexpr Combine kCombine = Combine::sum;
  static constexpr int kScaleHalf = 0, kMinHalf = 2;

  static NIBBLE_HD constexpr Run run(int r) { return {.low = {.at = 4, .shift = 4 * r, .bits = 4}}; }
  static NIBBLE_HD constexpr Scale scale(const std::uint8_t* block, int /*r*/) {
    return {load_half(block + kScaleHalf), load_half(block + kMinHalf)};
  }
};

}  // namespace nibble::format

#endif
