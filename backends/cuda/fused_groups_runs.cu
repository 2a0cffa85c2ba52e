// The fused out_prod's kernels for formats of the engine "runs", for warpgroups.
// Apart from the other engines so that each compiles on its own.
#include "backends/cuda/fused_groups.h"

namespace nibble::cuda {

nibble_status fused_groups_runs(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why) {
  return launch_by_groups<Engine::runs>(format, work, stream, why);
}

}  // namespace nibble::cuda
