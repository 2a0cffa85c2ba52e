// The engine for formats of runs: whole blocks staged in shared memory, scales made once a run, 16-byte stores.
// Apart from the other engines; it knows formats only by their descriptions.
#ifndef NIBBLE_BACKENDS_GPU_RUNS_H
#define NIBBLE_BACKENDS_GPU_RUNS_H

#include "backends/gpu/bodies.h"
#include "backends/gpu/engines.h"
#include "backends/gpu/stage.h"

namespace nibble::gpu {

/// A thread makes those of the same run of every so many-th block. What comes of its number stays unsigned, here and
/// below: signed numbers take several instructions to divide.
template <class F>
__device__ inline void make_scales(const std::uint8_t* blocks, int values, RunScale<F>* scales) {
  constexpr unsigned kRuns = F::kBlockValues / F::kRunLength;
  static_assert(kThreads % kRuns == 0);
  const std::uint8_t* block = blocks + threadIdx.x / kRuns * F::kBlockBytes;
  const int run = static_cast<int>(threadIdx.x % kRuns);
#pragma unroll 1
  for (int r = static_cast<int>(threadIdx.x); r < values / F::kRunLength; r += kThreads) {
    scales[r] = run_scale<F>(block, run);
    block += kThreads / kRuns * F::kBlockBytes;
  }
}

template <class F, class Out>
__device__ inline void decode_staged_runs(const std::uint8_t* blocks, const RunScale<F>* scales, const float* table,
                                          const Tile& tile) {
  constexpr int N = kChunk<Out>;
  // A step of all threads is whole blocks, so that a thread's place in its block is the same at each.
  static_assert(kThreads * N % F::kBlockValues == 0);
  const unsigned first = threadIdx.x * N;
  const Run run = F::run(static_cast<int>(first % F::kBlockValues / F::kRunLength));
  const int place = static_cast<int>(first % F::kRunLength);
  blocks += first / F::kBlockValues * F::kBlockBytes;
  scales += first / F::kRunLength;
  store_tile<Out>(tile, [&](unsigned step, float(&out)[N]) {
    decode_run<F, N>(blocks + step / F::kBlockValues * F::kBlockBytes, run, place, scales[step / F::kRunLength], table,
                     out);
  });
}

template <class F, class Out>
__global__ void __launch_bounds__(kThreads, kResident) runs_kernel(Tiles tiles) {
  alignas(16) __shared__ std::uint8_t blocks[kTileBytes<F> + 16];
  // As bytes, since a type with initializers may not lie in shared memory.
  alignas(8) __shared__ std::uint8_t scale_bytes[kTileValues / F::kRunLength * sizeof(RunScale<F>)];
  auto* scales = reinterpret_cast<RunScale<F>*>(scale_bytes);
  __shared__ float table[F::kCombine == Combine::table ? 16 : 1];
  if constexpr (F::kCombine == Combine::table) {
    if (threadIdx.x == 0) fill_codes<F>(table);
  }
  const Tile tile = tiles.tile(blockIdx.x, Out::kBytes);
  stage_blocks<F>(tiles, tile, blocks);
  __syncthreads();
  make_scales<F>(blocks, tile.values, scales);
  __syncthreads();
  decode_staged_runs<F, Out>(blocks, scales, table, tile);
}

inline nibble_status decode_runs_on(nibble_format from, nibble_format to, const Rows& rows, Stream stream,
                                    nibble_text* why) {
  return with_types<Engine::runs>(from, to, rows.power != nullptr, [&](auto f, auto out) {
    return launch_tiles(runs_kernel<decltype(f), decltype(out)>, "decode runs", kThreads, kTileValues, rows, stream,
                        why);
  });
}

}  // namespace nibble::gpu

#endif
