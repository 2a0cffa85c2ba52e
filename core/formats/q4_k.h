// Q4_K: four bits a value, 8 sub-blocks with 6-bit scales and mins.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d f16 | dmin f16 | scales 12 bytes | qs 128 bytes |
//   sub-blocks 2p and 2p+1 share bytes 32p..32p+31: low nibbles the even one, high the odd one
//   y = ((d * sc) * q) - (dmin * mn)
#ifndef NIBBLE_CORE_FORMATS_Q4_K_H
#define NIBBLE_CORE_FORMATS_Q4_K_H

#include "core/formats/description.h"

namespace nibble::format {

struct Q4_K {
  static constexpr nibble_format kId = NIBBLE_Q4_K;
  static constexpr char kName[] = "q4_k";
  static constexpr int kBlockValues = 256;
  static constexpr int kBlockBytes = 144;
  static constexpr Engine kEngine = Engine::runs;

  static constexpr int kRunLength = 32;
  static constexpr Combine kCombine = Combine::sum;
  static constexpr int kScaleHalf = 0, kMinHalf = 2;
  static constexpr int kScaleBits = 6;
  static constexpr int kScaleBias = 0;

  static NIBBLE_HD constexpr Run run(int r) {
    return {.low = {.at = 16 + 32 * (r / 2), .shift = 4 * (r & 1), .bits = 4}};
  }
  static NIBBLE_HD constexpr Scale scale(const std::uint8_t* block, int r) {
    const ScaleAndMin6 s = scale_and_min_6bit(block + 4, r);
    return {mul_rn(load_half(block + kScaleHalf), static_cast<float>(s.scale)),
            -mul_rn(load_half(block + kMinHalf), static_cast<float>(s.min))};
  }
  static NIBBLE_HD constexpr ScaleCodes scale_codes(const std::uint8_t* block) {
    return scales_and_mins_6bit(block + 4);
  }
};

}  // namespace nibble::format

#endif
