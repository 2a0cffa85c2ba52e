// The fused out_prod's kernels for formats of the engines "flat4" and "flat8".
// Apart from the other engines so that each compiles on its own.
#include "backends/cuda/fused.h"

namespace nibble::cuda {

nibble_status fused_flat(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why) {
  if (format == NIBBLE_BLOCKWISE8) return launch_by_warps<Engine::flat8>(format, work, stream, why);
  return launch_by_warps<Engine::flat4>(format, work, stream, why);
}

}  // namespace nibble::cuda
