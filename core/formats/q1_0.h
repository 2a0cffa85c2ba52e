// Q1_0: one bit a value, its sign.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d f16 | qs 16 bytes: bit j of the stream set: +d, clear: -d |
#ifndef NIBBLE_CORE_FORMATS_Q1_0_H
#define NIBBLE_CORE_FORMATS_Q1_0_H

#include "core/formats/description.h"

namespace nibble::format {

struct Q1_0 {
  static constexpr nibble_format kId = NIBBLE_Q1_0;
  static constexpr char kName[] = "q1_0";
  static constexpr int kBlockValues = 128;
  static constexpr int kBlockBytes = 18;
  static constexpr Engine kEngine = Engine::runs;

  static constexpr int kRunLength = 32;
  static constexpr Combine kCombine = Combine::table;
  static constexpr std::int8_t kCodes[16] = {-1, 1};
  static constexpr int kScaleHalf = 0;

  static NIBBLE_HD constexpr Run run(int r) { return {.low = {.at = 2 + 4 * r, .bits = 1, .packing = Packing::bits}}; }
  static NIBBLE_HD constexpr Scale scale(const std::uint8_t* block, int /*r*/) {
    return {load_half(block + kScaleHalf)};
  }
};

}  // namespace nibble::format

#endif
