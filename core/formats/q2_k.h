// Q2_K: two bits a value, 16 sub-blocks with 4-bit scales and mins.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | scales 16 bytes | qs 64 bytes | d f16 | dmin f16 |
//   sub-block r of 16 values: half r/8 of qs (32 bytes), bits 2*(r%8/2), bytes 16*(r&1)..
//   y = ((d * (scales[r] & 15)) * q) - (dmin * (scales[r] >> 4))
#ifndef NIBBLE_CORE_FORMATS_Q2_K_H
#define NIBBLE_CORE_FORMATS_Q2_K_H

#include "core/formats/description.h"

namespace nibble::format {

struct Q2_K {
  static constexpr nibble_format kId = NIBBLE_Q2_K;
  static constexpr char kName[] = "q2_k";
  static constexpr int kBlockValues = 256;
  static constexpr int kBlockBytes = 84;
  static constexpr Engine kEngine = Engine::runs;

  static constexpr int kRunLength = 16;
  static constexpr Combine kCombine = Combine::sum;
  static constexpr int kScaleHalf = 80, kMinHalf = 82;
  static constexpr int kScaleBits = 4;
  static constexpr int kScaleBias = 0;

  static NIBBLE_HD constexpr Run run(int r) {
    const int half = r / 8, step = r % 8 / 2, first = 16 * (r & 1);
    return {.low = {.at = 16 + 32 * half + first, .shift = 2 * step, .bits = 2}};
  }
  static NIBBLE_HD constexpr Scale scale(const std::uint8_t* block, int r) {
    return {mul_rn(load_half(block + kScaleHalf), static_cast<float>(block[r] & 15)),
            -mul_rn(load_half(block + kMinHalf), static_cast<float>(block[r] >> 4))};
  }
  static NIBBLE_HD constexpr ScaleCodes scale_codes(const std::uint8_t* block) {
    constexpr std::uint64_t kLow = 0x0f0f0f0f0f0f0f0f;
    const std::uint64_t first = load_u64(block), second = load_u64(block + 8);
    return {.scale = {first & kLow, second & kLow}, .min = {first >> 4 & kLow, second >> 4 & kLow}};
  }
};

}  // namespace nibble::format

#endif
