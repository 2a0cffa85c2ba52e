// The instructions of tensor cores and of asynchronous copies that the fused products use on all devices that have
// them. Apart from the kernels so that instructions are spelled out in few places.
#ifndef NIBBLE_BACKENDS_CUDA_MMA_H
#define NIBBLE_BACKENDS_CUDA_MMA_H

#include "backends/gpu/device.h"

#include <cstdint>

namespace nibble::cuda {

/// A thread's number in its warp, and its warp's in the block. Divided before they are signed, which takes one
/// instruction each, here and wherever they are divided on.
__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x % 32); }
__device__ inline int warp_of_block() { return static_cast<int>(threadIdx.x / 32); }

/// Two halves, `low` in the low bits, each rounded to nearest.
__device__ inline std::uint32_t to_halves(float low, float high) { return gpu::AsHalf::pair(low, high); }
__device__ inline std::uint32_t add_halves(std::uint32_t a, std::uint32_t b) {
  std::uint32_t out;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
  return out;
}

__device__ inline float low_half(std::uint32_t x) {
  float out;
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low;}" : "=f"(out) : "r"(x));
  return out;
}
__device__ inline float high_half(std::uint32_t x) {
  float out;
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high;}" : "=f"(out) : "r"(x));
  return out;
}
__device__ inline std::uint32_t multiply_pair(std::uint32_t a, std::uint32_t b) {
  std::uint32_t out;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
  return out;
}

/// (x & mask) | set, which is one instruction if it is asked for.
__device__ inline std::uint32_t masked_or(std::uint32_t x, std::uint32_t mask, std::uint32_t set) {
  std::uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(out) : "r"(x), "r"(mask), "r"(set));
  return out;
}

/// a * b + c, rounded once.
__device__ inline std::uint32_t multiply_add_pair(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t out;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  return out;
}

/// sums[16, 8] += a[16, 16] * b[16, 8] of a warp, halves by halves into f32. With g = lane / 4 and c = lane % 4 a lane
/// holds pairs of neighbours in k, the low one in the low half: a0 = a(g, 2c), a1 = a(g + 8, 2c), a2 = a(g, 2c + 8),
/// a3 = a(g + 8, 2c + 8); b0 = b(2c, g), b1 = b(2c + 8, g); sums (g, 2c), (g, 2c + 1), (g + 8, 2c), (g + 8, 2c + 1).
__device__ inline void multiply_halves(float (&sums)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                       std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/// Starts a copy of 16 bytes to shared memory, both ends aligned to as many.
__device__ inline void copy_async(std::uint8_t* shared, const void* global) {
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

/// Waits for the other threads of kWarps neighbouring warps; `team` counts such groups in the block. Barrier 0 is the
/// one of __syncthreads, which all of a block must reach in the same place.
template <int kWarps>
__device__ inline void wait_for_team(int team) {
  if constexpr (kWarps == 1) {
    __syncwarp();
  } else {
    asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(kWarps * 32) : "memory");
  }
}

}  // namespace nibble::cuda

#endif
