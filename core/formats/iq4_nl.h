// IQ4_NL: four bits a value into a table of 16 uneven levels.
// Apart from the other formats so that adding or reading one touches one file.
//
//   | d f16 | qs 16 bytes: low nibbles values 0..15, high 16..31 |    y = d * kCodes[q]
#ifndef NIBBLE_CORE_FORMATS_IQ4_NL_H
#define NIBBLE_CORE_FORMATS_IQ4_NL_H

#include "core/formats/description.h"

namespace nibble::format {

struct IQ4_NL {
  static constexpr nibble_format kId = NIBBLE_IQ4_NL;
  static constexpr char kName[] = "iq4_nl";
  static constexpr int kBlockValues = 32;
  static constexpr int kBlockBytes = 18;
  static constexpr Engine kEngine = Engine::runs;

  static constexpr int kRunLength = 16;
  static constexpr Combine kCombine = Combine::table;
  static constexpr std::int8_t kCodes[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  static constexpr int kScaleHalf = 0;

  static NIBBLE_HD constexpr Run run(int r) { return {.low = {.at = 2, .shift = 4 * r, .bits = 4}}; }
  static NIBBLE_HD constexpr Scale scale(const std::uint8_t* block, int /*r*/) {
    return {load_half(block + kScaleHalf)};
  }
};

}  // namespace nibble::format

#endif
