// The portable product kernel: a tile of the result a block, f32 accumulation in the order of k.
// Apart from the engine libraries because it serves where they are absent, on either vendor's devices.
#ifndef NIBBLE_BACKENDS_GPU_GEMM_PORTABLE_H
#define NIBBLE_BACKENDS_GPU_GEMM_PORTABLE_H

#include "backends/gpu/gemm.h"
#include "backends/gpu/gemm_elements.h"

namespace nibble::gpu {

inline constexpr int kTile = 64;       ///< of the result, both ways
inline constexpr int kTileDepth = 16;  ///< of k, staged at a time
inline constexpr int kTileSide = 16;   ///< threads both ways, each with kPerThread x kPerThread results
inline constexpr int kPerThread = kTile / kTileSide;
inline constexpr int kTileThreads = kTileSide * kTileSide;

/// Stages [kTile, kTileDepth] of an operand in shared memory, zeros beyond its edges. Neighbouring threads read along
/// the operand's shorter stride.
__device__ inline void stage_tile(const Operand& o, std::int64_t batch, std::int64_t first_outer, std::int64_t outer,
                                  std::int64_t first_k, std::int64_t k, float (&tile)[kTileDepth][kTile + 1]) {
  const bool along_k = o.k_stride < o.outer_stride;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTileDepth; i += kTileThreads) {
    const int row = along_k ? i / kTileDepth : i % kTile;
    const int depth = along_k ? i % kTileDepth : i / kTile;
    const std::int64_t at_outer = first_outer + row, at_k = first_k + depth;
    const bool inside = at_outer < outer && at_k < k;
    const std::int64_t at = batch * o.batch_stride + at_outer * o.outer_stride + at_k * o.k_stride;
    tile[depth][row] = inside ? load_as_f32(o.data, o.type, at) : 0.0f;
  }
}

/// One block a tile, tiles handed out in a grid-stride loop over m, then n, then the batch.
__global__ void __launch_bounds__(kTileThreads)
    portable_gemm_kernel(Gemm g, std::int64_t tiles_m, std::int64_t tiles_n) {
  __shared__ float a[kTileDepth][kTile + 1];
  __shared__ float b[kTileDepth][kTile + 1];
  const int ti = static_cast<int>(threadIdx.x) % kTileSide, tj = static_cast<int>(threadIdx.x) / kTileSide;
  for (std::int64_t tile = blockIdx.x; tile < tiles_m * tiles_n * g.batch; tile += gridDim.x) {
    const std::int64_t i0 = tile % tiles_m * kTile, j0 = tile / tiles_m % tiles_n * kTile;
    const std::int64_t batch = tile / (tiles_m * tiles_n);
    float sums[kPerThread][kPerThread] = {};
    for (std::int64_t k0 = 0; k0 < g.k; k0 += kTileDepth) {
      stage_tile(g.a, batch, i0, g.m, k0, g.k, a);
      stage_tile(g.b, batch, j0, g.n, k0, g.k, b);
      __syncthreads();
      for (int depth = 0; depth < kTileDepth; ++depth) {
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) {
#pragma unroll
          for (int i = 0; i < kPerThread; ++i) {
            sums[j][i] = fmaf(a[depth][ti + i * kTileSide], b[depth][tj + j * kTileSide], sums[j][i]);
          }
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        const std::int64_t at_i = i0 + ti + i * kTileSide, at_j = j0 + tj + j * kTileSide;
        if (at_i >= g.m || at_j >= g.n) continue;
        float& out = g.c[batch * g.c_batch_stride + at_j * g.c_stride + at_i];
        out = g.add ? out + sums[j][i] : sums[j][i];
      }
    }
  }
}

nibble_status run_portable(const GemmEngine&, const Gemm& g, Scratch, Stream stream, nibble_text* why) {
  const std::int64_t tiles_m = (g.m + kTile - 1) / kTile, tiles_n = (g.n + kTile - 1) / kTile;
  const Launch shape{.name = "portable_gemm",
                     .blocks = static_cast<std::uint64_t>(tiles_m) * static_cast<std::uint64_t>(tiles_n * g.batch),
                     .threads = kTileThreads};
  return launch(portable_gemm_kernel, shape, stream, why, g, tiles_m, tiles_n);
}

}  // namespace nibble::gpu

#endif
