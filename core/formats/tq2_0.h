// TQ2_0: ternary values, two bits each.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | qs 64 bytes | d f16 |
//   32 values from bits 2*(r%4).. of bytes 32*(r/4)..;  y = (q - 1) * d
#ifndef NIBBLE_CORE_FORMATS_TQ2_0_H
#define NIBBLE_CORE_FORMATS_TQ2_0_H

#include "core/formats/description.h"

namespace nibble::format {

struct TQ2_0 {
  static constexpr nibble_format kId = NIBBLE_TQ2_0;
  static constexpr char kName[] = "tq2_0";
  static constexpr int kBlockValues = 256;
  static constexpr int kBlockBytes = 66;
  static constexpr Engine kEngine = Engine::runs;

  static constexpr int kRunLength = 32;
  static constexpr Combine kCombine = Combine::product;
  static constexpr int kBias = 1;
  static constexpr int kScaleHalf = 64;

  static NIBBLE_HD constexpr Run run(int r) { return {.low = {.at = 32 * (r / 4), .shift = 2 * (r % 4), .bits = 2}}; }
  static NIBBLE_HD constexpr Scale scale(const std::uint8_t* block, int /*r*/) {
    return {load_half(block + kScaleHalf)};
  }
};

}  // namespace nibble::format

#endif
