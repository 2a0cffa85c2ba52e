// NF4 of bitsandbytes: codes at the quantiles of a normal distribution.
// Apart from the other formats so that adding or reading one touches one file.
//
//   packed: ceil(n/2) bytes over the whole tensor, blocks of block_size values run across rows
//   y = kCodes[q] * absmax[block];  nested: absmax = (nested_code[c] * nested_absmax[group]) + nested_offset
#ifndef NIBBLE_CORE_FORMATS_NF4_H
#define NIBBLE_CORE_FORMATS_NF4_H

#include "core/formats/description.h"

namespace nibble::format {

struct NF4 {
  static constexpr nibble_format kId = NIBBLE_NF4;
  static constexpr char kName[] = "nf4";
  static constexpr int kBlockValues = 2;
  static constexpr int kBlockBytes = 1;
  static constexpr Engine kEngine = Engine::flat4;

  // Code 2i of the tensor is the HIGH nibble of byte i.
  static constexpr float kCodes[16] = {-1.0f,
                                       -0.6961928009986877f,
                                       -0.5250730514526367f,
                                       -0.39491748809814453f,
                                       -0.28444138169288635f,
                                       -0.18477343022823334f,
                                       -0.09105003625154495f,
                                       0.0f,
                                       0.07958029955625534f,
                                       0.16093020141124725f,
                                       0.24611230194568634f,
                                       0.33791524171829224f,
                                       0.44070982933044434f,
                                       0.5626170039176941f,
                                       0.7229568362236023f,
                                       1.0f};
};

}  // namespace nibble::format

#endif
