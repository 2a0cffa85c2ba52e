// Values stored as themselves, widened to f32, and the way back: results rounded to 16 bits, or written past the
// caches. Apart from the engines because there are neither codes nor scales, and the two directions share their loads.
#include "backends/cpu/targets.h"

#include "backends/cpu/engines.h"
#include "core/numeric.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/decode_element.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/halves-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;
constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(Df()));

HWY_INLINE hn::Vec<Df> widen_bfloat16(const std::uint8_t* from) {
  return hn::BitCast(Df(), hn::ShiftLeft<16>(hn::PromoteTo(Du(), load_16bit(from))));
}
/// The upper halves of the lanes are the rounded values.
HWY_INLINE hn::Vec<Du> rounded_to_upper(hn::Vec<Df> x) {
  const Du d;
  const auto bits = hn::BitCast(d, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(d, 0x7fff)), odd);
  return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(x)), hn::Or(bits, hn::Set(d, 0x400000)), rounded);
}
/// Two vectors at a time.
HWY_INLINE void store_bfloat16(hn::Vec<Df> low, hn::Vec<Df> high, std::uint8_t* to) {
  const hn::Repartition<std::uint16_t, Df> d;
  const hn::Repartition<std::uint8_t, Df> d8;
  const auto both = hn::ConcatOdd(d, hn::BitCast(d, rounded_to_upper(high)), hn::BitCast(d, rounded_to_upper(low)));
  hn::StoreU(hn::BitCast(d8, both), d8, to);
}

#endif

void widen_f32(const std::uint8_t* HWY_RESTRICT from, std::int64_t count, float* HWY_RESTRICT out) {
  std::memcpy(out, from, static_cast<std::size_t>(count) * 4);
}

void widen_f16(const std::uint8_t* HWY_RESTRICT from, std::int64_t count, float* HWY_RESTRICT out) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(widen_half(from + 2 * i), Df(), out + i);
#endif
  for (; i < count; ++i) out[i] = load_half(from + 2 * i);
}

void widen_bf16(const std::uint8_t* HWY_RESTRICT from, std::int64_t count, float* HWY_RESTRICT out) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(widen_bfloat16(from + 2 * i), Df(), out + i);
#endif
  for (; i < count; ++i) out[i] = float_from_bfloat16(load_u16(from + 2 * i));
}

void round_to_half(const float* HWY_RESTRICT from, std::int64_t count, std::uint8_t* HWY_RESTRICT to) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; i + kLanes <= count; i += kLanes) store_half(hn::LoadU(Df(), from + i), to + 2 * i);
#endif
  for (; i < count; ++i) {
    const std::uint16_t bits = half_from_float(from[i]);
    std::memcpy(to + 2 * i, &bits, sizeof bits);
  }
}

void round_to_bfloat16(const float* HWY_RESTRICT from, std::int64_t count, std::uint8_t* HWY_RESTRICT to) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    store_bfloat16(hn::LoadU(Df(), from + i), hn::LoadU(Df(), from + i + kLanes), to + 2 * i);
  }
#endif
  for (; i < count; ++i) {
    const std::uint16_t bits = bfloat16_from_float(from[i]);
    std::memcpy(to + 2 * i, &bits, sizeof bits);
  }
}

void stream_bytes(const std::uint8_t* HWY_RESTRICT from, std::int64_t bytes, std::uint8_t* HWY_RESTRICT to) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<std::uint8_t> d;
  constexpr auto kVector = static_cast<std::int64_t>(hn::MaxLanes(decltype(d)()));
  const auto beyond = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % kVector);
  i = std::min(beyond == 0 ? 0 : kVector - beyond, bytes);  // a vector goes past the caches only where it is aligned
  std::memcpy(to, from, static_cast<std::size_t>(i));
  for (; i + kVector <= bytes; i += kVector) hn::Stream(hn::LoadU(d, from + i), d, to + i);
#endif
  std::memcpy(to + i, from + i, static_cast<std::size_t>(bytes - i));
}

}  // namespace

StreamFn streamer() { return stream_bytes; }

BlocksFn element_decoder(nibble_format format) {
  switch (format) {
    case NIBBLE_F32:
      return widen_f32;
    case NIBBLE_F16:
      return widen_f16;
    case NIBBLE_BF16:
      return widen_bf16;
    default:
      return nullptr;
  }
}

RoundFn rounder(nibble_format type) {
  return type == NIBBLE_F16 ? round_to_half : type == NIBBLE_BF16 ? round_to_bfloat16 : nullptr;
}

}  // namespace nibble::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nibble::cpu {

#define NIBBLE_CPU_CASE(name, hwy_target, hwy_namespace, isa, rank) \
  case Target::name:                                                \
    return hwy_namespace::NIBBLE_CPU_FUNCTION(format);

BlocksFn element_decoder(Target target, nibble_format format) {
#define NIBBLE_CPU_FUNCTION element_decoder
  switch (target) { NIBBLE_CPU_TARGETS(NIBBLE_CPU_CASE) }
#undef NIBBLE_CPU_FUNCTION
  return nullptr;
}

StreamFn streamer(Target target) {
#define NIBBLE_CPU_STREAMER(name, hwy_target, hwy_namespace, isa, rank) \
  case Target::name:                                                    \
    return hwy_namespace::streamer();
  switch (target) { NIBBLE_CPU_TARGETS(NIBBLE_CPU_STREAMER) }
#undef NIBBLE_CPU_STREAMER
  return nullptr;
}

RoundFn rounder(Target target, nibble_format format) {
#define NIBBLE_CPU_FUNCTION rounder
  switch (target) { NIBBLE_CPU_TARGETS(NIBBLE_CPU_CASE) }
#undef NIBBLE_CPU_FUNCTION
  return nullptr;
}

}  // namespace nibble::cpu
#endif
