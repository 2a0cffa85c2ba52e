// Words, conversions, loads and stores of a GPU thread, with a plain form of each for the host.
// Apart from the engines so that this is the one file of theirs where a compiler is asked for by name.
#ifndef NIBBLE_BACKENDS_GPU_DEVICE_H
#define NIBBLE_BACKENDS_GPU_DEVICE_H

#include "core/numeric.h"

#include <cstdint>
#include <cstring>

#if defined(__CUDA_ARCH__)
#define NIBBLE_CUDA_PASS 1
#else
#define NIBBLE_CUDA_PASS 0
#endif

// Whether an engine of the device's copies between shared and global memory.
#if NIBBLE_CUDA_PASS
#define NIBBLE_BULK_COPIES (__CUDA_ARCH__ >= 900)
#else
#define NIBBLE_BULK_COPIES 0
#endif

// Whether tensor cores multiply halves 16 deep, and copies to shared memory run beside the threads.
#if NIBBLE_CUDA_PASS
#define NIBBLE_HALF_CORES (__CUDA_ARCH__ >= 800)
#else
#define NIBBLE_HALF_CORES 0
#endif

// Whether a warpgroup's tensor cores multiply together: code for 9.0 and nothing else.
#if NIBBLE_CUDA_PASS && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define NIBBLE_WARPGROUP_CORES 1
#else
#define NIBBLE_WARPGROUP_CORES 0
#endif

// Whether decoders make halves of scaled values: only CUDA's products ask for them.
#if defined(__HIPCC__)
#define NIBBLE_SCALED_HALVES 0
#else
#define NIBBLE_SCALED_HALVES 1
#endif

// Device code unrolls loops whose array indexes must be constants; a host compiler is left to itself.
#if NIBBLE_DEVICE_PASS
#define NIBBLE_UNROLL _Pragma("unroll")
#else
#define NIBBLE_UNROLL
#endif

namespace nibble::gpu {

/// Shared memory of a multiprocessor, as the smallest chips have it that the bounds on registers were chosen for.
inline constexpr int kSharedBytes = NIBBLE_CUDA_PASS ? 100 << 10 : 64 << 10;
/// Threads of a multiprocessor: 7.5 has room for fewer than all later ones.
#if NIBBLE_CUDA_PASS && __CUDA_ARCH__ < 800
inline constexpr int kThreadsAtOnce = 1024;
#else
inline constexpr int kThreadsAtOnce = 1536;
#endif

/// 16 bytes that move as one.
struct alignas(16) Word16 {
  std::uint32_t w[4];
};
struct alignas(8) Word8 {
  std::uint32_t w[2];
};

/// Four bytes of (b, a) picked by the nibbles of `selector`, 0..3 from a.
NIBBLE_HD inline std::uint32_t pick_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
#if NIBBLE_DEVICE_PASS
  return __byte_perm(a, b, selector);
#else
  const std::uint64_t all = static_cast<std::uint64_t>(b) << 32 | a;
  std::uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    out |= static_cast<std::uint32_t>(all >> 8 * (selector >> 4 * i & 7u) & 255u) << 8 * i;
  }
  return out;
#endif
}

/// The words that start at any byte: an unaligned load from shared memory. `kAlignment` is what the caller knows of the
/// address. Reads the whole aligned words that hold their bytes, and up to 4 bytes behind them.
template <int kAlignment, int kWords>
NIBBLE_HD inline void load_words(const std::uint8_t* at, std::uint32_t (&out)[kWords]) {
#if NIBBLE_DEVICE_PASS
  if constexpr (kAlignment % 4 == 0) {
    NIBBLE_UNROLL
    for (int i = 0; i < kWords; ++i) out[i] = reinterpret_cast<const std::uint32_t*>(at)[i];
  } else {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    const auto* words = reinterpret_cast<const std::uint32_t*>(at - (address & 3u));
    const unsigned shift = static_cast<unsigned>(address & 3u) * 8u;
    NIBBLE_UNROLL
    for (int i = 0; i < kWords; ++i) out[i] = __funnelshift_r(words[i], words[i + 1], shift);
  }
#else
  for (int i = 0; i < kWords; ++i) out[i] = load_u32(at + 4 * i);
#endif
}
template <int kAlignment>
NIBBLE_HD inline std::uint32_t load_word(const std::uint8_t* at) {
  std::uint32_t word[1];
  load_words<kAlignment>(at, word);
  return word[0];
}
template <int kAlignment>
NIBBLE_HD inline std::uint32_t load_half_word(const std::uint8_t* at) {
#if NIBBLE_DEVICE_PASS
  if constexpr (kAlignment % 2 == 0) return *reinterpret_cast<const std::uint16_t*>(at);
#endif
  return static_cast<std::uint32_t>(at[0]) | static_cast<std::uint32_t>(at[1]) << 8;
}

/// x and y as two halves of a word, x in the low one.
struct AsHalf {
  static constexpr int kBytes = 2;
  static NIBBLE_HD inline std::uint32_t pair(float x, float y) {
#if NIBBLE_CUDA_PASS && __CUDA_ARCH__ >= 800
    std::uint32_t out;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(y), "f"(x));
    return out;
#else
    return half_from_float(x) | static_cast<std::uint32_t>(half_from_float(y)) << 16;
#endif
  }
  static NIBBLE_HD inline void store(std::uint8_t* at, float x) {
    const auto bits = static_cast<std::uint16_t>(pair(x, 0.0f));
    std::memcpy(__builtin_assume_aligned(at, 2), &bits, sizeof bits);
  }
};
/// The same of values that are multiplied by a power of two, so that they fit: what CUDA's products of halves read.
struct AsScaledHalf : AsHalf {
  static constexpr bool kScaled = true;
};
struct AsBfloat16 {
  static constexpr int kBytes = 2;
  static NIBBLE_HD inline std::uint32_t pair(float x, float y) {
#if NIBBLE_CUDA_PASS && __CUDA_ARCH__ >= 800
    std::uint32_t out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(y), "f"(x));
    return out;
#else
    return bfloat16_from_float(x) | static_cast<std::uint32_t>(bfloat16_from_float(y)) << 16;
#endif
  }
  static NIBBLE_HD inline void store(std::uint8_t* at, float x) {
    const auto bits = static_cast<std::uint16_t>(pair(x, 0.0f));
    std::memcpy(__builtin_assume_aligned(at, 2), &bits, sizeof bits);
  }
};
struct AsFloat {
  static constexpr int kBytes = 4;
  static NIBBLE_HD inline void store(std::uint8_t* at, float x) {
    std::memcpy(__builtin_assume_aligned(at, 4), &x, sizeof x);
  }
};

/// Values that one 16-byte store of an output type takes: what a thread decodes at a time.
template <class Out>
inline constexpr int kChunk = 16 / Out::kBytes;

/// The 16 bytes of a chunk.
template <class Out>
NIBBLE_HD inline Word16 packed(const float (&x)[kChunk<Out>]) {
  Word16 out;
  if constexpr (Out::kBytes == 4) {
    NIBBLE_UNROLL
    for (int i = 0; i < 4; ++i) out.w[i] = float_bits(x[i]);
  } else {
    NIBBLE_UNROLL
    for (int i = 0; i < 4; ++i) out.w[i] = Out::pair(x[2 * i], x[2 * i + 1]);
  }
  return out;
}

/// Words that are read once, 8 or 16 bytes as one load. `at` is aligned to as many.
template <int kWords>
NIBBLE_HD inline void load_once(const std::uint8_t* at, std::uint32_t (&out)[kWords]) {
  static_assert(kWords == 2 || kWords % 4 == 0);
#if NIBBLE_CUDA_PASS
  if constexpr (kWords == 2) {
    const uint2 x = __ldcs(reinterpret_cast<const uint2*>(at));
    out[0] = x.x, out[1] = x.y;
  } else {
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      const uint4 x = __ldcs(reinterpret_cast<const uint4*>(at) + i / 4);
      out[i] = x.x, out[i + 1] = x.y, out[i + 2] = x.z, out[i + 3] = x.w;
    }
  }
#else
  std::memcpy(out, __builtin_assume_aligned(at, kWords == 2 ? 8 : 16), sizeof out);
#endif
}

/// One 16-byte store that does not displace what the caches hold for reading.
NIBBLE_HD inline void store_streaming(std::uint8_t* at, const Word16& x) {
#if NIBBLE_CUDA_PASS
  __stcs(reinterpret_cast<uint4*>(at), make_uint4(x.w[0], x.w[1], x.w[2], x.w[3]));
#else
  std::memcpy(__builtin_assume_aligned(at, 16), &x, sizeof x);
#endif
}

NIBBLE_HD inline bool is_aligned(const void* at, int bytes) {
  return reinterpret_cast<std::uintptr_t>(at) % static_cast<unsigned>(bytes) == 0;
}

}  // namespace nibble::gpu

#endif
