// The fused out_prod's kernels for formats of codes over the whole tensor.
// Apart from the other engines so that each compiles on its own.
#include "backends/cuda/fused.h"

namespace nibble::cuda {

nibble_status fused_flat(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why) {
  if (format == NIBBLE_BLOCKWISE8) return launch_fused<Engine::flat8>(format, work, stream, why);
  return launch_fused<Engine::flat4>(format, work, stream, why);
}

}  // namespace nibble::cuda
