// The sinks as code: what an engine calls with each vector of values that it has decoded.
// Apart from the engines because all of them take any; included once a target, as Highway's own headers are.
#if defined(NIBBLE_BACKENDS_CPU_SINKS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NIBBLE_BACKENDS_CPU_SINKS_INL_H
#undef NIBBLE_BACKENDS_CPU_SINKS_INL_H
#else
#define NIBBLE_BACKENDS_CPU_SINKS_INL_H
#endif

#include "backends/cpu/sink.h"
#include "core/numeric.h"

#include <hwy/highway.h>

#include <cstring>

#include "backends/cpu/halves-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {

/// A 16-bit result, whose address need not be even.
struct Bits16 {
  std::uint8_t byte[2];
};
inline void store_bits16(std::uint16_t bits, Bits16* to) { std::memcpy(to, &bits, sizeof bits); }

// The types of results: an element, one value rounded to it and, but for the scalar target, a vector of them.
struct AsF32 {
  using Element = float;
  static HWY_INLINE void store_one(float value, float* to) { *to = value; }
#if HWY_TARGET != HWY_SCALAR
  static HWY_INLINE hn::Vec<Df> round(hn::Vec<Df> x) { return x; }
#endif
};
struct AsF16 {
  using Element = Bits16;
  static HWY_INLINE void store_one(float value, Bits16* to) { store_bits16(half_from_float(value), to); }
#if HWY_TARGET != HWY_SCALAR
  static HWY_INLINE hn::Vec<D16> round(hn::Vec<Df> x) { return round_to_half(x); }
#endif
};
struct AsBf16 {
  using Element = Bits16;
  static HWY_INLINE void store_one(float value, Bits16* to) { store_bits16(bfloat16_from_float(value), to); }
#if HWY_TARGET != HWY_SCALAR
  static HWY_INLINE hn::Vec<D16> round(hn::Vec<Df> x) { return round_to_bfloat16(x); }
#endif
};

/// Values are the result, at any address.
template <class As>
struct Store {
  using Element = typename As::Element;
  static constexpr bool kAligned = false;
  explicit Store(const Destination& /*to*/) {}
  HWY_INLINE void operator()(float value, Element* to) const { As::store_one(value, to); }
#if HWY_TARGET != HWY_SCALAR
  HWY_INLINE void operator()(hn::Vec<Df> values, Element* to) const {
    const auto rounded = As::round(values);
    using D = hn::DFromV<decltype(rounded)>;
    const hn::Repartition<std::uint8_t, D> d8;
    hn::StoreU(hn::BitCast(d8, rounded), d8, reinterpret_cast<std::uint8_t*>(to));
  }
#endif
};

#if HWY_TARGET != HWY_SCALAR

/// Values go past the caches; a vector of them to an address that is a multiple of its size.
template <class As>
struct Stream {
  using Element = typename As::Element;
  using Unaligned = Store<As>;
  static constexpr bool kAligned = true;
  explicit Stream(const Destination& /*to*/) {}
  HWY_INLINE void operator()(float value, Element* to) const { As::store_one(value, to); }
  HWY_INLINE void operator()(hn::Vec<Df> values, Element* to) const {
    const auto rounded = As::round(values);
    using D = hn::DFromV<decltype(rounded)>;
    const hn::Repartition<std::uint8_t, D> d8;
    hn::Stream(hn::BitCast(d8, rounded), d8, reinterpret_cast<std::uint8_t*>(to));
  }
};

/// Factors times them are added to as many rows of sums, at any address.
template <int kRows>
class Add {
 public:
  using Element = float;
  static constexpr bool kAligned = false;
  explicit HWY_INLINE Add(const Destination& to) : ld_(to.ld) {
    for (int row = 0; row < kRows; ++row) factors_[row] = hn::Set(Df(), to.factors[row]);
  }
  HWY_INLINE void operator()(float value, float* to) const {
    for (int row = 0; row < kRows; ++row, to += ld_) *to += hn::GetLane(factors_[row]) * value;
  }
  HWY_INLINE void operator()(hn::Vec<Df> values, float* to) const {
    for (int row = 0; row < kRows; ++row, to += ld_)
      hn::StoreU(hn::MulAdd(values, factors_[row], hn::LoadU(Df(), to)), Df(), to);
  }

 private:
  hn::Vec<Df> factors_[kRows];
  std::int64_t ld_;
};

#endif

/// All values of an array, whose count is whole vectors.
template <class Put>
HWY_INLINE void put_all(const float* HWY_RESTRICT values, int count, typename Put::Element* HWY_RESTRICT out,
                        const Put& put) {
#if HWY_TARGET == HWY_SCALAR
  for (int i = 0; i < count; ++i) put(values[i], out + i);
#else
  for (int i = 0; i < count; i += static_cast<int>(hn::MaxLanes(Df()))) put(hn::LoadU(Df(), values + i), out + i);
#endif
}

/// What `function` answers when it is given the code of a sink as its template's argument; null where this target has
/// none: one value at a time goes through the caches, and so do vectors of less than 16 bytes.
template <class Fn, class FunctionOf>
Fn for_sink(Sink sink, const FunctionOf& function) {
  switch (sink) {
    case Sink::store_f32:
      return function.template operator()<Store<AsF32>>();
    case Sink::store_f16:
      return function.template operator()<Store<AsF16>>();
    case Sink::store_bf16:
      return function.template operator()<Store<AsBf16>>();
#if HWY_TARGET != HWY_SCALAR
    case Sink::stream_f32:
      return function.template operator()<Stream<AsF32>>();
    case Sink::add_1:
      return function.template operator()<Add<1>>();
    case Sink::add_2:
      return function.template operator()<Add<2>>();
#endif
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
    case Sink::stream_f16:
      return function.template operator()<Stream<AsF16>>();
    case Sink::stream_bf16:
      return function.template operator()<Stream<AsBf16>>();
#endif
    default:
      return nullptr;
  }
}

}  // namespace nibble::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
