// TQ1_0: ternary values, five base-3 digits a byte.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | qs 48 bytes | qh 4 bytes | d f16 |
//   values: digits 0..4 of qs[0..31], digits 0..4 of qs[32..47], digits 0..3 of qh;  y = (digit - 1) * d
#ifndef NIBBLE_CORE_FORMATS_TQ1_0_H
#define NIBBLE_CORE_FORMATS_TQ1_0_H

#include "core/formats/description.h"

namespace nibble::format {

struct TQ1_0 {
  static constexpr nibble_format kId = NIBBLE_TQ1_0;
  static constexpr char kName[] = "tq1_0";
  static constexpr int kBlockValues = 256;
  static constexpr int kBlockBytes = 54;
  static constexpr Engine kEngine = Engine::base3;

  /// Sections of the block: `bytes` bytes at `at` hold `digits` times as many values, digit outermost.
  struct Section {
    int at, bytes, digits;
  };
  static constexpr Section kSections[3] = {{0, 32, 5}, {32, 16, 5}, {48, 4, 4}};
  static constexpr int kPowers[5] = {1, 3, 9, 27, 81};

  /// Digit n of a byte, most significant first: 0, 1 or 2.
  static NIBBLE_HD constexpr int digit(std::uint32_t byte, int power) {
    const std::uint32_t t = byte * static_cast<std::uint32_t>(power) & 255u;
    return static_cast<int>(t * 3u >> 8);
  }
  static NIBBLE_HD constexpr float scale(const std::uint8_t* block) { return load_half(block + 52); }

  static NIBBLE_HD constexpr float value(const std::uint8_t* block, int j) {
    const int section = j < 160 ? 0 : j < 240 ? 1 : 2;
    const int local = j - (section == 0 ? 0 : section == 1 ? 160 : 240);
    const int width = section == 0 ? 32 : section == 1 ? 16 : 4;
    const int at = section == 0 ? 0 : section == 1 ? 32 : 48;
    int power = 1;
    for (int n = 0; n < local / width; ++n) power *= 3;
    return mul_rn(static_cast<float>(digit(block[at + local % width], power) - 1), scale(block));
  }
};

}  // namespace nibble::format

#endif
