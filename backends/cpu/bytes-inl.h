// Sixteen bytes as floats, for the engines whose codes are bytes.
// Apart from the engines because several need it; included once a target, as Highway's own headers are.
#if defined(NIBBLE_BACKENDS_CPU_BYTES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NIBBLE_BACKENDS_CPU_BYTES_INL_H
#undef NIBBLE_BACKENDS_CPU_BYTES_INL_H
#else
#define NIBBLE_BACKENDS_CPU_BYTES_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

/// The lanes of D from byte kFrom of sixteen signed bytes on, as f32.
template <std::size_t kFrom, class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> bytes_to_floats(
    D d, hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::FixedTag<std::int8_t, 16>> v) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  const hn::FixedTag<std::int8_t, 16> d16;
  const hn::FixedTag<std::int8_t, 8> d8;
  if constexpr (hn::MaxLanes(D()) == 16) {
    return hn::ConvertTo(d, hn::PromoteTo(di, v));
  } else if constexpr (hn::MaxLanes(D()) == 8) {
    return hn::ConvertTo(d, hn::PromoteTo(di, kFrom == 0 ? hn::LowerHalf(d8, v) : hn::UpperHalf(d8, v)));
  } else {
    const auto four = hn::LowerHalf(hn::LowerHalf(d8, hn::ShiftRightBytes<kFrom>(d16, v)));
    return hn::ConvertTo(d, hn::PromoteTo(di, four));
  }
}

#endif
}  // namespace nibble::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
