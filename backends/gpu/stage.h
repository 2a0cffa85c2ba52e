// A tile of packed bytes from global to shared memory, and a tile of values from threads to global memory.
// Apart from the engines because blocks of 18, 34, 66 or 210 bytes defeat aligned loads in each of them alike.
#ifndef NIBBLE_BACKENDS_GPU_STAGE_H
#define NIBBLE_BACKENDS_GPU_STAGE_H

#include "backends/gpu/device.h"
#include "backends/gpu/rows.h"

#include <cstdint>

namespace nibble::gpu {

/// Threads of every decode kernel's block, and values that it decodes between two barriers.
inline constexpr int kThreads = 256;
/// Blocks that a multiprocessor holds at least: what registers are cut to. HIP reads the number as wavefronts a SIMD,
/// which is the same for blocks of four wavefronts on four SIMDs.
inline constexpr int kResident = kThreadsAtOnce / kThreads;
inline constexpr int kTileValues = 8192;

/// Copies with words of one size as far as they go, and the rest by bytes. Up to kHeld loads are in flight a thread.
/// The first step that is not there ends a loop: clang would join two conditional copies into one behind a pointer, and
/// then `held` lies in a GPU's scratch memory.
template <class Word, int kHeld>
__device__ inline void stage_as(const std::uint8_t* src, int bytes, std::uint8_t* shared) {
  const int words = bytes / static_cast<int>(sizeof(Word));
  const auto* from = reinterpret_cast<const Word*>(src);
  auto* to = reinterpret_cast<Word*>(shared);
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x); first < words; first += kHeld * kThreads) {
    Word held[kHeld];
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (first + i * kThreads >= words) break;
      held[i] = from[first + i * kThreads];
    }
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (first + i * kThreads >= words) break;
      to[first + i * kThreads] = held[i];
    }
  }
  const int rest = words * static_cast<int>(sizeof(Word)) + static_cast<int>(threadIdx.x);
  if (rest < bytes) shared[rest] = src[rest];
}

/// Copies `bytes` to shared memory that is aligned to 16, with the widest loads that the source's address allows.
/// kMost is the largest number of bytes that a caller asks for. The caller synchronizes.
template <int kMost>
__device__ inline void stage(const std::uint8_t* src, int bytes, std::uint8_t* shared) {
  constexpr int kHeld = (kMost + 16 * kThreads - 1) / (16 * kThreads);
  if (is_aligned(src, 16)) {
    stage_as<Word16, kHeld>(src, bytes, shared);
  } else if (is_aligned(src, 8)) {
    stage_as<Word8, 2>(src, bytes, shared);
  } else if (is_aligned(src, 2)) {
    stage_as<std::uint16_t, 4>(src, bytes, shared);
  } else {
    stage_as<std::uint8_t, 4>(src, bytes, shared);
  }
}

template <class F>
inline constexpr int kTileBytes = kTileValues / F::kBlockValues* F::kBlockBytes;

/// The blocks of a tile to shared memory of kTileBytes<F> + 16. The caller synchronizes.
template <class F>
__device__ inline void stage_blocks(const Tiles& tiles, const Tile& tile, std::uint8_t* shared) {
  stage<kTileBytes<F>>(tiles.rows.src + tile.src + tile.begin / F::kBlockValues * F::kBlockBytes,
                       tile.values / F::kBlockValues * F::kBlockBytes, shared);
}

/// Writes `bytes`, a multiple of 16, that the block's kBlockThreads threads left in shared memory. Both ends aligned
/// to 16. All threads call it; the shared memory is not written again. Where the device has an engine for it one thread
/// hands it over: 4 KiB so reached 0.96 of copy on an H200 where stores by threads reached 0.94 (bench/results).
template <int kBlockThreads>
__device__ inline void write_shared(std::uint8_t* dst, const std::uint8_t* shared, int bytes) {
#if NIBBLE_BULK_COPIES
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x != 0) return;
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n\t"
      "cp.async.bulk.commit_group;\n\t"
      "cp.async.bulk.wait_group.read 0;" ::"l"(dst),
      "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))), "r"(bytes)
      : "memory");
#else
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x) * 16; at < bytes; at += kBlockThreads * 16) {
    store_streaming(dst + at, *reinterpret_cast<const Word16*>(shared + at));
  }
#endif
}

/// x times what an output type's values are multiplied by, if they are.
template <class Out>
__device__ inline float scaled_for(const Tile& tile, float x) {
  if constexpr (requires { Out::kScaled; }) return mul_rn(x, *tile.power);
  return x;
}

/// Stores a tile, a chunk a thread and step. decode_step(step, out) gives the values from value `step + thread * chunk`
/// on.
template <class Out, class Decode>
__device__ inline void store_tile(const Tile& tile, Decode&& decode_step) {
  constexpr int N = kChunk<Out>;
  const auto decode = [&](unsigned step, float(&out)[N]) {
    decode_step(step, out);
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = scaled_for<Out>(tile, out[i]);
  };
  const unsigned first = threadIdx.x * N, values = static_cast<unsigned>(tile.values);
  if (is_aligned(tile.dst, 16)) {
#pragma unroll 2
    for (unsigned step = 0; step < kTileValues; step += kThreads * N) {
      if (step + first >= values) break;
      float out[N];
      decode(step, out);
      store_streaming(tile.dst + (step + first) * Out::kBytes, packed<Out>(out));
    }
  } else {
#pragma unroll 1
    for (unsigned step = 0; step + first < values; step += kThreads * N) {
      float out[N];
      decode(step, out);
#pragma unroll
      for (int i = 0; i < N; ++i)
        Out::store(tile.dst + (step + first + static_cast<unsigned>(i)) * Out::kBytes, out[i]);
    }
  }
}

}  // namespace nibble::gpu

#endif
