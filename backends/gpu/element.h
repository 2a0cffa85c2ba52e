// The engine for values that are stored as themselves: loads as wide as a chunk, conversion, 16-byte stores.
// Apart from the staged engines because element formats need no shared memory and rows of any length.
#ifndef NIBBLE_BACKENDS_GPU_ELEMENT_H
#define NIBBLE_BACKENDS_GPU_ELEMENT_H

#include "backends/gpu/engines.h"
#include "backends/gpu/stage.h"

namespace nibble::gpu {

/// The bytes of N neighbouring elements, with the alignment of the widest load that they fill.
template <int kBytes>
struct alignas(kBytes < 16 ? kBytes : 16) Elements {
  std::uint8_t bytes[kBytes];
};

template <class F, class Out>
__global__ void __launch_bounds__(kThreads) element_kernel(Rows rows) {
  constexpr int N = kChunk<Out>;
  constexpr int kSteps = 4;
  using Chunk = Elements<N * F::kBlockBytes>;
  const Tiling tiling(rows, kThreads * N * kSteps);
  for (std::int64_t t = blockIdx.x; t < tiling.count; t += gridDim.x) {
    const Tile tile = tiling.tile(rows, t, Out::kBytes);
    const std::uint8_t* src = rows.src + tile.src + tile.begin * F::kBlockBytes;
    const bool src_aligned = is_aligned(src, alignof(Chunk)), dst_aligned = is_aligned(tile.dst, 16);
    Chunk held[kSteps];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int v = (s * kThreads + static_cast<int>(threadIdx.x)) * N;
      if (src_aligned && v + N <= tile.values) {
        held[s] = *reinterpret_cast<const Chunk*>(src + v * F::kBlockBytes);
      } else {
#pragma unroll
        for (int b = 0; b < N * F::kBlockBytes; ++b) {
          held[s].bytes[b] = v + b / F::kBlockBytes < tile.values ? src[v * F::kBlockBytes + b] : std::uint8_t{0};
        }
      }
    }
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int v = (s * kThreads + static_cast<int>(threadIdx.x)) * N;
      float out[N];
#pragma unroll
      for (int i = 0; i < N; ++i) out[i] = F::value(held[s].bytes + i * F::kBlockBytes, 0);
      store_chunk<Out>(tile.dst + v * Out::kBytes, out, tile.values - v, dst_aligned);
    }
  }
}

inline nibble_status decode_element_on(nibble_format from, nibble_format to, const Rows& rows, Stream stream,
                                       nibble_text* why) {
  return with_types<Engine::element>(from, to, [&](auto f, auto out) {
    constexpr int kValues = kThreads * kChunk<decltype(out)> * 4;
    const auto blocks = static_cast<std::uint64_t>(Tiling(rows, kValues).count);
    return launch(element_kernel<decltype(f), decltype(out)>, {"decode elements", blocks, kThreads}, stream, why, rows);
  });
}

}  // namespace nibble::gpu

#endif
