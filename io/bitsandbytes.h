// bitsandbytes 4-bit weights, put together from the tensors and the state that a safetensors file spreads them over.
// Apart from safetensors.h because the container knows nothing of it.
//
//   W                                packed codes, in any element type
//   W.quant_state.bitsandbytes__nf4  (or __fp4) JSON text
//   W.absmax                         F32 plain, U8 nested
//   W.quant_map                      the 16 codes
//   W.nested_absmax, W.nested_quant_map   nested only
#ifndef NIBBLE_IO_BITSANDBYTES_H
#define NIBBLE_IO_BITSANDBYTES_H

#include "io/parsed_file.h"
#include "io/safetensors.h"

#include <vector>

namespace nibble::io {

/// Adds one FileTensor a weight to `file`, in the order of `stored`. A weight whose state is broken is listed with the
/// reason in `usable`, and takes its parts with it: one bad weight leaves the rest of the file usable.
void assemble_weights(const std::vector<StoredTensor>& stored, ParsedFile& file);

}  // namespace nibble::io

#endif
