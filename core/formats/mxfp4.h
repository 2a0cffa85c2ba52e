// MXFP4: E2M1 values with a shared power of two.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | e u8 (E8M0) | qs 16 bytes: low nibbles values 0..15, high 16..31 |
//   kCodes holds twice the E2M1 value, so the scale is half the power of two: y = kCodes[q] * 2^(e - 128)
#ifndef NIBBLE_CORE_FORMATS_MXFP4_H
#define NIBBLE_CORE_FORMATS_MXFP4_H

#include "core/formats/description.h"

namespace nibble::format {

struct MXFP4 {
  static constexpr nibble_format kId = NIBBLE_MXFP4;
  static constexpr char kName[] = "mxfp4";
  static constexpr int kBlockValues = 32;
  static constexpr int kBlockBytes = 17;
  static constexpr Engine kEngine = Engine::runs;

  static constexpr int kRunLength = 16;
  static constexpr Combine kCombine = Combine::table;
  static constexpr std::int8_t kCodes[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

  static NIBBLE_HD constexpr Run run(int r) { return {.low = {.at = 1, .shift = 4 * r, .bits = 4}}; }
  static NIBBLE_HD constexpr Scale scale(const std::uint8_t* block, int /*r*/) { return {half_power_of_two(block[0])}; }

  /// 2^(e - 128); subnormal for e of 0 and 1, and 255 is an exponent like any other.
  static NIBBLE_HD constexpr float half_power_of_two(std::uint32_t e) {
    return float_from_bits(e < 2 ? 0x00200000u << e : (e - 1u) << 23);
  }
};

}  // namespace nibble::format

#endif
