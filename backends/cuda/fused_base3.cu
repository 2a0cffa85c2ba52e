// The fused out_prod's kernels for formats of the engine "base3".
// Apart from the other engines so that each compiles on its own.
#include "backends/cuda/fused.h"

namespace nibble::cuda {

nibble_status fused_base3(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why) {
  return launch_by_warps<Engine::base3>(format, work, stream, why);
}

}  // namespace nibble::cuda
