// The element-wise kernels around a product: operands widened and packed, results rounded and stored.
// Apart from the products because they are needed whichever engine multiplies.
#ifndef NIBBLE_BACKENDS_GPU_GEMM_ELEMENTS_H
#define NIBBLE_BACKENDS_GPU_GEMM_ELEMENTS_H

#include "backends/gpu/gemm.h"

#include "core/numeric.h"

namespace nibble::gpu {

__device__ inline float load_as_f32(const void* data, nibble_format type, std::int64_t index) {
  if (type == NIBBLE_F32) return static_cast<const float*>(data)[index];
  const std::uint32_t bits = static_cast<const std::uint16_t*>(data)[index];
  return type == NIBBLE_F16 ? float_from_half(bits) : float_from_bfloat16(bits);
}

__device__ inline void store_rounded(void* data, nibble_format type, std::int64_t index, float x) {
  if (type == NIBBLE_F32) {
    static_cast<float*>(data)[index] = x;
  } else {
    static_cast<std::uint16_t*>(data)[index] = type == NIBBLE_F16 ? half_from_float(x) : bfloat16_from_float(x);
  }
}

/// Calls f(i, j) for this thread's share of an array of inner x outer, i along inner. One division at the start: the
/// steps between a thread's elements are carried from i into j.
template <class F>
__device__ void for_each_pair(std::int64_t inner, std::int64_t outer, F&& f) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t step_i = step % inner, step_j = step / inner;
  std::int64_t i = first % inner, j = first / inner;
  while (j < outer) {
    f(i, j);
    i += step_i;
    j += step_j;
    if (i >= inner) {
      i -= inner;
      ++j;
    }
  }
}

__global__ void pack_kernel(Pack p) {
  for (std::int64_t batch = blockIdx.y; batch < p.batch; batch += gridDim.y) {
    float* out = p.out + batch * p.inner * p.outer;
    for_each_pair(p.inner, p.outer, [&](std::int64_t i, std::int64_t j) {
      out[j * p.inner + i] =
          load_as_f32(p.in, p.type, batch * p.batch_stride + j * p.outer_stride + i * p.inner_stride);
    });
  }
}

__global__ void finish_kernel(Finish f) {
  for (std::int64_t batch = blockIdx.y; batch < f.batch; batch += gridDim.y) {
    const float* sums = f.sums != nullptr ? f.sums + batch * f.m * f.n : nullptr;
    for_each_pair(f.m, f.n, [&](std::int64_t i, std::int64_t j) {
      const std::int64_t at = batch * f.out_batch_stride + j * f.out_stride + i;
      float sum = sums != nullptr ? sums[j * f.m + i] : 0.0f;
      if (f.bias != nullptr) sum += load_as_f32(f.bias, f.bias_type, i * f.bias_stride);
      if (f.add) sum += load_as_f32(f.out, f.type, at);
      store_rounded(f.out, f.type, at, sum);
    });
  }
}

}  // namespace nibble::gpu

#endif
