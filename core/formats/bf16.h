// BF16: the upper half of a binary32, widened exactly.
// Apart from the other formats so that adding or reading one touches one file.
#ifndef NIBBLE_CORE_FORMATS_BF16_H
#define NIBBLE_CORE_FORMATS_BF16_H

#include "core/formats/description.h"

namespace nibble::format {

struct BF16 {
  static constexpr nibble_format kId = NIBBLE_BF16;
  static constexpr char kName[] = "bf16";
  static constexpr int kBlockValues = 1;
  static constexpr int kBlockBytes = 2;
  static constexpr Engine kEngine = Engine::element;

  static NIBBLE_HD constexpr float value(const std::uint8_t* block, int /*j*/) {
    return float_from_bfloat16(load_u16(block));
  }
};

}  // namespace nibble::format

#endif
