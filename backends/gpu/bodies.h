// What one thread does to turn packed bytes into 4 or 8 neighbouring values, for host and device.
// Apart from the kernels because nothing here needs another thread, so a host test can run all of it.
//
// A block lies at a multiple of its size from a 16-byte boundary, and 4 bytes after it may be read.
#ifndef NIBBLE_BACKENDS_GPU_BODIES_H
#define NIBBLE_BACKENDS_GPU_BODIES_H

#include "backends/gpu/device.h"
#include "core/formats/description.h"
#include "core/formats/grids.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <type_traits>
#include <utility>

namespace nibble::gpu {

/// Byte i of `word` as a float: the byte becomes the last bits of 2^23, which is then taken away, with `bias`. Exact.
NIBBLE_HD inline float float_of_byte(std::uint32_t word, int i, float bias) {
  const std::uint32_t bits = pick_bytes(word, 0x4b000000u, 0x7440u | static_cast<std::uint32_t>(i));
  return add_rn(float_from_bits(bits), -(8388608.0f + bias));
}

/// Code i of a format as a float. A device cannot index the constants, so i is one too.
template <class F, int i>
inline constexpr float kCodeValue = static_cast<float>(F::kCodes[i]);

/// All 16 codes of a format.
template <class F, int... i>
NIBBLE_HD inline void fill_codes(float* table, std::integer_sequence<int, i...>) {
  ((table[i] = kCodeValue<F, i>), ...);
}
template <class F>
NIBBLE_HD inline void fill_codes(float* table) {
  fill_codes<F>(table, std::make_integer_sequence<int, 16>{});
}

// ---- runs

/// What a run keeps beside its codes: a scale, with a min where the format has one.
template <class F>
using RunScale = std::conditional_t<F::kCombine == Combine::sum, Scale, float>;

template <class F>
NIBBLE_HD inline RunScale<F> run_scale(const std::uint8_t* block, int r) {
  if constexpr (F::kCombine == Combine::sum) {
    return F::scale(block, r);
  } else {
    return F::scale(block, r).scale;
  }
}

/// The largest power of two up to 16 that divides the address of a plane of every run.
template <class F>
consteval int plane_alignment(Plane Run::*plane) {
  int a = std::gcd(16, F::kBlockBytes);
  for (int r = 0; r < F::kBlockValues / F::kRunLength; ++r) a = std::gcd(a, (F::run(r).*plane).at);
  return a;
}

/// Codes l .. l+N-1 of a plane, a byte each; l is a multiple of N.
template <class F, Plane Run::*plane, int N>
NIBBLE_HD inline void plane_codes(const std::uint8_t* block, const Plane& p, int l, std::uint32_t (&out)[N / 4]) {
  constexpr Plane kPlane = F::run(0).*plane;  // bits and packing are those of every run
  constexpr std::uint32_t kMask = 0x01010101u * ((1u << kPlane.bits) - 1u);
  if constexpr (kPlane.packing == Packing::bits) {
    NIBBLE_UNROLL
    for (int i = 0; i < N / 4; ++i) {
      const int first = l + 4 * i;
      if constexpr (kPlane.bits == 1) {
        const std::uint32_t four = static_cast<std::uint32_t>(block[p.at + first / 8]) >> (first & 4) & 15u;
        out[i] = four * 0x00204081u & kMask;  // bit i to bit 8i
      } else {
        static_assert(kPlane.bits == 2);
        std::uint32_t x = block[p.at + first / 4];
        x = (x | x << 12) & 0x000f000fu;
        out[i] = (x | x << 6) & kMask;
      }
    }
  } else {
    constexpr bool kHalves = kPlane.packing == Packing::halves;
    load_words<plane_alignment<F>(plane)>(block + p.at + (kHalves ? l & 7 : l), out);
    if constexpr (kPlane.bits != 8) {
      NIBBLE_UNROLL
      for (int i = 0; i < N / 4; ++i) out[i] = out[i] >> (kHalves ? (l & 8) / 2 : p.shift) & kMask;
    }
  }
}

/// Codes l and l+1 of a plane, a byte each; l is even.
template <class F, Plane Run::*plane>
NIBBLE_HD inline std::uint32_t plane_codes2(const std::uint8_t* block, const Plane& p, int l) {
  constexpr Plane kPlane = F::run(0).*plane;
  constexpr std::uint32_t kMask = 0x0101u * ((1u << kPlane.bits) - 1u);
  if constexpr (kPlane.packing == Packing::bits) {
    constexpr int kPerByte = 8 / kPlane.bits;
    const std::uint32_t two = static_cast<std::uint32_t>(block[p.at + l / kPerByte]) >> l % kPerByte * kPlane.bits;
    return (two | two << (8 - kPlane.bits)) & kMask;
  } else {
    constexpr bool kHalves = kPlane.packing == Packing::halves;
    const std::uint32_t two = load_half_word<plane_alignment<F>(plane)>(block + p.at + (kHalves ? l & 7 : l));
    if constexpr (kPlane.bits == 8) return two;
    return two >> (kHalves ? (l & 8) / 2 : p.shift) & kMask;
  }
}

template <class F>
NIBBLE_HD inline std::uint32_t run_codes2(const std::uint8_t* block, const Run& run, int l) {
  const std::uint32_t low = plane_codes2<F, &Run::low>(block, run.low, l);
  if constexpr (F::run(0).high.bits == 0) {
    return low;
  } else {
    return low | plane_codes2<F, &Run::high>(block, run.high, l) << F::run(0).low.bits;
  }
}

template <class F, int N>
NIBBLE_HD inline void run_codes(const std::uint8_t* block, const Run& run, int l, std::uint32_t (&out)[N / 4]) {
  plane_codes<F, &Run::low, N>(block, run.low, l, out);
  if constexpr (F::run(0).high.bits != 0) {
    std::uint32_t high[N / 4];
    plane_codes<F, &Run::high, N>(block, run.high, l, high);
    NIBBLE_UNROLL
    for (int i = 0; i < N / 4; ++i) out[i] |= high[i] << F::run(0).low.bits;
  }
}

/// Values l .. l+N-1 of a run. `table` holds the format's codes as floats, if it has any.
template <class F, int N>
NIBBLE_HD inline void decode_run(const std::uint8_t* block, const Run& run, int l, const RunScale<F>& scale,
                                 const float* table, float (&out)[N]) {
  constexpr bool kSigned = requires { F::kSigned; };
  std::uint32_t fours[N / 4];
  run_codes<F, N>(block, run, l, fours);
  NIBBLE_UNROLL
  for (int four = 0; four < N; four += 4) {
    const std::uint32_t codes = fours[four / 4] ^ (kSigned ? 0x80808080u : 0u);
    NIBBLE_UNROLL
    for (int i = 0; i < 4; ++i) {
      float& y = out[four + i];
      if constexpr (F::kCombine == Combine::table) {
        y = mul_rn(table[codes >> 8 * i & 15u], scale);
      } else if constexpr (F::kCombine == Combine::sum) {
        y = add_rn(mul_rn(float_of_byte(codes, i, 0.0f), scale.scale), scale.min);
      } else {
        y = mul_rn(float_of_byte(codes, i, kSigned ? 128.0f : static_cast<float>(F::kBias)), scale);
      }
    }
  }
}

// ---- grids

/// A grid entry as the kernels keep it: signed bytes with 128 added.
template <class Entry>
NIBBLE_HD constexpr Entry biased_entry(Entry e) {
  return e ^ static_cast<Entry>(0x8080808080808080u);
}

/// A grid of them.
template <class Entry, int kSize>
struct GridData {
  Entry entries[kSize];
};
template <Grid grid>
consteval auto biased_grid() {
  constexpr const auto& kTable = grid_table<grid>();
  using Entry = std::remove_cvref_t<decltype(kTable[0])>;
  GridData<Entry, static_cast<int>(std::size(kTable))> out{};
  for (std::size_t i = 0; i < std::size(kTable); ++i) out.entries[i] = biased_entry(kTable[i]);
  return out;
}

/// Values j .. j+N-1 of a block, j a multiple of N. `grid` holds biased entries, aligned to 8 bytes.
template <class F, int N>
NIBBLE_HD inline void decode_grid(const std::uint8_t* block, int j, const typename F::Entry* grid, float (&out)[N]) {
  const GridGroup g = F::group(block, j / 8);
  NIBBLE_UNROLL
  for (int four = 0; four < N; four += 4) {
    const int half = N == 8 ? four / 4 : j / 4 & 1;
    std::uint32_t entry = 0;
    if constexpr (sizeof(typename F::Entry) == 8) {
      entry = reinterpret_cast<const Word8*>(grid)[g.index[0]].w[half];
    } else {
      entry = grid[half == 0 ? g.index[0] : g.index[1]];
    }
    const std::uint32_t signs = g.signs >> 4 * half;
    NIBBLE_UNROLL
    for (int i = 0; i < 4; ++i) {
      float v = float_of_byte(entry, i, 128.0f);
      if constexpr (F::kHasDelta) v = add_rn(v, g.delta);
      // Multiplying by -1 flips the sign bit.
      out[four + i] = float_from_bits(float_bits(mul_rn(g.scale, v)) ^ (signs << (31 - i) & 0x80000000u));
    }
  }
}

// ---- base 3

/// Where digits j .. j+3 of a block are, j a multiple of 4: one digit of four neighbouring bytes.
template <class F>
struct Base3Place {
  int at;               ///< the bytes, in the block
  std::uint32_t power;  ///< of 3, which brings their digit to the front

  NIBBLE_HD explicit Base3Place(int j) {
    constexpr int kSecond = F::kSections[0].bytes * F::kSections[0].digits;
    constexpr int kThird = kSecond + F::kSections[1].bytes * F::kSections[1].digits;
    const auto pick = [j](int first, int second, int third) {
      return j < kSecond ? first : j < kThird ? second : third;
    };
    const int in_section = j - pick(0, kSecond, kThird);
    const int shift = pick(kShift<0>, kShift<1>, kShift<2>);
    const int n = in_section >> shift;
    at = pick(F::kSections[0].at, F::kSections[1].at, F::kSections[2].at) + (in_section & ((1 << shift) - 1));
    power = n == 0 ? 1u : n == 1 ? 3u : n == 2 ? 9u : n == 3 ? 27u : 81u;
  }

 private:
  /// Of a section's bytes, a power of two: a division would cost more than all the rest.
  template <int i>
  static constexpr int kShift = std::countr_zero(static_cast<unsigned>(F::kSections[i].bytes));
  static_assert(F::kSections[0].bytes == 1 << kShift<0> && F::kSections[1].bytes == 1 << kShift<1> &&
                F::kSections[2].bytes == 1 << kShift<2>);
};

/// Those digits, a byte each.
template <class F>
NIBBLE_HD inline std::uint32_t base3_digits4(const std::uint8_t* block, const Base3Place<F>& place) {
  const std::uint32_t word = load_word<std::gcd(16, F::kBlockBytes)>(block + place.at);
  // Two bytes at a time, each in 16 bits: digit = ((byte * power) % 256) * 3 / 256.
  const std::uint32_t even = ((word & 0x00ff00ffu) * place.power & 0x00ff00ffu) * 3u >> 8 & 0x00030003u;
  const std::uint32_t odd = ((word >> 8 & 0x00ff00ffu) * place.power & 0x00ff00ffu) * 3u & 0x03000300u;
  return even | odd;
}

template <class F, int N>
NIBBLE_HD inline void decode_base3(const std::uint8_t* block, int j, float scale, float (&out)[N]) {
  NIBBLE_UNROLL
  for (int four = 0; four < N; four += 4) {
    const std::uint32_t digits = base3_digits4(block, Base3Place<F>(j + four));
    NIBBLE_UNROLL
    for (int i = 0; i < 4; ++i) out[four + i] = mul_rn(float_of_byte(digits, i, 1.0f), scale);
  }
}

// ---- elements

/// N elements as they lie in memory: 8, 16 or 32 bytes.
struct alignas(16) Word32 {
  std::uint32_t w[8];
};
template <int kBytes, int N>
using ElementWord = std::conditional_t<kBytes * N == 32, Word32, std::conditional_t<kBytes * N == 16, Word16, Word8>>;

/// A format gives its value by the element's bytes; their order in a word is the same on host and device.
template <class F, int N>
NIBBLE_HD inline void decode_elements(const ElementWord<F::kBlockBytes, N>& x, float (&out)[N]) {
  NIBBLE_UNROLL
  for (int i = 0; i < N; ++i) {
    const std::uint32_t word = x.w[i * F::kBlockBytes / 4];
    const std::uint32_t bits = F::kBlockBytes == 4 || i % 2 == 0 ? word : word >> 16;
    const std::uint8_t bytes[4] = {static_cast<std::uint8_t>(bits), static_cast<std::uint8_t>(bits >> 8),
                                   static_cast<std::uint8_t>(bits >> 16), static_cast<std::uint8_t>(bits >> 24)};
    out[i] = F::value(bytes, 0);
  }
}

// ---- codes over the whole tensor

template <class F>
inline constexpr int kFlatBits = F::kEngine == Engine::flat4 ? 4 : 8;

/// N codes as they lie in memory.
template <int kBits, int N>
using CodeWord =
    std::conditional_t<kBits * N == 64, Word8, std::conditional_t<kBits * N == 32, std::uint32_t, std::uint16_t>>;

/// Code i of a word; of two codes in a byte the first is the high one.
template <int kBits>
NIBBLE_HD inline std::uint32_t flat_code(std::uint32_t word, int i) {
  if constexpr (kBits == 4) return word >> 4 * (i ^ 1) & 15u;
  return word >> 8 * i & 255u;
}

/// The N values of a word whose codes are all of one block.
template <int kBits, int N>
NIBBLE_HD inline void decode_flat(const CodeWord<kBits, N>& codes, const float* table, float scale, float (&out)[N]) {
  NIBBLE_UNROLL
  for (int i = 0; i < N; ++i) {
    if constexpr (kBits * N == 64) {
      out[i] = mul_rn(table[flat_code<kBits>(codes.w[i / 4], i % 4)], scale);
    } else {
      out[i] = mul_rn(table[flat_code<kBits>(codes, i)], scale);
    }
  }
}

/// The codes of chunk j, of N codes, of those that a thread holds. By selection among words that are read first: a
/// device cannot index its registers, and clang would select among addresses where it can, which puts them in scratch
/// memory.
template <int kBits, int N, int kWords>
NIBBLE_HD inline CodeWord<kBits, N> chunk_codes(const std::uint32_t (&held)[kWords], int j) {
  const auto word = [&held](int i) {
    std::uint32_t w = held[0];
    NIBBLE_UNROLL
    for (int k = 1; k < kWords; ++k) {
      const std::uint32_t other = held[k];
      w = i == k ? other : w;
    }
    return w;
  };
  if constexpr (kBits * N == 64) {
    return {word(2 * j), word(2 * j + 1)};
  } else if constexpr (kBits * N == 32) {
    return word(j);
  } else {
    return static_cast<std::uint16_t>(word(j / 2) >> 16 * (j % 2));
  }
}

/// The code of value `index` of the tensor.
template <int kBits>
NIBBLE_HD inline std::uint32_t flat_code_at(const std::uint8_t* packed, std::int64_t index) {
  if constexpr (kBits == 4) return packed[index / 2] >> (index % 2 == 0 ? 4 : 0) & 15u;
  return packed[index];
}

}  // namespace nibble::gpu

#endif
