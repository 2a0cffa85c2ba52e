// Q3_K: three bits a value, the third in a mask, 16 sub-blocks with 6-bit scales.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | hmask 32 bytes | qs 64 bytes | scales 12 bytes | d f16 |
//   codes as Q2_K; bit 2 of a code is bit 4*half + step of hmask[l]; y = (d * (scale - 32)) * (q - 4)
//   scale r: low 4 bits a nibble of scales[r%8], high 2 bits: bits 2*(r/4).. of scales[8 + r%4]
#ifndef NIBBLE_CORE_FORMATS_Q3_K_H
#define NIBBLE_CORE_FORMATS_Q3_K_H

#include "core/formats/description.h"

namespace nibble::format {

struct Q3_K {
  static constexpr nibble_format kId = NIBBLE_Q3_K;
  static constexpr char kName[] = "q3_k";
  static constexpr int kBlockValues = 256;
  static constexpr int kBlockBytes = 110;
  static constexpr Engine kEngine = Engine::runs;

  static constexpr int kRunLength = 16;
  static constexpr Combine kCombine = Combine::product;
  static constexpr int kBias = 4;
  static constexpr int kScaleHalf = 108;
  static constexpr int kScaleBias = 32;

  static NIBBLE_HD constexpr Run run(int r) {
    const int half = r / 8, step = r % 8 / 2, first = 16 * (r & 1);
    return {.low = {.at = 32 + 32 * half + first, .shift = 2 * step, .bits = 2},
            .high = {.at = first, .shift = 4 * half + step, .bits = 1}};
  }
  static NIBBLE_HD constexpr Scale scale(const std::uint8_t* block, int r) {
    const std::uint8_t* scales = block + 96;
    const int low = scales[r % 8] >> (r < 8 ? 0 : 4) & 15;
    const int high = scales[8 + r % 4] >> 2 * (r / 4) & 3;
    return {mul_rn(load_half(block + kScaleHalf), static_cast<float>((low | high << 4) - kScaleBias))};
  }
  static constexpr ScaleCodes scale_codes(const std::uint8_t* block) {
    constexpr std::uint64_t kLow = 0x0f0f0f0f0f0f0f0f;
    const std::uint64_t low = load_u64(block + 96), high = load_u32(block + 104), pairs = high | high << 30;
    return {.scale = {(low & kLow) | (pairs & 0x0303030303030303) << 4,
                      (low >> 4 & kLow) | (pairs >> 4 & 0x0303030303030303) << 4}};
  }
};

}  // namespace nibble::format

#endif
