// Powers of two that keep halves in range, and the largest elements that they follow from.
// Apart from the kernels because weights and gradients are measured alike.
#ifndef NIBBLE_BACKENDS_CUDA_POWERS_H
#define NIBBLE_BACKENDS_CUDA_POWERS_H

#include "backends/gpu/device.h"

#include <cstdint>

namespace nibble::cuda {

/// The largest of a warp's numbers; none is negative, so that their bits are ordered as they are.
__device__ inline float largest_of_warp(float x) {
#if NIBBLE_HALF_CORES  // came with the instruction
  return __uint_as_float(__reduce_max_sync(0xffffffffu, __float_as_uint(x)));
#else
  for (int lanes = 16; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lanes));
  return x;
#endif
}

/// The larger magnitude; infinities and NaN count for nothing.
__device__ inline float larger_finite(float largest, float x) {
  return fabsf(x) < __builtin_inff() ? fmaxf(largest, fabsf(x)) : largest;
}

/// The power of two that takes x, not negative, to [2^kExponent, 2^(kExponent + 1)), as far as powers of f32 go both
/// ways.
template <int kExponent>
__device__ inline float power_to_reach(float x) {
  const int exponent = kExponent + 127 - static_cast<int>(__float_as_uint(x) >> 23);
  return __uint_as_float(static_cast<std::uint32_t>(min(max(exponent, -126), 126) + 127) << 23);
}

/// Of a power of two from 2^-126 to 2^126, exact.
__device__ inline float reciprocal_of_power(float x) { return __uint_as_float(0x7f000000u - __float_as_uint(x)); }

}  // namespace nibble::cuda

#endif
