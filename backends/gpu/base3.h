// The engine for base-3 formats: staged blocks, one digit of four neighbouring bytes at a time.
// Apart from the runs because a digit needs a multiplication, not a shift.
#ifndef NIBBLE_BACKENDS_GPU_BASE3_H
#define NIBBLE_BACKENDS_GPU_BASE3_H

#include "backends/gpu/bodies.h"
#include "backends/gpu/engines.h"
#include "backends/gpu/stage.h"

namespace nibble::gpu {

template <class F, class Out>
__global__ void __launch_bounds__(kThreads) base3_kernel(Rows rows) {
  constexpr int N = kChunk<Out>;
  constexpr int kTileBytes = kTileValues / F::kBlockValues * F::kBlockBytes;
  __shared__ alignas(16) std::uint8_t blocks[kTileBytes + 16];
  const Tiling tiling(rows, kTileValues);
  const int first = static_cast<int>(threadIdx.x) * N;
  static_assert(kThreads * N % F::kBlockValues == 0);
  for (std::int64_t t = blockIdx.x; t < tiling.count; t += gridDim.x) {
    const Tile tile = tiling.tile(rows, t, Out::kBytes);
    stage<kTileBytes>(rows.src + tile.src + tile.begin / F::kBlockValues * F::kBlockBytes,
                      tile.values / F::kBlockValues * F::kBlockBytes, blocks);
    __syncthreads();
    const bool aligned = is_aligned(tile.dst, 16);
#pragma unroll
    for (int step = 0; step < kTileValues; step += kThreads * N) {
      const int v = step + first;
      if (v >= tile.values) break;
      const std::uint8_t* block = blocks + (step / F::kBlockValues + first / F::kBlockValues) * F::kBlockBytes;
      float out[N];
      decode_base3<F, N>(block, first % F::kBlockValues, F::scale(block), out);
      store_chunk<Out>(tile.dst + v * Out::kBytes, out, N, aligned);
    }
    __syncthreads();
  }
}

inline nibble_status decode_base3_on(nibble_format from, nibble_format to, const Rows& rows, Stream stream,
                                     nibble_text* why) {
  return with_types<Engine::base3>(from, to, [&](auto f, auto out) {
    const auto blocks = static_cast<std::uint64_t>(Tiling(rows, kTileValues).count);
    return launch(base3_kernel<decltype(f), decltype(out)>, {"decode base 3", blocks, kThreads}, stream, why, rows);
  });
}

}  // namespace nibble::gpu

#endif
