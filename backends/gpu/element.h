// The engine for values that are stored as themselves: loads as wide as a chunk, conversion, 16-byte stores.
// Apart from the staged engines because element formats need no shared memory and have rows of any length.
#ifndef NIBBLE_BACKENDS_GPU_ELEMENT_H
#define NIBBLE_BACKENDS_GPU_ELEMENT_H

#include "backends/gpu/bodies.h"
#include "backends/gpu/engines.h"
#include "backends/gpu/stage.h"

namespace nibble::gpu {

inline constexpr int kElementSteps = 4;
template <class Out>
inline constexpr int kElementTile = kThreads* kChunk<Out>* kElementSteps;

/// Whole chunks: all loads of a thread are under way before the first is used.
template <class F, class Out>
__device__ inline void decode_element_chunks(const std::uint8_t* src, std::uint8_t* dst, int count) {
  constexpr int N = kChunk<Out>;
  using Chunk = ElementWord<F::kBlockBytes, N>;
  const auto* chunks = reinterpret_cast<const Chunk*>(src) + threadIdx.x;
  Chunk held[kElementSteps];
#pragma unroll
  for (int s = 0; s < kElementSteps; ++s) {
    if ((s * kThreads + static_cast<int>(threadIdx.x)) * N < count) held[s] = chunks[s * kThreads];
  }
#pragma unroll
  for (int s = 0; s < kElementSteps; ++s) {
    const int v = (s * kThreads + static_cast<int>(threadIdx.x)) * N;
    if (v >= count) break;
    float out[N];
    decode_elements<F, N>(held[s], out);
    store_streaming(dst + v * Out::kBytes, packed<Out>(out));
  }
}

template <class F, class Out>
__global__ void __launch_bounds__(kThreads) element_kernel(Tiles tiles) {
  constexpr int N = kChunk<Out>;
  const Tile tile = tiles.tile(blockIdx.x, Out::kBytes);
  const std::uint8_t* src = tiles.rows.src + tile.src + tile.begin * F::kBlockBytes;
  int whole = 0;
  if (is_aligned(src, alignof(ElementWord<F::kBlockBytes, N>)) && is_aligned(tile.dst, 16)) {
    whole = tile.values - tile.values % N;
    decode_element_chunks<F, Out>(src, tile.dst, whole);
  }
#pragma unroll 1
  for (int v = whole + static_cast<int>(threadIdx.x); v < tile.values; v += kThreads) {
    Out::store(tile.dst + v * Out::kBytes, F::value(src + v * F::kBlockBytes, 0));
  }
}

inline nibble_status decode_element_on(nibble_format from, nibble_format to, const Rows& rows, Stream stream,
                                       nibble_text* why) {
  return with_types<Engine::element>(from, to, rows.power != nullptr, [&](auto f, auto out) {
    return launch_tiles(element_kernel<decltype(f), decltype(out)>, "decode elements", kThreads,
                        kElementTile<decltype(out)>, rows, stream, why);
  });
}

}  // namespace nibble::gpu

#endif
