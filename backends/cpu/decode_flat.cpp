// The engines for bitsandbytes codes: a table of 16 or of 256 floats, statistics beside the codes.
// Apart from the engine of runs: blocks run over the whole tensor, and a request may begin and end within one.
#include "backends/cpu/targets.h"

#include "backends/cpu/engines.h"
#include "core/decode.h"

#include <algorithm>
#include <array>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/decode_flat.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "backends/cpu/sinks-inl.h"
#include "backends/cpu/table256-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
namespace {

/// The scales of consecutive blocks, without a division a block.
class BlockScales {
 public:
  BlockScales(const nibble_weight& w, std::int64_t block)
      : w_(w),
        block_(block),
        group_(nested(w) ? block / w.nested_block_size : 0),
        left_(nested(w) ? w.nested_block_size - block % w.nested_block_size : 0) {}

  HWY_INLINE float next() {
    const std::int64_t block = block_++;
    if (left_ == 0) {
      if (!nested(w_)) return load_f32(w_.absmax, block);
      ++group_;
      left_ = w_.nested_block_size;
    }
    --left_;
    const float code = load_f32(w_.nested_code, bytes_of(w_.absmax)[block]);
    return add_rn(mul_rn(code, load_f32(w_.nested_absmax, group_)), w_.nested_offset);
  }

 private:
  const nibble_weight& w_;
  std::int64_t block_, group_, left_;
};

/// Calls part(first, count, scale, out) for what each block has of values [first, first + count).
template <class Element, class Part>
HWY_INLINE void for_each_block(const nibble_weight& w, std::int64_t first, std::int64_t count,
                               Element* HWY_RESTRICT out, const Part& part) {
  BlockScales scales(w, first / w.block_size);
  std::int64_t in_block = w.block_size - first % w.block_size;
  while (count > 0) {
    const std::int64_t here = std::min(count, in_block);
    part(first, here, scales.next(), out);
    first += here;
    out += here;
    count -= here;
    in_block = w.block_size;
  }
}

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

/// Whether every vector of a request lies where its size divides its place; a vector holds 16 values at most.
inline bool in_whole_vectors(const nibble_weight& w, std::int64_t first) {
  return w.block_size % 16 == 0 && first % 16 == 0;
}

template <class F, class Put>
void decode_flat4(const nibble_weight& w, std::int64_t first, std::int64_t count, Destination to) {
  if constexpr (Put::kAligned) {
    if (!in_whole_vectors(w, first)) return decode_flat4<F, typename Put::Unaligned>(w, first, count, to);
  }
  const std::uint8_t* packed = bytes_of(w.packed);
  const Table16 table(F::kCodes);
  const Put put(to);
  using Element = typename Put::Element;
  const auto part = [&](std::int64_t at, std::int64_t n, float scale, Element* HWY_RESTRICT out) HWY_ATTR {
    std::int64_t i = 0;
    if (at % 2 != 0) put(mul_rn(F::kCodes[packed[at / 2] & 15], scale), out + i++);
    i += table.decode(packed + (at + i) / 2, n - i, scale, out + i, put);
    for (; i < n; ++i) {
      const std::uint32_t byte = packed[(at + i) / 2];
      put(mul_rn(F::kCodes[(at + i) % 2 == 0 ? byte >> 4 : byte & 15u], scale), out + i);
    }
  };
  for_each_block(w, first, count, static_cast<Element*>(to.to), part);
}

/// Values one by one, or a gathered vector at a time.
template <class Put>
HWY_INLINE void look_up_256(const std::uint8_t* HWY_RESTRICT packed, std::int64_t count, const float* HWY_RESTRICT code,
                            float scale, typename Put::Element* HWY_RESTRICT out, const Put& put) {
  std::int64_t i = 0;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  const hn::Rebind<std::uint8_t, Df> d8;
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(Df()));
  for (; i + kLanes <= count; i += kLanes) {
    const auto values = hn::GatherIndex(Df(), code, hn::PromoteTo(Di(), hn::LoadU(d8, packed + i)));
    put(hn::Mul(values, hn::Set(Df(), scale)), out + i);
  }
#endif
  for (; i < count; ++i) put(mul_rn(code[packed[i]], scale), out + i);
}

template <class Put>
void decode_flat8(const nibble_weight& w, std::int64_t first, std::int64_t count, Destination to) {
  if constexpr (Put::kAligned) {
    if (!in_whole_vectors(w, first)) return decode_flat8<typename Put::Unaligned>(w, first, count, to);
  }
  const std::uint8_t* packed = bytes_of(w.packed);
  const auto* code = reinterpret_cast<const float*>(bytes_of(w.code));
  const Put put(to);
  using Element = typename Put::Element;
  const auto part = [&](std::int64_t at, std::int64_t n, float scale, Element* HWY_RESTRICT out)
                        HWY_ATTR { look_up_256(packed + at, n, code, scale, out, put); };
  for_each_block(w, first, count, static_cast<Element*>(to.to), part);
}

#if HWY_TARGET == HWY_AVX3

template <class Put>
NIBBLE_CPU_VBMI HWY_FLATTEN void decode_flat8_in_registers(const nibble_weight& w, std::int64_t first,
                                                           std::int64_t count, Destination to) {
  if constexpr (Put::kAligned) {
    if (!in_whole_vectors(w, first)) return decode_flat8_in_registers<typename Put::Unaligned>(w, first, count, to);
  }
  const std::uint8_t* packed = bytes_of(w.packed);
  const auto* code = reinterpret_cast<const float*>(bytes_of(w.code));
  const Table256 table(code);
  const Put put(to);
  using Element = typename Put::Element;
  const auto part = [&](std::int64_t at, std::int64_t n, float scale, Element* HWY_RESTRICT out) NIBBLE_CPU_VBMI {
    const std::int64_t done = table.decode(packed + at, n, scale, out, put);
    look_up_256(packed + at + done, n - done, code, scale, out + done, put);
  };
  for_each_block(w, first, count, static_cast<Element*>(to.to), part);
}

template <class Put>
FlatFn flat8_decoder() {
  return (hwy::SupportedTargets() & HWY_AVX3_DL) != 0 ? decode_flat8_in_registers<Put> : decode_flat8<Put>;
}
#else
template <class Put>
FlatFn flat8_decoder() {
  return decode_flat8<Put>;
}
#endif

}  // namespace

FlatFn flat_decoder(nibble_format format, Sink sink) {
  FlatFn found = nullptr;
  visit_format(format, [&](auto f) {
    using F = decltype(f);
    if constexpr (F::kEngine == Engine::flat4)
      found = for_sink<FlatFn>(sink, []<class Put>() -> FlatFn { return decode_flat4<F, Put>; });
    if constexpr (F::kEngine == Engine::flat8)
      found = for_sink<FlatFn>(sink, []<class Put>() -> FlatFn { return flat8_decoder<Put>(); });
  });
  return found;
}

}  // namespace nibble::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nibble::cpu {

FlatFn flat_decoder(Target target, nibble_format format, Sink sink) {
#define NIBBLE_CPU_CASE(name, hwy_target, hwy_namespace, isa, rank) \
  case Target::name:                                                \
    return hwy_namespace::flat_decoder(format, sink);
  switch (target) { NIBBLE_CPU_TARGETS(NIBBLE_CPU_CASE) }
#undef NIBBLE_CPU_CASE
  return nullptr;
}

}  // namespace nibble::cpu
#endif
