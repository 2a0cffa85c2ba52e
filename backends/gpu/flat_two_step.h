// Codes over the whole tensor from stored scales, and the step that rebuilds nested ones before it.
// Apart from the engine so that a plugin which makes nested scales in the value pass holds none of these kernels.
#ifndef NIBBLE_BACKENDS_GPU_FLAT_TWO_STEP_H
#define NIBBLE_BACKENDS_GPU_FLAT_TWO_STEP_H

#include "backends/gpu/flat.h"

namespace nibble::gpu {

inline nibble_status decode_flat_on(const nibble_weight& w, nibble_format to, const Rows& rows, const float* scales,
                                    Stream stream, nibble_text* why) {
  const float* code = w.packed.format == NIBBLE_BLOCKWISE8 ? reinterpret_cast<const float*>(bytes_of(w.code)) : nullptr;
  return launch_flat(w, to, rows, StoredScales{scales, shift_of(w.block_size)}, code, stream, why);
}

template <class Scales>
__global__ void __launch_bounds__(kThreads) rebuild_scales_kernel(Scales scales, std::int64_t blocks, float* out) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t b = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; b < blocks; b += step) {
    out[b] = scales.of_block(b);
  }
}

inline nibble_status rebuild_scales_on(const nibble_weight& w, float* out, Stream stream, nibble_text* why) {
  if (!nested(w)) return NIBBLE_OK;
  const std::int64_t blocks = element_count(w.absmax);
  const auto launched = static_cast<std::uint64_t>((blocks + kThreads - 1) / kThreads);
  return launch(rebuild_scales_kernel<NestedScales>, {"rebuild nested scales", launched, kThreads}, stream, why,
                nested_scales(w), blocks, out);
}

}  // namespace nibble::gpu

#endif
