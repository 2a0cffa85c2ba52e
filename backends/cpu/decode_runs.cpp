// The engine for formats of runs: a vector of codes, its scale, its min, one store after another.
// Apart from the other engines because it compiles once a target and format, and they must not wait for it.
#include "backends/cpu/targets.h"

#include "backends/cpu/engines.h"
#include "core/formats/formats.h"

#include <algorithm>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/decode_runs.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/bytes-inl.h"
#include "backends/cpu/scales-inl.h"
#include "backends/cpu/sinks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
namespace {

/// What a code stands for before scale and min.
template <class F>
constexpr float code_value(int code) {
  if constexpr (F::kCombine == Combine::table)
    return static_cast<float>(F::kCodes[code]);
  else if constexpr (F::kCombine == Combine::sum)
    return static_cast<float>(code);
  else if constexpr (requires { F::kSigned; })
    return static_cast<float>(static_cast<std::int8_t>(code));
  else
    return static_cast<float>(code - F::kBias);
}

#if HWY_TARGET == HWY_SCALAR

template <class F, int kRun, class Put>
HWY_INLINE void decode_run(const std::uint8_t* HWY_RESTRICT block, Scale s, typename Put::Element* HWY_RESTRICT out,
                           const Put& put) {
  constexpr Run kThis = F::run(kRun);
  for (int l = 0; l < F::kRunLength; ++l) {
    const float product = code_value<F>(static_cast<int>(run_code(block, kThis, l))) * s.scale;
    put(F::kCombine == Combine::sum ? product + s.min : product, out + l);
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kChunk = 16;  // codes that are unpacked together: one 128-bit vector of bytes

template <class F>
inline constexpr int kCodeBits = F::run(0).low.bits + F::run(0).high.bits;

using Du8 = hn::FixedTag<std::uint8_t, kChunk>;
using Di8 = hn::FixedTag<std::int8_t, kChunk>;
using Du16 = hn::FixedTag<std::uint16_t, kChunk / 2>;
using Bytes = hn::Vec<Du8>;
constexpr std::size_t kLanes = hn::MaxLanes(Df());

/// Moves bits up by kShift, down where it is negative. There is no shift of bytes: what comes over from the neighbour
/// is for the caller to mask.
template <int kShift>
HWY_INLINE Bytes move_bits(Bytes v) {
  if constexpr (kShift > 0)
    return hn::BitCast(Du8(), hn::ShiftLeft<kShift>(hn::BitCast(Du16(), v)));
  else if constexpr (kShift < 0)
    return hn::BitCast(Du8(), hn::ShiftRight<-kShift>(hn::BitCast(Du16(), v)));
  else
    return v;
}

/// Sixteen bits from `from` on as bytes that are `set` or 0.
HWY_INLINE Bytes spread_bits(const std::uint8_t* HWY_RESTRICT from, std::uint8_t set) {
  const Du8 d;
#if HWY_TARGET == HWY_AVX3
  return hn::IfThenElseZero(hn::LoadMaskBits(d, from), hn::Set(d, set));
#else
  alignas(16) static constexpr std::uint8_t kByte[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  alignas(16) static constexpr std::uint8_t kBit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  const auto word = hn::Set(Du16(), static_cast<std::uint16_t>(load_u16(from)));
  const Bytes bit = hn::Load(d, kBit);
  const Bytes v = hn::And(hn::TableLookupBytes(hn::BitCast(d, word), hn::Load(d, kByte)), bit);
  return hn::And(hn::VecFromMask(d, hn::Eq(v, bit)), hn::Set(d, set));
#endif
}

/// Sixteen pairs of bits from `from` on; the bits above a pair are whatever lay there.
HWY_INLINE Bytes spread_pairs(const std::uint8_t* HWY_RESTRICT from) {
  const Du8 d;
  alignas(16) static constexpr std::uint8_t kByte[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  const auto four = hn::BitCast(d, hn::Set(hn::FixedTag<std::uint32_t, 4>(), load_u32(from)));
  const Bytes v = hn::TableLookupBytes(four, hn::Load(d, kByte));
  const auto in_each_word = [&](std::uint32_t bytes) HWY_ATTR {
    return hn::MaskFromVec(hn::BitCast(d, hn::Set(hn::FixedTag<std::uint32_t, 4>(), bytes)));
  };
  const Bytes nibble = hn::IfThenElse(in_each_word(0xffff0000u), move_bits<-4>(v), v);
  return hn::IfThenElse(in_each_word(0xff00ff00u), move_bits<-2>(nibble), nibble);
}

/// Sixteen codes of a plane from value kFirst of its run on, moved up by kUp bits. Bits around them are cleared where
/// kMasked says so.
template <class PlaneOf, int kFirst, int kUp, bool kMasked>
HWY_INLINE Bytes unpack(const std::uint8_t* HWY_RESTRICT block) {
  constexpr Plane kPlane = PlaneOf::plane();
  constexpr auto kMask = static_cast<std::uint8_t>(((1u << kPlane.bits) - 1u) << kUp);
  const Du8 d;
  Bytes v;
  if constexpr (kPlane.packing == Packing::bytes) {
    v = move_bits<kUp - kPlane.shift>(hn::LoadU(d, block + kPlane.at + kFirst));
  } else if constexpr (kPlane.packing == Packing::halves) {
    static_assert(kUp == 0);
    const Bytes eight = hn::ZeroExtendVector(d, hn::LoadU(hn::Half<Du8>(), block + kPlane.at));
    v = hn::ConcatLowerLower(d, move_bits<-4>(eight), eight);
  } else if constexpr (kPlane.bits == 1) {
    return spread_bits(block + kPlane.at + kFirst / 8, kMask);
  } else {
    static_assert(kPlane.bits == 2 && kUp == 0);
    v = spread_pairs(block + kPlane.at + kFirst / 4);
  }
  return kMasked && kPlane.bits < 8 ? hn::And(v, hn::Set(d, kMask)) : v;
}

template <class F, int kRun>
struct LowOf {
  static constexpr Plane plane() { return F::run(kRun).low; }
};
template <class F, int kRun>
struct HighOf {
  static constexpr Plane plane() { return F::run(kRun).high; }
};

/// Sixteen codes of a run. Without kMasked, bits above the code may be anything.
template <class F, int kRun, int kFirst, bool kMasked>
HWY_INLINE Bytes unpack_codes(const std::uint8_t* HWY_RESTRICT block) {
  constexpr Run kThis = F::run(kRun);
  if constexpr (kThis.high.bits == 0) {
    return unpack<LowOf<F, kRun>, kFirst, 0, kMasked>(block);
  } else {
    constexpr auto kHighMask = static_cast<std::uint8_t>(((1u << kThis.high.bits) - 1u) << kThis.low.bits);
    const Bytes low = unpack<LowOf<F, kRun>, kFirst, 0, true>(block);
    // Or and mask are one instruction on some targets.
    const Bytes high = unpack<HighOf<F, kRun>, kFirst, kThis.low.bits, false>(block);
    return hn::OrAnd(low, high, hn::Set(Du8(), kHighMask));
  }
}

template <class F, class Put, std::size_t... kPart>
HWY_INLINE void store_parts(hn::Vec<Di8> codes, Scale s, typename Put::Element* HWY_RESTRICT out, const Put& put,
                            std::index_sequence<kPart...>) {
  const Df d;
  const auto scales = hn::Set(d, s.scale), mins = hn::Set(d, s.min);
  const auto store = [&](auto values, std::size_t at) HWY_ATTR {
    const auto product = hn::Mul(values, scales);
    put(F::kCombine == Combine::sum ? hn::Add(product, mins) : product, out + at);
  };
  (store(bytes_to_floats<kPart * kLanes>(d, codes), kPart * kLanes), ...);
}

/// Sixteen values by arithmetic on their codes.
template <class F, int kRun, int kFirst, class Put>
HWY_INLINE void compute_chunk(const std::uint8_t* HWY_RESTRICT block, Scale s, typename Put::Element* HWY_RESTRICT out,
                              const Put& put) {
  const Du8 d;
  Bytes codes = unpack_codes<F, kRun, kFirst, true>(block);
  if constexpr (F::kCombine == Combine::table) {
    codes = hn::TableLookupBytes(hn::BitCast(d, hn::LoadU(Di8(), F::kCodes)), codes);
  } else if constexpr (F::kCombine == Combine::product) {
    codes = hn::Sub(codes, hn::Set(d, static_cast<std::uint8_t>(F::kBias)));
  }
  store_parts<F>(hn::BitCast(Di8(), codes), s, out, put, std::make_index_sequence<kChunk / kLanes>());
}

#if HWY_TARGET == HWY_AVX3

/// Sixteen values that follow the code's lowest bits, whatever the bits above.
template <class F>
struct alignas(64) CodeValues {
  float of[16];
  constexpr CodeValues() : of{} {
    for (int i = 0; i < 16; ++i) of[i] = code_value<F>(i % (1 << kCodeBits<F>));
  }
};
template <class F>
inline constexpr CodeValues<F> kCodeValues{};

/// A run of few codes has few values: compute those, in one register, and pick from them by code.
template <class F, int kRun, int kFirst, class Put>
HWY_INLINE void pick_chunk(const std::uint8_t* HWY_RESTRICT block, hn::Vec<Df> values,
                           typename Put::Element* HWY_RESTRICT out, const Put& put) {
  const hn::RebindToUnsigned<Df> du;
  constexpr Plane kLow = F::run(kRun).low;
  hn::Vec<decltype(du)> codes;
  if constexpr (kLow.packing == Packing::bits && F::run(kRun).high.bits == 0) {
    const std::uint8_t* from = block + kLow.at + kFirst * kLow.bits / 8;
    const auto word = hn::Set(du, kLow.bits == 1 ? load_u16(from) : load_u32(from));
    codes = hn::Shr(word, hn::Mul(hn::Iota(du, 0), hn::Set(du, kLow.bits)));
  } else {
    codes = hn::PromoteTo(du, unpack_codes<F, kRun, kFirst, false>(block));
  }
  // Not IndicesFromVec: that asserts indices below 16, of which the permutation reads the lowest four bits only.
  put(hn::TableLookupLanes(values, hn::Indices512<float>{codes.raw}), out);
}
#endif

template <class F, int kRun, class Put>
HWY_INLINE void decode_run(const std::uint8_t* HWY_RESTRICT block, Scale s, typename Put::Element* HWY_RESTRICT out,
                           const Put& put) {
  static_assert(F::kRunLength == kChunk || F::kRunLength == 2 * kChunk);
#if HWY_TARGET == HWY_AVX3
  if constexpr (kCodeBits<F> <= 4) {
    const Df d;
    auto values = hn::Mul(hn::Load(d, kCodeValues<F>.of), hn::Set(d, s.scale));
    if constexpr (F::kCombine == Combine::sum) values = hn::Add(values, hn::Set(d, s.min));
    pick_chunk<F, kRun, 0>(block, values, out, put);
    if constexpr (F::kRunLength == 2 * kChunk) pick_chunk<F, kRun, kChunk>(block, values, out + kChunk, put);
    return;
  }
#endif
  compute_chunk<F, kRun, 0>(block, s, out, put);
  if constexpr (F::kRunLength == 2 * kChunk) compute_chunk<F, kRun, kChunk>(block, s, out + kChunk, put);
}
#endif

template <class F, class Put, std::size_t... kRun>
HWY_INLINE void decode_block(const std::uint8_t* HWY_RESTRICT block, const Scales<F>& scales, int index,
                             typename Put::Element* HWY_RESTRICT out, const Put& put, std::index_sequence<kRun...>) {
  (decode_run<F, static_cast<int>(kRun)>(block, scales.of(index, kRun), out + kRun * F::kRunLength, put), ...);
}

// Flattened: a scale that the compiler leaves in a function of its own is a call every sixteen values. A function of
// its own, because only of parameters does the compiler believe that results do not overlap the weight: where it doubts
// that, it reads scales again after every store.
template <class F, class Put>
HWY_FLATTEN HWY_NOINLINE void decode_apart(const std::uint8_t* HWY_RESTRICT blocks, std::int64_t block_count,
                                           typename Put::Element* HWY_RESTRICT out, const Destination to) {
  const Put put(to);
  for (std::int64_t first = 0; first < block_count; first += kBatch) {
    const auto count = static_cast<int>(std::min<std::int64_t>(kBatch, block_count - first));
    const Scales<F> scales(blocks, count);
    for (int i = 0; i < count; ++i, blocks += F::kBlockBytes, out += F::kBlockValues) {
      decode_block<F>(blocks, scales, i, out, put, std::make_index_sequence<kRuns<F>>());
    }
  }
}

template <class F, class Put>
void decode_blocks(const std::uint8_t* blocks, std::int64_t block_count, Destination to) {
  decode_apart<F, Put>(blocks, block_count, static_cast<typename Put::Element*>(to.to), to);
}

}  // namespace

BlocksFn runs_decoder(nibble_format format, Sink sink) {
  BlocksFn found = nullptr;
  visit_format(format, [&](auto f) {
    using F = decltype(f);
    if constexpr (F::kEngine == Engine::runs)
      found = for_sink<BlocksFn>(sink, []<class Put>() -> BlocksFn { return decode_blocks<F, Put>; });
  });
  return found;
}

}  // namespace nibble::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nibble::cpu {

BlocksFn runs_decoder(Target target, nibble_format format, Sink sink) {
#define NIBBLE_CPU_CASE(name, hwy_target, hwy_namespace, isa, rank) \
  case Target::name:                                                \
    return hwy_namespace::runs_decoder(format, sink);
  switch (target) { NIBBLE_CPU_TARGETS(NIBBLE_CPU_CASE) }
#undef NIBBLE_CPU_CASE
  return nullptr;
}

}  // namespace nibble::cpu
#endif
