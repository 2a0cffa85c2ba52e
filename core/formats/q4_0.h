// Q4_0: four bits a value, one scale.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d f16 | qs 16 bytes: low nibbles values 0..15, high 16..31 |    y = (q - 8) * d
#ifndef NIBBLE_CORE_FORMATS_Q4_0_H
#define NIBBLE_CORE_FORMATS_Q4_0_H

#include "core/formats/description.h"

namespace nibble::format {

struct Q4_0 {
  static constexpr nibble_format kId = NIBBLE_Q4_0;
  static constexpr char kName[] = "q4_0";
  static constexpr int kBlockValues = 32;
  static constexpr int kBlockBytes = 18;
  static constexpr Engine kEngine = Engine::runs;

  static constexpr int kRunLength = 16;
  static constexpr Combine kCombine = Combine::product;
  static constexpr int kBias = 8;
  static constexpr int kScaleHalf = 0;

  static NIBBLE_HD constexpr Run run(int r) { return {.low = {.at = 2, .shift = 4 * r, .bits = 4}}; }
  static NIBBLE_HD constexpr Scale scale(const std::uint8_t* block, int /*r*/) {
    return {load_half(block + kScaleHalf)};
  }
};

}  // namespace nibble::format

#endif
