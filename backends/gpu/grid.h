// The engine for grid formats: blocks and the grid in shared memory, a group of 8 values (or half of one) a thread.
// Apart from the other engines: its blocks stay and stride over the tiles, so that the grid is read once each.
#ifndef NIBBLE_BACKENDS_GPU_GRID_H
#define NIBBLE_BACKENDS_GPU_GRID_H

#include "backends/gpu/bodies.h"
#include "backends/gpu/device_grid.h"
#include "backends/gpu/engines.h"
#include "backends/gpu/stage.h"

#include <algorithm>
#include <iterator>

namespace nibble::gpu {

template <Grid grid>
inline constexpr int kGridEntries = static_cast<int>(std::size(grid_table<grid>()));

/// Bytes of a tile's blocks, and behind them of the grid, in shared memory.
template <class F>
inline constexpr int kGridShared = kTileBytes<F> + 16 +
                                   kGridEntries<F::kGrid>* static_cast<int>(sizeof(typename F::Entry));
/// A compiler that knows the memory's size does not promise more blocks than it holds.
template <class F>
inline constexpr int kGridResident = std::min(kResident - 1, kSharedBytes / kGridShared<F>);

template <class F, class Out>
__global__ void __launch_bounds__(kThreads, kGridResident<F>) grid_kernel(Tiles tiles) {
  constexpr int N = kChunk<Out>;
  alignas(16) __shared__ std::uint8_t blocks[kTileBytes<F> + 16];
  alignas(8) __shared__ typename F::Entry grid[kGridEntries<F::kGrid>];
  for (int i = threadIdx.x; i < kGridEntries<F::kGrid>; i += kThreads) grid[i] = device_grid<F::kGrid>.entries[i];

  const unsigned first = threadIdx.x * N;
  const int place = static_cast<int>(first % F::kBlockValues);
  const std::uint8_t* own = blocks + first / F::kBlockValues * F::kBlockBytes;
  static_assert(kThreads * N % F::kBlockValues == 0);
  for (std::uint32_t t = blockIdx.x; t < tiles.count; t += gridDim.x) {
    const Tile tile = tiles.tile(t, Out::kBytes);
    stage_blocks<F>(tiles, tile, blocks);
    __syncthreads();
    store_tile<Out>(tile, [&](unsigned step, float(&out)[N]) {
      decode_grid<F, N>(own + step / F::kBlockValues * F::kBlockBytes, place, grid, out);
    });
    __syncthreads();
  }
}

inline nibble_status decode_grid_on(nibble_format from, nibble_format to, const Rows& rows, Stream stream,
                                    nibble_text* why) {
  return with_types<Engine::grid>(from, to, rows.power != nullptr, [&](auto f, auto out) {
    const auto kernel = grid_kernel<decltype(f), decltype(out)>;
    std::uint32_t resident = 0;
    if (const nibble_status s = resident_blocks(reinterpret_cast<const void*>(kernel), kThreads, 0, &resident, why)) {
      return s;
    }
    return in_pieces(rows, kTileValues, [&](const Tiles& tiles) {
      return launch(kernel, {"decode grid", std::min(tiles.count, resident), kThreads}, stream, why, tiles);
    });
  });
}

}  // namespace nibble::gpu

#endif
