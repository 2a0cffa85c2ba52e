// The scales and mins of a few blocks of a format of runs, computed together.
// Apart from the engine because it knows codes, and this knows bytes, halves and words of packed integers.
#if defined(NIBBLE_BACKENDS_CPU_SCALES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NIBBLE_BACKENDS_CPU_SCALES_INL_H
#undef NIBBLE_BACKENDS_CPU_SCALES_INL_H
#else
#define NIBBLE_BACKENDS_CPU_SCALES_INL_H
#endif

#include "core/formats/formats.h"

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "backends/cpu/bytes-inl.h"
#include "backends/cpu/halves-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
template <class F>
inline constexpr int kRuns = F::kBlockValues / F::kRunLength;

constexpr int kBatch = 16;  // blocks whose scales are computed together

template <class F>
concept HasHalves = requires {
  F::kScaleHalf;
};
template <class F>
concept HasMinHalf = requires {
  F::kMinHalf;
};
template <class F>
concept HasScaleCodes = HasHalves<F> && requires {
  F::kScaleBias;
};

/// The scales of a few blocks on end. Where halves say what they are, all are computed before the first value is: then
/// they come from memory, which costs no shuffle a run.
template <class F>
class Scales {
 public:
  HWY_INLINE Scales(const std::uint8_t* HWY_RESTRICT blocks, int /*count*/) : blocks_(blocks) {}
  HWY_INLINE Scale of(int block, int run) const { return F::scale(blocks_ + block * F::kBlockBytes, run); }

 private:
  const std::uint8_t* blocks_;
};

/// What each byte stands for: a load where computing it branches.
template <class F>
struct ByteScales {
  float of[256];
  constexpr ByteScales() : of{} {
    for (std::uint32_t i = 0; i < 256; ++i) of[i] = F::byte_scale(i);
  }
};
template <class F>
inline constexpr ByteScales<F> kByteScales{};

template <class F>
requires requires { F::kScaleBytes; }
class Scales<F> {
 public:
  HWY_INLINE Scales(const std::uint8_t* HWY_RESTRICT blocks, int /*count*/) : bytes_(blocks + F::kScaleBytes) {}
  HWY_INLINE Scale of(int block, int run) const { return {kByteScales<F>.of[bytes_[block * F::kBlockBytes + run]]}; }

 private:
  const std::uint8_t* bytes_;
};

#if HWY_TARGET != HWY_SCALAR

/// The 16 bits at byte kAt of each block, two bytes further too in the upper half where kTwo.
template <class F, int kAt, bool kTwo>
HWY_INLINE void gather_halves(const std::uint8_t* HWY_RESTRICT blocks, int count, std::uint32_t* HWY_RESTRICT to) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  const Du d;
  constexpr bool kAtEnd = kAt + 4 > F::kBlockBytes;  // four bytes are read, none of them behind the block
  static_assert(!(kAtEnd && kTwo) && kAt >= (kAtEnd ? 2 : 0));
  const auto* from = reinterpret_cast<const std::int32_t*>(blocks + kAt - (kAtEnd ? 2 : 0));
  for (int i = 0; i < kBatch; i += static_cast<int>(hn::Lanes(d))) {
    const auto block = hn::Min(hn::Iota(Di(), i), hn::Set(Di(), count - 1));
    const auto words = hn::BitCast(d, hn::GatherOffset(Di(), from, hn::Mul(block, hn::Set(Di(), F::kBlockBytes))));
    hn::Store(kAtEnd ? hn::ShiftRight<16>(words) : words, d, to + i);
  }
#else
  for (int i = 0; i < count; ++i) {
    const std::uint8_t* from = blocks + i * F::kBlockBytes + kAt;
    to[i] = kTwo ? load_u32(from) : load_u16(from);
  }
  std::fill(to + count, to + kBatch, 0u);
#endif
}

/// The halves of a few blocks as f32.
template <class F>
class BlockHalves {
 public:
  HWY_INLINE BlockHalves(const std::uint8_t* HWY_RESTRICT blocks, int count) {
    const Du d;
    alignas(64) std::uint32_t words[kBatch];
    gather_halves<F, F::kScaleHalf, HasMinHalf<F>>(blocks, count, words);
    for (int i = 0; i < kBatch; i += static_cast<int>(hn::Lanes(d))) {
      const auto both = hn::Load(d, words + i);
      hn::Store(widen_half_bits(hn::And(both, hn::Set(d, 0xffff))), Df(), scale + i);
      if constexpr (HasMinHalf<F>) {
        static_assert(F::kMinHalf == F::kScaleHalf + 2);
        hn::Store(widen_half_bits(hn::ShiftRight<16>(both)), Df(), min + i);
      }
    }
  }
  alignas(64) float scale[kBatch], min[HasMinHalf<F> ? kBatch : 1];
};

template <class F>
requires HasHalves<F>
class Scales<F> {
 public:
  HWY_INLINE Scales(const std::uint8_t* HWY_RESTRICT blocks, int count) : halves_(blocks, count) {}
  HWY_INLINE Scale of(int block, int /*run*/) const {
    return {halves_.scale[block], HasMinHalf<F> ? halves_.min[block] : 0.0f};
  }

 private:
  BlockHalves<F> halves_;
};

template <class F>
requires HasScaleCodes<F>
class Scales<F> {
 public:
  HWY_INLINE Scales(const std::uint8_t* HWY_RESTRICT blocks, int count) {
    const BlockHalves<F> halves(blocks, count);
    for (int i = 0; i < count; ++i, blocks += F::kBlockBytes) {
      const ScaleCodes codes = F::scale_codes(blocks);
      multiply<0>(codes.scale, F::kScaleBias, halves.scale[i], scale_[i]);
      if constexpr (HasMinHalf<F>) multiply<0>(codes.min, 0, -halves.min[i], min_[i]);
    }
  }
  HWY_INLINE Scale of(int block, int run) const {
    return {scale_[block][run], HasMinHalf<F> ? min_[block][run] : 0.0f};
  }

 private:
  template <std::size_t kFrom>
  static HWY_INLINE void multiply(const std::uint64_t (&codes)[2], int bias, float half, float* HWY_RESTRICT to) {
    const hn::FixedTag<std::uint64_t, 1> d64;
    const hn::FixedTag<std::int8_t, 16> d8;
    const Df d;
    const auto words = hn::Combine(hn::FixedTag<std::uint64_t, 2>(), hn::Set(d64, codes[1]), hn::Set(d64, codes[0]));
    const auto bytes = hn::Sub(hn::BitCast(d8, words), hn::Set(d8, static_cast<std::int8_t>(bias)));
    hn::Store(hn::Mul(hn::Set(d, half), bytes_to_floats<kFrom>(d, bytes)), d, to + kFrom);
    constexpr std::size_t kNext = kFrom + hn::MaxLanes(Df());
    if constexpr (kNext < kRuns<F>) multiply<kNext>(codes, bias, half, to);
  }

  alignas(64) float scale_[kBatch][16], min_[HasMinHalf<F> ? kBatch : 1][16];
};

#endif
}  // namespace nibble::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
