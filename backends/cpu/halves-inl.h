// 16-bit elements as vectors of f32, and back.
// Apart from the engines because scales are halves too; included once a target, as Highway's own headers are.
#if defined(NIBBLE_BACKENDS_CPU_HALVES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NIBBLE_BACKENDS_CPU_HALVES_INL_H
#undef NIBBLE_BACKENDS_CPU_HALVES_INL_H
#else
#define NIBBLE_BACKENDS_CPU_HALVES_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;
using Df = hn::CappedTag<float, 16>;
using Du = hn::RebindToUnsigned<Df>;
using Di = hn::RebindToSigned<Df>;
using D16 = hn::Rebind<std::uint16_t, Df>;
using D8 = hn::Repartition<std::uint8_t, D16>;

// Addresses of 16-bit elements need not be even.
HWY_INLINE hn::Vec<D16> load_16bit(const std::uint8_t* from) { return hn::BitCast(D16(), hn::LoadU(D8(), from)); }

// F16C converts to nearest even and keeps subnormals. Highway's own conversions, where it is missing, truncate and know
// no infinity; so there these are core's formulas, all cases at once.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
using Dh = hn::Rebind<hwy::float16_t, Df>;
/// Halves that lie in the low bits of the lanes, with zeros above.
HWY_INLINE hn::Vec<Df> widen_half_bits(hn::Vec<Du> h) {
  return hn::PromoteTo(Df(), hn::BitCast(Dh(), hn::DemoteTo(D16(), hn::BitCast(Di(), h))));
}
HWY_INLINE hn::Vec<Df> widen_half(const std::uint8_t* from) {
  return hn::PromoteTo(Df(), hn::BitCast(Dh(), load_16bit(from)));
}
HWY_INLINE hn::Vec<D16> round_to_half(hn::Vec<Df> x) { return hn::BitCast(D16(), hn::DemoteTo(Dh(), x)); }
#else
HWY_INLINE hn::Vec<Df> widen_half_bits(hn::Vec<Du> h) {
  const Du d;
  const Di di;
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
HWY_INLINE hn::Vec<Df> widen_half(const std::uint8_t* from) {
  return widen_half_bits(hn::PromoteTo(Du(), load_16bit(from)));
}
HWY_INLINE hn::Vec<D16> round_to_half(hn::Vec<Df> x) {
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
  return hn::DemoteTo(D16(), hn::BitCast(di, hn::Or(sign, result)));
}
#endif

HWY_INLINE hn::Vec<Df> widen_bfloat16(const std::uint8_t* from) {
  return hn::BitCast(Df(), hn::ShiftLeft<16>(hn::PromoteTo(Du(), load_16bit(from))));
}

#if HWY_TARGET == HWY_AVX3
HWY_INLINE hn::Vec<D16> round_to_bfloat16(hn::Vec<Df> x) {
  const __m512i bits = _mm512_castps_si512(x.raw);
  const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  const __m512i up = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
  const __m512i rounded = _mm512_mask_add_epi32(up, odd, bits, _mm512_set1_epi32(0x8000));
  // Where x is a quiet or a signaling NaN (the two lowest fields), x made quiet; elsewhere what is there.
  const __m512 quiet = _mm512_fixupimm_ps(_mm512_castsi512_ps(rounded), x.raw, _mm512_set1_epi32(0x22), 0);
  alignas(64) static constexpr std::uint16_t kUpper[32] = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
  const __m512i upper = _mm512_permutexvar_epi16(_mm512_load_si512(kUpper), _mm512_castps_si512(quiet));
  return hn::Vec<D16>{_mm512_castsi512_si256(upper)};
}
#else
HWY_INLINE hn::Vec<D16> round_to_bfloat16(hn::Vec<Df> x) {
  const Du d;
  const auto bits = hn::BitCast(d, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(d, 0x7fff)), odd);
  // All ones, a NaN too, where x is one.
  const auto quiet = hn::Or(rounded, hn::BitCast(d, hn::VecFromMask(Df(), hn::IsNaN(x))));
  const auto upper = hn::ShiftRight<16>(quiet);
#if HWY_TARGET == HWY_AVX2
  return hn::Vec<D16>{_mm_packus_epi32(_mm256_castsi256_si128(upper.raw), _mm256_extracti128_si256(upper.raw, 1))};
#else
  return hn::DemoteTo(D16(), hn::BitCast(Di(), upper));
#endif
}
#endif

#endif
}  // namespace nibble::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
