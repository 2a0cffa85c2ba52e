// The fused out_prod's kernels for formats of the engines "flat4" and "flat8".
// Apart from the other engines so that each compiles on its own.
#include "backends/cuda/fused.h"

namespace nibble::cuda {

template nibble_status launch_fused<Engine::flat4, Cores::warp>(nibble_format, const FusedWork&, gpu::Stream,
                                                                nibble_text*);
template nibble_status launch_fused<Engine::flat8, Cores::warp>(nibble_format, const FusedWork&, gpu::Stream,
                                                                nibble_text*);

}  // namespace nibble::cuda
