// The engine for base-3 digits, five to a byte.
// Apart from the engine of runs because a digit is not a field of bits.
#include "backends/cpu/targets.h"

#include "backends/cpu/engines.h"
#include "core/formats/formats.h"

#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/decode_base3.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/bytes-inl.h"
#include "backends/cpu/sinks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

template <class F, class Put>
void decode_blocks(const std::uint8_t* HWY_RESTRICT blocks, std::int64_t block_count, Destination to) {
  const Put put(to);
  auto* out = static_cast<typename Put::Element*>(to.to);
  for (const std::uint8_t* block = blocks; block < blocks + block_count * F::kBlockBytes; block += F::kBlockBytes) {
    const float scale = F::scale(block);
    for (const auto& section : F::kSections) {
      for (int n = 0; n < section.digits; ++n, out += section.bytes) {
        for (int i = 0; i < section.bytes; ++i) {
          put(mul_rn(static_cast<float>(F::digit(block[section.at + i], F::kPowers[n]) - 1), scale), out + i);
        }
      }
    }
  }
}

#else

using Du8 = hn::FixedTag<std::uint8_t, 16>;
using Di8 = hn::FixedTag<std::int8_t, 16>;
using Bytes = hn::Vec<Du8>;
constexpr std::size_t kLanes = hn::MaxLanes(Df());

// A digit is the carry of three times the remainder: 0 below 86, 1 below 171, 2 from there on.
constexpr int kOne = 86, kTwo = 171;

template <class F>
constexpr bool digits_are_thresholds() {
  for (int t = 0; t < 256; ++t) {
    if (F::digit(static_cast<std::uint32_t>(t), 1) != (t >= kOne) + (t >= kTwo)) return false;
  }
  return true;
}

/// The remainder one digit further: three times as much, modulo 256.
HWY_INLINE Bytes next_digit(Bytes t) { return hn::Add(t, hn::Add(t, t)); }

/// The topmost digits of 16 remainders, less 1.
HWY_INLINE hn::Vec<Di8> digits_less_1(Bytes t) {
  const Du8 d;
  const Di8 di;
  const auto at_least = [&](int bound) HWY_ATTR {  // -1 where it holds; bytes compare through their maximum
    return hn::BitCast(di, hn::VecFromMask(d, hn::Eq(hn::Max(t, hn::Set(d, static_cast<std::uint8_t>(bound))), t)));
  };
  return hn::Sub(hn::Sub(hn::Set(di, -1), at_least(kOne)), at_least(kTwo));
}

template <class Put, std::size_t... kPart>
HWY_INLINE void put_parts(hn::Vec<Di8> digits, hn::Vec<Df> scale, typename Put::Element* HWY_RESTRICT out,
                          const Put& put, std::index_sequence<kPart...>) {
  (put(hn::Mul(bytes_to_floats<kPart * kLanes>(Df(), digits), scale), out + kPart * kLanes), ...);
}

template <class Put>
HWY_INLINE void put_16(Bytes remainders, float scale, typename Put::Element* HWY_RESTRICT out, const Put& put) {
  put_parts(digits_less_1(remainders), hn::Set(Df(), scale), out, put, std::make_index_sequence<16 / kLanes>());
}

/// Four bytes and their next three digits as sixteen remainders, digit outermost.
HWY_INLINE Bytes four_by_four(const std::uint8_t* HWY_RESTRICT from) {
  const hn::FixedTag<std::uint32_t, 4> d32;
  const hn::FixedTag<std::uint64_t, 2> d64;
  const Bytes t0 = hn::BitCast(Du8(), hn::Set(d32, load_u32(from)));
  const Bytes t1 = next_digit(t0), t2 = next_digit(t1), t3 = next_digit(t2);
  const auto low = hn::InterleaveLower(d32, hn::BitCast(d32, t0), hn::BitCast(d32, t1));
  const auto high = hn::InterleaveLower(d32, hn::BitCast(d32, t2), hn::BitCast(d32, t3));
  return hn::BitCast(Du8(), hn::InterleaveLower(d64, hn::BitCast(d64, low), hn::BitCast(d64, high)));
}

template <class F, std::size_t kSection, class Put>
HWY_INLINE typename Put::Element* decode_section(const std::uint8_t* HWY_RESTRICT block, float scale,
                                                 typename Put::Element* HWY_RESTRICT out, const Put& put) {
  constexpr auto kThis = F::kSections[kSection];
  if constexpr (kThis.bytes == 4) {
    static_assert(kThis.digits == 4);
    put_16(four_by_four(block + kThis.at), scale, out, put);
  } else {
    static_assert(kThis.bytes % 16 == 0);
    for (int first = 0; first < kThis.bytes; first += 16) {
      Bytes t = hn::LoadU(Du8(), block + kThis.at + first);
      for (int n = 0; n < kThis.digits; ++n, t = next_digit(t)) put_16(t, scale, out + n * kThis.bytes + first, put);
    }
  }
  return out + kThis.bytes * kThis.digits;
}

template <class F, class Put>
void decode_blocks(const std::uint8_t* HWY_RESTRICT blocks, std::int64_t block_count, Destination to) {
  const Put put(to);
  auto* out = static_cast<typename Put::Element*>(to.to);
  static_assert(digits_are_thresholds<F>() && std::size(F::kSections) == 3);
  for (const std::uint8_t* block = blocks; block < blocks + block_count * F::kBlockBytes; block += F::kBlockBytes) {
    const float scale = F::scale(block);
    out = decode_section<F, 0>(block, scale, out, put);
    out = decode_section<F, 1>(block, scale, out, put);
    out = decode_section<F, 2>(block, scale, out, put);
  }
}

#endif

}  // namespace

BlocksFn base3_decoder(nibble_format format, Sink sink) {
  BlocksFn found = nullptr;
  visit_format(format, [&](auto f) {
    using F = decltype(f);
    if constexpr (F::kEngine == Engine::base3)
      found = for_sink<BlocksFn>(sink, []<class Put>() -> BlocksFn { return decode_blocks<F, Put>; });
  });
  return found;
}

}  // namespace nibble::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nibble::cpu {

BlocksFn base3_decoder(Target target, nibble_format format, Sink sink) {
#define NIBBLE_CPU_CASE(name, hwy_target, hwy_namespace, isa, rank) \
  case Target::name:                                                \
    return hwy_namespace::base3_decoder(format, sink);
  switch (target) { NIBBLE_CPU_TARGETS(NIBBLE_CPU_CASE) }
#undef NIBBLE_CPU_CASE
  return nullptr;
}

}  // namespace nibble::cpu
#endif
