// F32: the value itself.
// Apart from the other formats so that adding or reading one touches one file.
#ifndef NIBBLE_CORE_FORMATS_F32_H
#define NIBBLE_CORE_FORMATS_F32_H

#include "core/formats/description.h"

namespace nibble::format {

struct F32 {
  static constexpr nibble_format kId = NIBBLE_F32;
  static constexpr char kName[] = "f32";
  static constexpr int kBlockValues = 1;
  static constexpr int kBlockBytes = 4;
  static constexpr Engine kEngine = Engine::element;

  static NIBBLE_HD constexpr float value(const std::uint8_t* block, int /*j*/) {
    return float_from_bits(load_u32(block));
  }
};

}  // namespace nibble::format

#endif
