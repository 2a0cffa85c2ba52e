// The engine for formats of runs: a vector of codes, its scale, its min, one store after another.
// Apart from the other engines because it compiles once a target and format, and they must not wait for it.
#include "backends/cpu/targets.h"

#include "backends/cpu/engines.h"
#include "core/formats/formats.h"

#include <cstring>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/decode_runs.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kChunk = 16;  // codes that are unpacked together: one 128-bit vector of bytes

#if HWY_TARGET == HWY_SCALAR

/// Sixteen codes as signed bytes: biased, or looked up.
template <class F>
HWY_INLINE void decode_chunk(const std::uint8_t* HWY_RESTRICT block, const Run& run, int first, Scale s,
                             float* HWY_RESTRICT out) {
  for (int l = 0; l < kChunk; ++l) {
    const auto code = static_cast<int>(run_code(block, run, first + l));
    if constexpr (F::kCombine == Combine::table) {
      out[l] = static_cast<float>(F::kCodes[code]) * s.scale;
    } else if constexpr (F::kCombine == Combine::sum) {
      out[l] = static_cast<float>(code) * s.scale + s.min;
    } else if constexpr (requires { F::kSigned; }) {
      out[l] = static_cast<float>(static_cast<std::int8_t>(code)) * s.scale;
    } else {
      out[l] = static_cast<float>(code - F::kBias) * s.scale;
    }
  }
}

#else

using Du8 = hn::FixedTag<std::uint8_t, kChunk>;
using Du16 = hn::FixedTag<std::uint16_t, kChunk / 2>;
using Bytes = hn::Vec<Du8>;

template <int kShift>
HWY_INLINE Bytes shift_right(Bytes v) {
  if constexpr (kShift == 0) return v;
  // There is no shift of bytes: what comes over from the neighbour is masked away by the caller.
  else
    return hn::BitCast(Du8(), hn::ShiftRight<kShift>(hn::BitCast(Du16(), v)));
}

/// Sixteen codes of a plane from value `first` of its run on.
template <class PlaneOf>
HWY_INLINE Bytes unpack(const std::uint8_t* HWY_RESTRICT block, PlaneOf) {
  constexpr Plane kPlane = PlaneOf::plane();
  constexpr int kFirst = PlaneOf::first();
  const Du8 d;
  const Bytes mask = hn::Set(d, static_cast<std::uint8_t>((1u << kPlane.bits) - 1u));
  if constexpr (kPlane.packing == Packing::bytes) {
    const Bytes v = shift_right<kPlane.shift>(hn::LoadU(d, block + kPlane.at + kFirst));
    return kPlane.bits == 8 ? v : hn::And(v, mask);
  } else if constexpr (kPlane.packing == Packing::halves) {
    const hn::FixedTag<std::uint64_t, 2> d64;
    std::uint64_t packed;
    std::memcpy(&packed, block + kPlane.at, sizeof packed);
    const Bytes v = hn::BitCast(d, hn::Set(d64, packed));
    return hn::And(hn::ConcatUpperLower(d, shift_right<4>(v), v), mask);
  } else if constexpr (kPlane.bits == 1) {
    // Two bytes, each to eight lanes, and one bit of it in each lane.
    alignas(16) static constexpr std::uint8_t kLane[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    alignas(16) static constexpr std::uint8_t kBit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const auto word = static_cast<std::uint16_t>(load_u16(block + kPlane.at + kFirst / 8));
    const Bytes v = hn::TableLookupBytes(hn::BitCast(d, hn::Set(Du16(), word)), hn::Load(d, kLane));
    const Bytes bit = hn::Load(d, kBit);
    return hn::IfThenElseZero(hn::Eq(hn::And(v, bit), bit), hn::Set(d, 1));
  } else {
    // Four bytes, each to four lanes; then the pair of bits that is the lane's.
    static_assert(kPlane.bits == 2);
    alignas(16) static constexpr std::uint8_t kLane[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    alignas(16) static constexpr std::uint8_t kUpper[16] = {0, 0, 255, 255, 0, 0, 255, 255,
                                                            0, 0, 255, 255, 0, 0, 255, 255};
    alignas(16) static constexpr std::uint8_t kOdd[16] = {0, 255, 0, 255, 0, 255, 0, 255,
                                                          0, 255, 0, 255, 0, 255, 0, 255};
    const hn::FixedTag<std::uint32_t, 4> d32;
    const Bytes v = hn::TableLookupBytes(hn::BitCast(d, hn::Set(d32, load_u32(block + kPlane.at + kFirst / 4))),
                                         hn::Load(d, kLane));
    const Bytes nibble = hn::IfThenElse(hn::MaskFromVec(hn::Load(d, kUpper)), shift_right<4>(v), v);
    return hn::And(hn::IfThenElse(hn::MaskFromVec(hn::Load(d, kOdd)), shift_right<2>(nibble), nibble), mask);
  }
}

template <class F, int kRun, int kFirstValue>
struct Low {
  static constexpr Plane plane() { return F::run(kRun).low; }
  static constexpr int first() { return kFirstValue; }
};
template <class F, int kRun, int kFirstValue>
struct High {
  static constexpr Plane plane() { return F::run(kRun).high; }
  static constexpr int first() { return kFirstValue; }
};

/// Four, eight or sixteen of the sixteen signed bytes, from lane kLane on, as f32.
template <int kLane, class D>
HWY_INLINE hn::Vec<D> to_floats(D d, hn::Vec<hn::FixedTag<std::int8_t, kChunk> > v) {
  const hn::RebindToSigned<D> di;
  const hn::FixedTag<std::int8_t, 16> d16;
  const hn::FixedTag<std::int8_t, 8> d8;
  const hn::FixedTag<std::int8_t, 4> d4;
  if constexpr (hn::MaxLanes(D()) >= 16) {
    return hn::ConvertTo(d, hn::PromoteTo(di, v));
  } else if constexpr (hn::MaxLanes(D()) == 8) {
    return hn::ConvertTo(d, hn::PromoteTo(di, hn::LowerHalf(d8, hn::ShiftRightBytes<kLane>(d16, v))));
  } else {
    return hn::ConvertTo(d,
                         hn::PromoteTo(di, hn::LowerHalf(d4, hn::LowerHalf(d8, hn::ShiftRightBytes<kLane>(d16, v)))));
  }
}

template <class F, class D, std::size_t... kPart>
HWY_INLINE void store_parts(D d, hn::Vec<hn::FixedTag<std::int8_t, kChunk> > codes, Scale s, float* HWY_RESTRICT out,
                            std::index_sequence<kPart...>) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
  const auto scale = hn::Set(d, s.scale);
  const auto min = hn::Set(d, s.min);
  const auto store = [&](auto values, int at) HWY_ATTR {
    const auto product = hn::Mul(values, scale);
    hn::StoreU(F::kCombine == Combine::sum ? hn::Add(product, min) : product, d, out + at);
  };
  (store(to_floats<static_cast<int>(kPart) * kLanes>(d, codes), static_cast<int>(kPart) * kLanes), ...);
}

template <class F, int kRun, int kFirst>
HWY_INLINE void decode_chunk(const std::uint8_t* HWY_RESTRICT block, Scale s, float* HWY_RESTRICT out) {
  constexpr Run kThis = F::run(kRun);
  const Du8 d;
  const hn::FixedTag<std::int8_t, kChunk> di8;
  Bytes codes = unpack(block, Low<F, kRun, kFirst>());
  if constexpr (kThis.high.bits != 0) {
    const Bytes high = unpack(block, High<F, kRun, kFirst>());
    codes = hn::Or(codes, hn::BitCast(d, hn::ShiftLeft<kThis.low.bits>(hn::BitCast(Du16(), high))));
  }
  if constexpr (F::kCombine == Combine::table) {
    codes = hn::BitCast(d, hn::TableLookupBytes(hn::LoadU(di8, F::kCodes), hn::BitCast(di8, codes)));
  } else if constexpr (F::kCombine == Combine::product && !requires { F::kSigned; }) {
    codes = hn::Sub(codes, hn::Set(d, static_cast<std::uint8_t>(F::kBias)));
  }
  const hn::CappedTag<float, kChunk> df;
  store_parts<F>(df, hn::BitCast(di8, codes), s, out, std::make_index_sequence<kChunk / hn::MaxLanes(df)>());
}

#endif

template <class F, int kRun>
HWY_INLINE void decode_run(const std::uint8_t* HWY_RESTRICT block, float* HWY_RESTRICT out) {
  const Scale s = F::scale(block, kRun);
  static_assert(F::kRunLength == kChunk || F::kRunLength == 2 * kChunk);
#if HWY_TARGET == HWY_SCALAR
  for (int first = 0; first < F::kRunLength; first += kChunk)
    decode_chunk<F>(block, F::run(kRun), first, s, out + first);
#else
  decode_chunk<F, kRun, 0>(block, s, out);
  if constexpr (F::kRunLength == 2 * kChunk) decode_chunk<F, kRun, kChunk>(block, s, out + kChunk);
#endif
}

template <class F, std::size_t... kRun>
HWY_INLINE void decode_block(const std::uint8_t* HWY_RESTRICT block, float* HWY_RESTRICT out,
                             std::index_sequence<kRun...>) {
  (decode_run<F, static_cast<int>(kRun)>(block, out + kRun * F::kRunLength), ...);
}

template <class F>
void decode_blocks(const std::uint8_t* HWY_RESTRICT blocks, std::int64_t block_count, float* HWY_RESTRICT out) {
  for (std::int64_t i = 0; i < block_count; ++i) {
    decode_block<F>(blocks + i * F::kBlockBytes, out + i * F::kBlockValues,
                    std::make_index_sequence<F::kBlockValues / F::kRunLength>());
  }
}

BlocksFn decoder(nibble_format format) {
  BlocksFn found = nullptr;
  visit_format(format, [&](auto f) {
    if constexpr (decltype(f)::kEngine == Engine::runs) found = decode_blocks<decltype(f)>;
  });
  return found;
}

}  // namespace

BlocksFn runs_decoder(nibble_format format) { return decoder(format); }

}  // namespace nibble::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nibble::cpu {

BlocksFn runs_decoder(Target target, nibble_format format) {
#define NIBBLE_CPU_CASE(name, hwy_target, hwy_namespace, isa, rank) \
  case Target::name:                                                \
    return hwy_namespace::runs_decoder(format);
  switch (target) { NIBBLE_CPU_TARGETS(NIBBLE_CPU_CASE) }
#undef NIBBLE_CPU_CASE
  return nullptr;
}

}  // namespace nibble::cpu
#endif
