// The tensor cores' and the asynchronous copies' instructions that the fused products use.
// Apart from the kernels because it is the one place of this back end with instructions spelled out.
#ifndef NIBBLE_BACKENDS_CUDA_MMA_H
#define NIBBLE_BACKENDS_CUDA_MMA_H

#include <cstdint>

namespace nibble::cuda {

/// x to TF32's 11 significant bits, rounded to nearest; NaN and infinities stay.
__device__ inline std::uint32_t to_tf32(float x) {
  std::uint32_t out;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(out) : "f"(x));
  return out;
}

__device__ inline bool is_finite(float x) { return fabsf(x) < __builtin_inff(); }

/// The same for finite x, in one instruction: the tensor cores do not look at the bits below.
__device__ inline std::uint32_t finite_to_tf32(float x) { return __float_as_uint(x) + 0x1000u; }

/// sums[16, 8] += a[16, 8] * b[8, 8] of a warp. With g = lane / 4 and c = lane % 4 a lane holds a(g, c), a(g + 8, c),
/// a(g, c + 4), a(g + 8, c + 4); b(c, g), b(c + 4, g); sums (g, 2c), (g, 2c + 1), (g + 8, 2c), (g + 8, 2c + 1).
__device__ inline void multiply_tf32(float (&sums)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                     std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/// Starts a copy of 16 bytes to shared memory, both ends aligned to as many.
__device__ inline void copy_async(std::uint8_t* shared, const std::uint8_t* global) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
      "l"(global)
      : "memory");
}
__device__ inline void end_copy_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most kPending of the groups that this thread ended are under way.
template <int kPending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace nibble::cuda

#endif
