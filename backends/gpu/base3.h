// The engine for base-3 formats: staged blocks, one digit of four neighbouring bytes at a time.
// Apart from the runs because a digit needs a multiplication, not a shift.
#ifndef NIBBLE_BACKENDS_GPU_BASE3_H
#define NIBBLE_BACKENDS_GPU_BASE3_H

#include "backends/gpu/bodies.h"
#include "backends/gpu/engines.h"
#include "backends/gpu/stage.h"

namespace nibble::gpu {

template <class F, class Out>
__global__ void __launch_bounds__(kThreads, kResident) base3_kernel(Tiles tiles) {
  constexpr int N = kChunk<Out>;
  alignas(16) __shared__ std::uint8_t blocks[kTileBytes<F> + 16];
  const unsigned first = threadIdx.x * N;
  const int place = static_cast<int>(first % F::kBlockValues);
  static_assert(kThreads * N % F::kBlockValues == 0);
  const Tile tile = tiles.tile(blockIdx.x, Out::kBytes);
  stage_blocks<F>(tiles, tile, blocks);
  __syncthreads();
  const std::uint8_t* own = blocks + first / F::kBlockValues * F::kBlockBytes;
  store_tile<Out>(tile, [&](unsigned step, float(&out)[N]) {
    const std::uint8_t* block = own + step / F::kBlockValues * F::kBlockBytes;
    decode_base3<F, N>(block, place, F::scale(block), out);
  });
}

inline nibble_status decode_base3_on(nibble_format from, nibble_format to, const Rows& rows, Stream stream,
                                     nibble_text* why) {
  return with_types<Engine::base3>(from, to, rows.power != nullptr, [&](auto f, auto out) {
    return launch_tiles(base3_kernel<decltype(f), decltype(out)>, "decode base 3", kThreads, kTileValues, rows, stream,
                        why);
  });
}

}  // namespace nibble::gpu

#endif
