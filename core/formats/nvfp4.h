// NVFP4: E2M1 values, 4 sub-blocks with unsigned E4M3 scales.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d 4 bytes (E4M3, no sign) | qs 32 bytes |
//   sub-block r: bytes 8r.., low nibbles values 0..7, high 8..15;  y = kCodes[q] * (scale / 2)
#ifndef NIBBLE_CORE_FORMATS_NVFP4_H
#define NIBBLE_CORE_FORMATS_NVFP4_H

#include "core/formats/description.h"

namespace nibble::format {

struct NVFP4 {
  static constexpr nibble_format kId = NIBBLE_NVFP4;
  static constexpr char kName[] = "nvfp4";
  static constexpr int kBlockValues = 64;
  static constexpr int kBlockBytes = 36;
  static constexpr Engine kEngine = Engine::runs;

  static constexpr int kRunLength = 16;
  static constexpr Combine kCombine = Combine::table;
  static constexpr std::int8_t kCodes[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

  static NIBBLE_HD constexpr Run run(int r) {
    return {.low = {.at = 4 + 8 * r, .bits = 4, .packing = Packing::halves}};
  }
  static constexpr int kScaleBytes = 0;
  static NIBBLE_HD constexpr float byte_scale(std::uint32_t x) { return half_e4m3(x); }
  static NIBBLE_HD constexpr Scale scale(const std::uint8_t* block, int r) { return {byte_scale(block[r])}; }

  /// Half the value of an unsigned E4M3 byte; 0x00 and 0x7f give 0. Bit 7 is not read.
  static NIBBLE_HD constexpr float half_e4m3(std::uint32_t x) {
    if (x == 0x00 || x == 0x7f) return 0.0f;
    const std::uint32_t exponent = x >> 3 & 15u, mantissa = x & 7u;
    if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
    return float_from_bits((exponent + 119u) << 23 | mantissa << 20);
  }
};

}  // namespace nibble::format

#endif
