// Q6_K: six bits a value, 16 sub-blocks with 8-bit signed scales.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | ql 128 bytes | qh 64 bytes | scales 16 signed bytes | d f16 |
//   sub-block r: half h = r/8, quarter t = r%8/2, first = 16*(r&1)
//   low 4 bits: ql[64h + 32(t&1) + first + l], low nibble for t<2; high 2 bits: bits 2t.. of qh[32h + first + l]
//   y = (d * scales[r]) * (q - 32)
#ifndef NIBBLE_CORE_FORMATS_Q6_K_H
#define NIBBLE_CORE_FORMATS_Q6_K_H

#include "core/formats/description.h"

namespace nibble::format {

struct Q6_K {
  static constexpr nibble_format kId = NIBBLE_Q6_K;
  static constexpr char kName[] = "q6_k";
  static constexpr int kBlockValues = 256;
  static constexpr int kBlockBytes = 210;
  static constexpr Engine kEngine = Engine::runs;

  static constexpr int kRunLength = 16;
  static constexpr Combine kCombine = Combine::product;
  static constexpr int kBias = 32;
  static constexpr int kScaleHalf = 208;
  static constexpr int kScaleBias = 0;

  static NIBBLE_HD constexpr Run run(int r) {
    const int half = r / 8, quarter = r % 8 / 2, first = 16 * (r & 1);
    return {.low = {.at = 64 * half + 32 * (quarter & 1) + first, .shift = quarter < 2 ? 0 : 4, .bits = 4},
            .high = {.at = 128 + 32 * half + first, .shift = 2 * quarter, .bits = 2}};
  }
  static NIBBLE_HD constexpr Scale scale(const std::uint8_t* block, int r) {
    const auto scale = static_cast<std::int8_t>(block[192 + r]);
    return {mul_rn(load_half(block + kScaleHalf), static_cast<float>(scale))};
  }
  static constexpr ScaleCodes scale_codes(const std::uint8_t* block) {
    return {.scale = {load_u64(block + 192), load_u64(block + 200)}};
  }
};

}  // namespace nibble::format

#endif
