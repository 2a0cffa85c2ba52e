// The engine for codes over the whole tensor.
// Apart from the staged engines because codes lie in words that any chunk can load, and blocks run across rows.
//
// The scales' type decides whether they are read or made in the value pass: one kernel is both paths of nested weights.
#ifndef NIBBLE_BACKENDS_GPU_FLAT_H
#define NIBBLE_BACKENDS_GPU_FLAT_H

#include "backends/gpu/bodies.h"
#include "backends/gpu/engines.h"
#include "backends/gpu/stage.h"

#include <nibble/tensor.hpp>

#include <bit>
#include <iterator>

namespace nibble::gpu {

/// Chunks that a thread holds at once, and with them the values of a tile: more cost registers that other blocks need.
inline constexpr int kFlatSteps = 4;
template <class Out>
inline constexpr int kFlatTile = kFlatSteps* kThreads* kChunk<Out>;

template <class F>
inline constexpr int kFlatBits = F::kEngine == Engine::flat4 ? 4 : 8;

/// The codes' values in shared memory: the format's own 16, or the weight's 256.
template <class F>
__device__ inline void fill_flat_codes(const float* code, float* table) {
  if constexpr (F::kEngine == Engine::flat8) {
    for (int i = threadIdx.x; i < 256; i += kThreads) table[i] = code[i];
  } else if (threadIdx.x == 0) {
    fill_codes<F>(table);
  }
}

/// A tile whose codes start at any value, or whose output is not aligned: value by value.
template <class F, class Out, class Scales>
__device__ inline void decode_flat_slowly(const std::uint8_t* src, std::int64_t index, const Scales& scales,
                                          const float* table, std::uint8_t* dst, int first, int count) {
  for (int v = first; v < count; v += kThreads) {
    const std::int64_t at = index + v;
    Out::store(dst + v * Out::kBytes, mul_rn(table[flat_code_at<kFlatBits<F>>(src, at)], scales.of(at)));
  }
}

/// A thread's part of a tile of whole chunks, on its way from memory.
template <class F, class Out>
struct FlatChunks {
  static constexpr int N = kChunk<Out>, kBits = kFlatBits<F>;
  static constexpr int kSteps = kFlatSteps;
  using Word = CodeWord<kBits, N>;

  Word codes[kSteps];
  float scale[kSteps];

  /// kFull: `count` is the whole tile. Without a branch between them all loads are under way before the first is used.
  template <bool kFull, class Scales>
  __device__ inline void load(const std::uint8_t* src, std::int64_t index, const Scales& scales, int count) {
    const int first = static_cast<int>(threadIdx.x) * N;
    const auto* words = reinterpret_cast<const Word*>(src + index * kBits / 8) + threadIdx.x;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int v = s * kThreads * N + first;
      if (!kFull && v >= count) break;
      codes[s] = words[s * kThreads];
      scale[s] = scales.of(index + v);
    }
  }

  template <bool kFull>
  __device__ inline void decode(const float* table, std::uint8_t* dst, int count) const {
    const int first = static_cast<int>(threadIdx.x) * N;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int v = s * kThreads * N + first;
      if (!kFull && v >= count) break;
      float out[N];
      decode_flat<kBits, N>(codes[s], table, scale[s], out);
      store_streaming(dst + v * Out::kBytes, packed<Out>(out));
    }
  }
};

template <class F, class Out, class Scales>
__global__ void __launch_bounds__(kThreads) flat_kernel(Tiles tiles, Scales scales, const float* code) {
  constexpr int N = kChunk<Out>;
  __shared__ float table[1 << kFlatBits<F>];
  const Tile tile = tiles.tile(blockIdx.x, Out::kBytes);
  const std::uint8_t* src = tiles.rows.src;
  const std::int64_t index = tile.src + tile.begin;
  const bool chunks = index % N == 0 && is_aligned(src, alignof(CodeWord<kFlatBits<F>, N>)) && is_aligned(tile.dst, 16);
  const int whole = chunks ? tile.values - tile.values % N : 0;
  // The loads come before the barrier, which then costs nothing that they do not.
  FlatChunks<F, Out> held;
  if (whole == kFlatTile<Out>) {
    held.template load<true>(src, index, scales, whole);
  } else {
    held.template load<false>(src, index, scales, whole);
  }
  fill_flat_codes<F>(code, table);
  __syncthreads();
  if (whole == kFlatTile<Out>) {
    held.template decode<true>(table, tile.dst, whole);
    return;
  }
  held.template decode<false>(table, tile.dst, whole);
  decode_flat_slowly<F, Out>(src, index, scales, table, tile.dst, whole + static_cast<int>(threadIdx.x), tile.values);
}

template <class Scales>
nibble_status launch_flat(const nibble_weight& w, nibble_format to, const Rows& rows, const Scales& scales,
                          const float* code, Stream stream, nibble_text* why) {
  const auto go = [&](auto f, auto out) {
    return launch_tiles(flat_kernel<decltype(f), decltype(out), Scales>, "decode codebook", kThreads,
                        kFlatTile<decltype(out)>, rows, stream, why, scales, code);
  };
  if constexpr (std::is_same_v<Scales, StoredScales>) {
    if (w.packed.format == NIBBLE_BLOCKWISE8) return with_types<Engine::flat8>(w.packed.format, to, go);
  }
  return with_types<Engine::flat4>(w.packed.format, to, go);
}

inline int shift_of(std::int64_t power_of_two) { return std::countr_zero(static_cast<std::uint64_t>(power_of_two)); }

/// The scales of a nested weight, to be made where they are used.
inline NestedScales nested_scales(const nibble_weight& w) {
  return {.absmax = bytes_of(w.absmax),
          .code = reinterpret_cast<const float*>(bytes_of(w.nested_code)),
          .nested_absmax = reinterpret_cast<const float*>(bytes_of(w.nested_absmax)),
          .offset = w.nested_offset,
          .block_shift = shift_of(w.block_size),
          .group_shift = shift_of(w.nested_block_size)};
}

}  // namespace nibble::gpu

#endif
