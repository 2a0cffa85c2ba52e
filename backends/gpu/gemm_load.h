// Elements of f32, f16 or bf16 tensors as floats, and back with one rounding.
// Apart from the kernels because every one of them that multiplies reads and writes by them.
#ifndef NIBBLE_BACKENDS_GPU_GEMM_LOAD_H
#define NIBBLE_BACKENDS_GPU_GEMM_LOAD_H

#include <nibble/abi.h>

#include "core/numeric.h"

#include <cstdint>

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

}  // namespace nibble::gpu

#endif
