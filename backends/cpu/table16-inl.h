// A table of 16 floats in registers, as each target looks things up best.
// Apart from the engine because it knows statistics and odd beginnings, and this whole bytes of codes alone.
#if defined(NIBBLE_BACKENDS_CPU_TABLE16_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NIBBLE_BACKENDS_CPU_TABLE16_INL_H
#undef NIBBLE_BACKENDS_CPU_TABLE16_INL_H
#else
#define NIBBLE_BACKENDS_CPU_TABLE16_INL_H
#endif

#include "core/numeric.h"

#include <hwy/highway.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "backends/cpu/halves-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

class Table16 {
 public:
  explicit HWY_INLINE Table16(const float (&codes)[16]) : codes_(codes) {}
  /// Whole bytes of packed codes, high nibble first; answers how many values that were.
  template <class Put>
  HWY_INLINE std::int64_t decode(const std::uint8_t* HWY_RESTRICT packed, std::int64_t count, float scale,
                                 typename Put::Element* HWY_RESTRICT out, const Put& put) const {
    for (std::int64_t i = 0; i + 2 <= count; i += 2) {
      put(mul_rn(codes_[packed[i / 2] >> 4], scale), out + i);
      put(mul_rn(codes_[packed[i / 2] & 15], scale), out + i + 1);
    }
    return count / 2 * 2;
  }

 private:
  const float (&codes_)[16];
};

#elif HWY_TARGET == HWY_AVX3

/// The sixteen values of a block lie in one register, from which codes pick.
class Table16 {
 public:
  explicit HWY_INLINE Table16(const float (&codes)[16]) : codes_(hn::LoadU(Df(), codes)) {}
  template <class Put>
  HWY_INLINE std::int64_t decode(const std::uint8_t* HWY_RESTRICT packed, std::int64_t count, float scale,
                                 typename Put::Element* HWY_RESTRICT out, const Put& put) const {
    const hn::FixedTag<std::uint8_t, 16> d8;
    const hn::FixedTag<std::uint16_t, 8> d16;
    const auto values = hn::Mul(codes_, hn::Set(Df(), scale));
    std::int64_t i = 0;
    for (; i + 32 <= count; i += 32) {
      const auto low = hn::LoadU(d8, packed + i / 2);
      const auto high = hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(d16, low)));
      put(pick(values, hn::InterleaveLower(d8, high, low)), out + i);
      put(pick(values, hn::InterleaveUpper(d8, high, low)), out + i + 16);
    }
    return i;
  }

 private:
  /// The permutation reads the lowest four bits of an index only: there is nothing to mask.
  static HWY_INLINE hn::Vec<Df> pick(hn::Vec<Df> values, hn::Vec<hn::FixedTag<std::uint8_t, 16> > codes) {
    const auto index = hn::PromoteTo(Du(), codes);
    return hn::TableLookupLanes(values, hn::Indices512<float>{index.raw});
  }

  hn::Vec<Df> codes_;
};

#else

/// The table lies in registers as four planes of bytes; what they give is interleaved to floats.
class Table16 {
 public:
  explicit HWY_INLINE Table16(const float (&codes)[16]) {
    for (int plane = 0; plane < 4; ++plane) {
      alignas(16) std::uint8_t bytes[16];
      for (int code = 0; code < 16; ++code)
        bytes[code] = static_cast<std::uint8_t>(float_bits(codes[code]) >> 8 * plane);
      planes_[plane] = hn::LoadDup128(D8(), bytes);
    }
  }
  template <class Put>
  HWY_INLINE std::int64_t decode(const std::uint8_t* HWY_RESTRICT packed, std::int64_t count, float scale,
                                 typename Put::Element* HWY_RESTRICT out, const Put& put) const {
    const auto scales = hn::Set(Df(), scale);
    std::int64_t i = 0;
    for (; i + kStep <= count; i += kStep) lookup(unpack(packed + i / 2), scales, out + i, put);
    return i;
  }

 private:
  using D8 = hn::CappedTag<std::uint8_t, 32>;
  using D16 = hn::Repartition<std::uint16_t, D8>;
  using Bytes = hn::Vec<D8>;
  static constexpr int kStep = static_cast<int>(hn::MaxLanes(D8()));
  static constexpr int kBlocks = kStep / 16;

  /// Which packed byte each lane takes, so that interleaving within 128-bit blocks leaves values in order.
  static constexpr std::array<std::uint8_t, kStep> byte_of_lane() {
    std::array<std::uint8_t, kStep> lanes{};
    for (int lane = 0; lane < kStep; ++lane) {
      const int block = lane / 16, quarter = lane % 16 / 4, l = lane % 4;
      lanes[static_cast<std::size_t>(lane)] = static_cast<std::uint8_t>(((quarter * kBlocks + block) * 4 + l) / 2);
    }
    return lanes;
  }

  static HWY_INLINE Bytes unpack(const std::uint8_t* HWY_RESTRICT packed) {
    const D8 d;
    const D16 d16;
    alignas(32) static constexpr auto kByte = byte_of_lane();
    Bytes bytes;
    if constexpr (kBlocks == 2) {
      alignas(16) std::uint8_t sixteen[16];
      std::memcpy(sixteen, packed, sizeof sixteen);
      bytes = hn::LoadDup128(d, sixteen);
    } else {
      std::uint64_t eight;
      std::memcpy(&eight, packed, sizeof eight);
      bytes = hn::BitCast(d, hn::Set(hn::Repartition<std::uint64_t, D8>(), eight));
    }
    const auto pair = hn::BitCast(d16, hn::TableLookupBytes(bytes, hn::Load(d, kByte.data())));
    const auto high = hn::And(hn::ShiftRight<4>(pair), hn::Set(d16, 0x000f));
    return hn::BitCast(d, hn::Or(high, hn::And(pair, hn::Set(d16, 0x0f00))));
  }

  template <class Put>
  HWY_INLINE void lookup(Bytes codes, hn::Vec<Df> scales, typename Put::Element* HWY_RESTRICT out,
                         const Put& put) const {
    const D8 d;
    const D16 d16;
    const auto b0 = hn::TableLookupBytes(planes_[0], codes), b1 = hn::TableLookupBytes(planes_[1], codes);
    const auto b2 = hn::TableLookupBytes(planes_[2], codes), b3 = hn::TableLookupBytes(planes_[3], codes);
    const auto store = [&](auto low, auto high, int at) HWY_ATTR {
      const auto l = hn::BitCast(d16, low), h = hn::BitCast(d16, high);
      const Df df;
      put(hn::Mul(hn::BitCast(df, hn::InterleaveLower(d16, l, h)), scales), out + at);
      put(hn::Mul(hn::BitCast(df, hn::InterleaveUpper(d16, l, h)), scales), out + at + kStep / 4);
    };
    store(hn::InterleaveLower(d, b0, b1), hn::InterleaveLower(d, b2, b3), 0);
    store(hn::InterleaveUpper(d, b0, b1), hn::InterleaveUpper(d, b2, b3), kStep / 2);
  }

  Bytes planes_[4];
};

#endif
}  // namespace nibble::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
