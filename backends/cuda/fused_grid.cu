// The fused out_prod's kernels for formats of the engine "grid".
// Apart from the other engines so that each compiles on its own.
#include "backends/cuda/fused.h"

namespace nibble::cuda {

nibble_status fused_grid(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why) {
  return launch_by_warps<Engine::grid>(format, work, stream, why);
}

}  // namespace nibble::cuda
