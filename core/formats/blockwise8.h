// 8-bit blockwise of bitsandbytes: a byte a value into a table that comes with the weight.
// Apart from the other formats so that adding or reading one touches one file.
//
//   y = code[byte] * absmax[block]
#ifndef NIBBLE_CORE_FORMATS_BLOCKWISE8_H
#define NIBBLE_CORE_FORMATS_BLOCKWISE8_H

#include "core/formats/description.h"

namespace nibble::format {

struct BLOCKWISE8 {
  static constexpr nibble_format kId = NIBBLE_BLOCKWISE8;
  static constexpr char kName[] = "blockwise8";
  static constexpr int kBlockValues = 1;
  static constexpr int kBlockBytes = 1;
  static constexpr Engine kEngine = Engine::flat8;
};

}  // namespace nibble::format

#endif
