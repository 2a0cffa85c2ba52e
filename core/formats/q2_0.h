// Q2_0: two bits a value, four neighbours in a byte.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d f16 | qs 16 bytes: bits 2j, 2j+1 of the stream |    y = (q - 1) * d
#ifndef NIBBLE_CORE_FORMATS_Q2_0_H
#define NIBBLE_CORE_FORMATS_Q2_0_H

#include "core/formats/description.h"

namespace nibble::format {

struct Q2_0 {
  static constexpr nibble_format kId = NIBBLE_Q2_0;
  static constexpr char kName[] = "q2_0";
  static constexpr int kBlockValues = 64;
  static constexpr int kBlockBytes = 18;
  static constexpr Engine kEngine = Engine::runs;

  static constexpr int kRunLength = 32;
  static constexpr Combine kCombine = Combine::product;
  static constexpr int kBias = 1;
  static constexpr int kScaleHalf = 0;

  static NIBBLE_HD constexpr Run run(int r) { return {.low = {.at = 2 + 8 * r, .bits = 2, .packing = Packing::bits}}; }
  static NIBBLE_HD constexpr Scale scale(const std::uint8_t* block, int /*r*/) {
    return {load_half(block + kScaleHalf)};
  }
};

}  // namespace nibble::format

#endif
