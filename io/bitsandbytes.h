// bitsandbytes' 4-bit states: one weight from the tensors that a file keeps it in.
// Apart from the container because a state is a convention on names, on top of safetensors.
//
//   W                                   packed codes, any element type: only the bytes count
//   W.absmax, W.quant_map               scales (f32, or u8 where nested), the 16 codes
//   W.nested_absmax, W.nested_quant_map nested only
//   W.quant_state.bitsandbytes__nf4     JSON: quant_type, blocksize, dtype, shape, nested_*
#ifndef NIBBLE_IO_BITSANDBYTES_H
#define NIBBLE_IO_BITSANDBYTES_H

#include "io/safetensors.h"

#include <vector>

namespace nibble::io {

/// Appends one FileTensor for every state in `stored`; a broken state is listed with its fault in `usable`. Answers which
/// of `stored` belong to a state, and so are no tensors of their own.
std::vector<bool> take_quantized_states(const std::vector<StoredTensor>& stored, ParsedFile& file);

}  // namespace nibble::io

#endif
