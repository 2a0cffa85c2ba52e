// F16: an IEEE half, widened exactly.
// Apart from the other formats so that adding or reading one touches one file.
#ifndef NIBBLE_CORE_FORMATS_F16_H
#define NIBBLE_CORE_FORMATS_F16_H

#include "core/formats/description.h"

namespace nibble::format {

struct F16 {
  static constexpr nibble_format kId = NIBBLE_F16;
  static constexpr char kName[] = "f16";
  static constexpr int kBlockValues = 1;
  static constexpr int kBlockBytes = 2;
  static constexpr Engine kEngine = Engine::element;

  static NIBBLE_HD constexpr float value(const std::uint8_t* block, int /*j*/) { return load_half(block); }
};

}  // namespace nibble::format

#endif
