// FP4 of bitsandbytes: sign, two bits of exponent, one of mantissa, largest value 1.
// Apart from the other formats so that adding or reading one touches one file.
//
//   packed: ceil(n/2) bytes over the whole tensor, blocks of block_size values run across rows
//   y = kCodes[q] * absmax[block];  nested: absmax = (nested_code[c] * nested_absmax[group]) + nested_offset
#ifndef NIBBLE_CORE_FORMATS_FP4_H
#define NIBBLE_CORE_FORMATS_FP4_H

#include "core/formats/description.h"

namespace nibble::format {

struct FP4 {
  static constexpr nibble_format kId = NIBBLE_FP4;
  static constexpr char kName[] = "fp4";
  static constexpr int kBlockValues = 2;
  static constexpr int kBlockBytes = 1;
  static constexpr Engine kEngine = Engine::flat4;

  // Code 2i of the tensor is the HIGH nibble of byte i.
  static constexpr float kCodes[16] = {
      0.0f,  0.005208333333f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
      -0.0f, -0.005208333333f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
};

}  // namespace nibble::format

#endif
