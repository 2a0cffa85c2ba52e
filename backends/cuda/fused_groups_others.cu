// The fused out_prod's kernels for formats of the engines but "runs", for warpgroups.
// Apart from the other engines so that each compiles on its own.
#include "backends/cuda/fused_groups.h"
#include "backends/gpu/weight_rows.h"

namespace nibble::cuda {

nibble_status fused_groups_others(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why) {
  switch (gpu::layout_of(format).engine) {
    case Engine::grid:
      return launch_by_groups<Engine::grid>(format, work, stream, why);
    case Engine::base3:
      return launch_by_groups<Engine::base3>(format, work, stream, why);
    case Engine::flat8:
      return launch_by_groups<Engine::flat8>(format, work, stream, why);
    default:
      return launch_by_groups<Engine::flat4>(format, work, stream, why);
  }
}

}  // namespace nibble::cuda
