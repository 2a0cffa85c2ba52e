// The engine for values stored as themselves, which is also how f32 is rounded to 16 bits; and bytes copied past the
// caches. Apart from the other engines because there are neither codes nor scales.
#include "backends/cpu/targets.h"

#include "backends/cpu/engines.h"
#include "core/numeric.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/decode_element.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/sinks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
namespace {

/// How elements become f32: a vector of them, and one.
struct FromF32 {
  static constexpr std::int64_t kBytes = 4;
  static HWY_INLINE float one(const std::uint8_t* from) { return float_from_bits(load_u32(from)); }
#if HWY_TARGET != HWY_SCALAR
  static HWY_INLINE hn::Vec<Df> vector(const std::uint8_t* from) {
    const hn::Repartition<std::uint8_t, Df> d8;
    return hn::BitCast(Df(), hn::LoadU(d8, from));
  }
#endif
};
struct FromF16 {
  static constexpr std::int64_t kBytes = 2;
  static HWY_INLINE float one(const std::uint8_t* from) { return load_half(from); }
#if HWY_TARGET != HWY_SCALAR
  static HWY_INLINE hn::Vec<Df> vector(const std::uint8_t* from) { return widen_half(from); }
#endif
};
struct FromBf16 {
  static constexpr std::int64_t kBytes = 2;
  static HWY_INLINE float one(const std::uint8_t* from) { return float_from_bfloat16(load_u16(from)); }
#if HWY_TARGET != HWY_SCALAR
  static HWY_INLINE hn::Vec<Df> vector(const std::uint8_t* from) { return widen_bfloat16(from); }
#endif
};

template <class From, class Put>
void convert(const std::uint8_t* HWY_RESTRICT from, std::int64_t count, Destination to) {
  const Put put(to);
  auto* HWY_RESTRICT out = static_cast<typename Put::Element*>(to.to);
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(Df()));
  for (; i + kLanes <= count; i += kLanes) put(From::vector(from + From::kBytes * i), out + i);
#endif
  for (; i < count; ++i) put(From::one(from + From::kBytes * i), out + i);
}

template <class From>
BlocksFn converter(Sink sink) {
  return for_sink<BlocksFn>(sink, []<class Put>() -> BlocksFn { return convert<From, Put>; });
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

BlocksFn element_decoder(nibble_format format, Sink sink) {
  switch (format) {
    case NIBBLE_F32:
      return converter<FromF32>(sink);
    case NIBBLE_F16:
      return converter<FromF16>(sink);
    case NIBBLE_BF16:
      return converter<FromBf16>(sink);
    default:
      return nullptr;
  }
}

}  // namespace nibble::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nibble::cpu {

BlocksFn element_decoder(Target target, nibble_format format, Sink sink) {
#define NIBBLE_CPU_CASE(name, hwy_target, hwy_namespace, isa, rank) \
  case Target::name:                                                \
    return hwy_namespace::element_decoder(format, sink);
  switch (target) { NIBBLE_CPU_TARGETS(NIBBLE_CPU_CASE) }
#undef NIBBLE_CPU_CASE
  return nullptr;
}

StreamFn streamer(Target target) {
#define NIBBLE_CPU_CASE(name, hwy_target, hwy_namespace, isa, rank) \
  case Target::name:                                                \
    return hwy_namespace::streamer();
  switch (target) { NIBBLE_CPU_TARGETS(NIBBLE_CPU_CASE) }
#undef NIBBLE_CPU_CASE
  return nullptr;
}

}  // namespace nibble::cpu
#endif
