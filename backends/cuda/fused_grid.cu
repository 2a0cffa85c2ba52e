// The fused out_prod's kernels for formats of the engine "grid".
// Apart from the other engines so that each compiles on its own.
#include "backends/cuda/fused.h"

namespace nibble::cuda {

template nibble_status launch_fused<Engine::grid, Cores::warp>(nibble_format, const FusedWork&, gpu::Stream,
                                                               nibble_text*);

}  // namespace nibble::cuda
