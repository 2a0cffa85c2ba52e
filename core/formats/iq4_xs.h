// IQ4_XS: IQ4_NL's levels, 8 sub-blocks with 6-bit scales.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d f16 | scales_h u16 | scales_l 4 bytes | qs 128 bytes |
//   sub-block i = r/2: bytes 16i.., low nibbles values 0..15, high 16..31
//   ls = nibble i of scales_l | (bits 2i.. of scales_h) << 4;  y = (d * (ls - 32)) * kCodes[q]
#ifndef NIBBLE_CORE_FORMATS_IQ4_XS_H
#define NIBBLE_CORE_FORMATS_IQ4_XS_H

#include "core/formats/description.h"

namespace nibble::format {

struct IQ4_XS {
  static constexpr nibble_format kId = NIBBLE_IQ4_XS;
  static constexpr char kName[] = "iq4_xs";
  static constexpr int kBlockValues = 256;
  static constexpr int kBlockBytes = 136;
  static constexpr Engine kEngine = Engine::runs;

  static constexpr int kRunLength = 16;
  static constexpr Combine kCombine = Combine::table;
  static constexpr std::int8_t kCodes[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

  static NIBBLE_HD constexpr Run run(int r) {
    return {.low = {.at = 8 + 16 * (r / 2), .shift = 4 * (r & 1), .bits = 4}};
  }
  static NIBBLE_HD constexpr Scale scale(const std::uint8_t* block, int r) {
    const int i = r / 2;
    const int low = block[4 + i / 2] >> 4 * (i & 1) & 15;
    const int high = static_cast<int>(load_u16(block + 2) >> 2 * i & 3u);
    return {mul_rn(load_half(block), static_cast<float>((low | high << 4) - 32))};
  }

  static constexpr int kScaleHalf = 0, kScaleBias = 32;
  static constexpr ScaleCodes scale_codes(const std::uint8_t* block) {
    const std::uint32_t high = load_u16(block + 2);
    return {.scale = {four_codes(load_u16(block + 4), high & 255u), four_codes(load_u16(block + 6), high >> 8)}};
  }

 private:
  /// Four nibbles, and as many pairs of bits above them, as bytes; each twice, since two runs share a scale.
  static constexpr std::uint64_t four_codes(std::uint32_t low, std::uint32_t high) {
    low = (low | low << 8) & 0x00ff00ffu;
    low = (low | low << 4) & 0x0f0f0f0fu;
    high = (high | high << 12) & 0x000f000fu;
    high = (high | high << 6) & 0x03030303u;
    std::uint64_t codes = low | high << 4;
    codes = (codes | codes << 16) & 0x0000ffff0000ffffu;
    codes = (codes | codes << 8) & 0x00ff00ff00ff00ffu;
    return codes | codes << 8;
  }
};

}  // namespace nibble::format

#endif
