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

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;
using Df = hn::CappedTag<float, 16>;
using Du = hn::RebindToUnsigned<Df>;
using Di = hn::RebindToSigned<Df>;
using D16 = hn::Rebind<std::uint16_t, Df>;
using D8 = hn::Repartition<std::uint8_t, D16>;
constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(Df()));

// Addresses of 16-bit elements need not be even.
HWY_INLINE hn::Vec<D16> load_16bit(const std::uint8_t* from) { return hn::BitCast(D16(), hn::LoadU(D8(), from)); }
HWY_INLINE void store_16bit(hn::Vec<Du> low_halves, std::uint8_t* to) {
  hn::StoreU(hn::BitCast(D8(), hn::DemoteTo(D16(), hn::BitCast(Di(), low_halves))), D8(), to);
}

// F16C converts to nearest even and keeps subnormals. Highway's own conversions, where it is missing, truncate and know
// no infinity; so there these are core's formulas, all cases at once.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
using Dh = hn::Rebind<hwy::float16_t, Df>;
HWY_INLINE hn::Vec<Df> widen_half(const std::uint8_t* from) {
  return hn::PromoteTo(Df(), hn::BitCast(Dh(), load_16bit(from)));
}
HWY_INLINE void store_half(hn::Vec<Df> x, std::uint8_t* to) {
  hn::StoreU(hn::BitCast(D8(), hn::DemoteTo(Dh(), x)), D8(), to);
}
#else
HWY_INLINE hn::Vec<Df> widen_half(const std::uint8_t* from) {
  const Du d;
  const Di di;
  const auto h = hn::PromoteTo(d, load_16bit(from));
  const auto magnitude = hn::And(h, hn::Set(d, 0x7fff));
  const auto is = [&](std::int32_t at_least) HWY_ATTR {
    return hn::RebindMask(d, hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, at_least - 1)));
  };
  const auto moved = hn::ShiftLeft<13>(magnitude);
  const auto normal = hn::Add(moved, hn::Set(d, 112u << 23));
  // A subnormal is an integer times 2^-24. No operand here is a subnormal f32: those take a processor long.
  const auto subnormal = hn::Mul(hn::ConvertTo(Df(), hn::BitCast(di, magnitude)), hn::Set(Df(), 0x1p-24f));
  auto result = hn::IfThenElse(is(0x0400), normal, hn::BitCast(d, subnormal));
  result = hn::IfThenElse(is(0x7c00), hn::Or(moved, hn::Set(d, 0x7f800000)), result);
  return hn::BitCast(Df(), hn::Or(hn::ShiftLeft<16>(hn::And(h, hn::Set(d, 0x8000))), result));
}
HWY_INLINE void store_half(hn::Vec<Df> x, std::uint8_t* to) {
  const Du d;
  const Di di;
  const auto bits = hn::BitCast(d, x);
  const auto magnitude = hn::And(bits, hn::Set(d, 0x7fffffff));
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 0x8000));
  const auto is = [&](std::int32_t at_least) HWY_ATTR {
    return hn::RebindMask(d, hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, at_least - 1)));
  };
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 1));
  const auto rounded = hn::Add(hn::Add(magnitude, hn::Set(d, 0xfff - 0x38000000)), odd);
  // Below 2^-14 adding 0.5 puts the result's units at the sum's last place, so the addition rounds.
  const auto sum = hn::Add(hn::BitCast(Df(), magnitude), hn::Set(Df(), 0.5f));
  const auto subnormal = hn::Sub(hn::BitCast(d, sum), hn::Set(d, 0x3f000000));
  auto result = hn::IfThenElse(is(0x38800000), hn::ShiftRight<13>(rounded), subnormal);
  result = hn::IfThenElse(is(0x477ff000), hn::Set(d, 0x7c00), result);  // 65520 and above
  result = hn::IfThenElse(is(0x7f800001), hn::Set(d, 0x7e00), result);
  store_16bit(hn::Or(sign, result), to);
}
#endif

HWY_INLINE hn::Vec<Df> widen_bfloat16(const std::uint8_t* from) {
  return hn::BitCast(Df(), hn::ShiftLeft<16>(hn::PromoteTo(Du(), load_16bit(from))));
}
HWY_INLINE void store_bfloat16(hn::Vec<Df> x, std::uint8_t* to) {
  const Du d;
  const auto bits = hn::BitCast(d, x), upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(d, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(hn::Set(d, 0x7fff), odd)));
  const auto nan = hn::RebindMask(d, hn::IsNaN(x));
  store_16bit(hn::IfThenElse(nan, hn::Or(upper, hn::Set(d, 0x40)), rounded), to);
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
  for (; i + kLanes <= count; i += kLanes) store_bfloat16(hn::LoadU(Df(), from + i), to + 2 * i);
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
