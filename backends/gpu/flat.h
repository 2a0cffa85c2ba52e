// The engine for codes over the whole tensor.
// Apart from the staged engines because codes lie in words that any chunk can load, and blocks run across rows.
//
// The scales' type decides whether they are read or made in the value pass: one kernel is both paths of nested weights.
#ifndef NIBBLE_BACKENDS_GPU_FLAT_H
#define NIBBLE_BACKENDS_GPU_FLAT_H

#include "backends/gpu/bodies.h"
#include "backends/gpu/engines.h"
#include "backends/gpu/scales.h"
#include "backends/gpu/stage.h"

#include <iterator>

namespace nibble::gpu {

/// A tile is 4 KiB of output, 64 bytes a thread: small tiles by small blocks keep writes close together, and the last
/// blocks of a small tensor busy (measured: bench/results).
inline constexpr int kFlatThreads = 64;
template <class Out>
inline constexpr int kFlatPiece = 64 / Out::kBytes;  ///< values of a thread; no more than a block of the weight has
template <class Out>
inline constexpr int kFlatTile = kFlatThreads* kFlatPiece<Out>;

/// The codes' values in shared memory: the format's own 16, or the weight's 256.
template <class F>
__device__ inline void fill_flat_codes(const float* code, float* table) {
  if constexpr (F::kEngine == Engine::flat8) {
    for (int i = threadIdx.x; i < 256; i += kFlatThreads) table[i] = code[i];
  } else if (threadIdx.x == 0) {
    fill_codes<F>(table);
  }
}

/// A tile that is short, or starts at any value, or whose output is not aligned: by chunks where they are, else by
/// value.
template <class F, class Out, class Scales>
__device__ inline void decode_flat_slowly(const Tile& tile, const std::uint8_t* src, std::int64_t index,
                                          const Scales& scales, const float* table) {
  constexpr int N = kChunk<Out>, kBits = kFlatBits<F>;
  using Word = CodeWord<kBits, N>;
  const bool chunks = index % N == 0 && is_aligned(src, alignof(Word)) && is_aligned(tile.dst, 16);
#pragma unroll 1
  for (int v = static_cast<int>(threadIdx.x) * N; v < tile.values; v += kFlatThreads * N) {
    std::uint8_t* dst = tile.dst + v * Out::kBytes;
    if (chunks && v + N <= tile.values) {
      float out[N];
      decode_flat<kBits, N>(*reinterpret_cast<const Word*>(src + (index + v) * kBits / 8), table,
                            scaled_for<Out>(tile, scales.of(index + v)), out);
      store_streaming(dst, packed<Out>(out));
      continue;
    }
    for (int i = 0; i < N && v + i < tile.values; ++i) {
      const std::int64_t at = index + v + i;
      Out::store(dst + i * Out::kBytes,
                 mul_rn(table[flat_code_at<kBits>(src, at)], scaled_for<Out>(tile, scales.of(at))));
    }
  }
}

/// A thread's 64 bytes of a full tile: codes that lie together, under one scale.
template <class F, class Out, class Scales>
struct FlatPiece {
  static constexpr int N = kChunk<Out>, kBits = kFlatBits<F>, kWords = kFlatPiece<Out> * kBits / 32, kChunks = 4;

  std::uint32_t codes[kWords];
  typename Scales::Held held;

  __device__ inline void load(const std::uint8_t* src, std::int64_t index, const Scales& scales) {
    index += static_cast<int>(threadIdx.x) * kFlatPiece<Out>;
    load_once(src + index * kBits / 8, codes);
    held = scales.load(index);
  }

  /// Each thread starts at another chunk, so that those of a warp hit different banks.
  __device__ inline void decode(const Scales& scales, const Tile& tile, const float* table,
                                std::uint8_t* shared) const {
    // Not each value: exact either way, but where an 8-bit code above 1 takes a scale beyond f32, which stays finite
    // here.
    const float scale = scaled_for<Out>(tile, scales.made(held));
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int j = (c + static_cast<int>(threadIdx.x) / 2) % kChunks;
      float out[N];
      decode_flat<kBits, N>(chunk_codes<kBits, N>(codes, j), table, scale, out);
      reinterpret_cast<Word16*>(shared)[static_cast<int>(threadIdx.x) * kChunks + j] = packed<Out>(out);
    }
  }
};

template <class F, class Out, class Scales>
__global__ void __launch_bounds__(kFlatThreads) flat_kernel(Tiles tiles, Scales scales, const float* code) {
  alignas(128) __shared__ std::uint8_t values[kFlatTile<Out> * Out::kBytes];
  __shared__ float table[1 << kFlatBits<F>];
  const Tile tile = tiles.tile(blockIdx.x, Out::kBytes);
  const std::uint8_t* src = tiles.rows.src;
  const std::int64_t index = tile.src + tile.begin;
  const bool whole =
      tile.values == kFlatTile<Out> && index % kFlatPiece<Out> == 0 && is_aligned(src, 16) && is_aligned(tile.dst, 16);
  // The loads come before the barrier, which then costs nothing that they do not.
  FlatPiece<F, Out, Scales> piece;
  if (whole) piece.load(src, index, scales);
  fill_flat_codes<F>(code, table);
  __syncthreads();
  if (whole) {
    piece.decode(scales, tile, table, values);
    write_shared<kFlatThreads>(tile.dst, values, sizeof values);
  } else {
    decode_flat_slowly<F, Out>(tile, src, index, scales, table);
  }
}

template <class Scales>
nibble_status launch_flat(const nibble_weight& w, nibble_format to, const Rows& rows, const Scales& scales,
                          const float* code, Stream stream, nibble_text* why) {
  const auto go = [&](auto f, auto out) {
    return launch_tiles(flat_kernel<decltype(f), decltype(out), Scales>, "decode codebook", kFlatThreads,
                        kFlatTile<decltype(out)>, rows, stream, why, scales, code);
  };
  if constexpr (std::is_same_v<Scales, StoredScales>) {
    if (w.packed.format == NIBBLE_BLOCKWISE8)
      return with_types<Engine::flat8>(w.packed.format, to, rows.power != nullptr, go);
  }
  return with_types<Engine::flat4>(w.packed.format, to, rows.power != nullptr, go);
}

}  // namespace nibble::gpu

#endif
