// Q8_0: a signed byte a value, one scale.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d f16 | qs 32 signed bytes |    y = q * d
#ifndef NIBBLE_CORE_FORMATS_Q8_0_H
#define NIBBLE_CORE_FORMATS_Q8_0_H

#include "core/formats/description.h"

namespace nibble::format {

struct Q8_0 {
  static constexpr nibble_format kId = NIBBLE_Q8_0;
  static constexpr char kName[] = "q8_0";
  static constexpr int kBlockValues = 32;
  static constexpr int kBlockBytes = 34;
  static constexpr Engine kEngine = Engine::runs;

  static constexpr int kRunLength = 32;
  static constexpr Combine kCombine = Combine::product;
  static constexpr int kBias = 0;
  static constexpr bool kSigned = true;  // codes are two's complement bytes
  static constexpr int kScaleHalf = 0;

  static NIBBLE_HD constexpr Run run(int /*r*/) { return {.low = {.at = 2, .bits = 8}}; }
  static NIBBLE_HD constexpr Scale scale(const std::uint8_t* block, int /*r*/) {
    return {load_half(block + kScaleHalf)};
  }
};

}  // namespace nibble::format

#endif
