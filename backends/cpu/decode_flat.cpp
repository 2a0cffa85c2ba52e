// The engines for bitsandbytes codes, for values stored as themselves, and for rounding results to 16 bits.
// Apart from the engine of runs: here a format is a table or a width, and statistics lie beside the codes.
#include "backends/cpu/targets.h"

#include "backends/cpu/engines.h"
#include "core/decode.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/decode_flat.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Df = hn::ScalableTag<float>;
constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(Df()));

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
/// Sixteen floats looked up by four-bit codes: the whole table lies in registers.
class Table16 {
 public:
  explicit HWY_INLINE Table16(const float* codes) {
    for (std::int64_t i = 0; i < 16 / kLanes; ++i) part_[i] = hn::LoadU(Df(), codes + i * kLanes);
  }
  HWY_INLINE hn::Vec<Df> operator()(hn::Vec<hn::RebindToSigned<Df>> codes) const {
    const Df d;
#if HWY_TARGET == HWY_AVX3
    return hn::TableLookupLanes(part_[0], hn::IndicesFromVec(d, codes));
#else
    const hn::RebindToSigned<Df> di;
    const auto low = hn::IndicesFromVec(d, hn::And(codes, hn::Set(di, 7)));
    const auto upper = hn::RebindMask(d, hn::Gt(codes, hn::Set(di, 7)));
    return hn::IfThenElse(upper, hn::TableLookupLanes(part_[1], low), hn::TableLookupLanes(part_[0], low));
#endif
  }

 private:
  hn::Vec<Df> part_[16 / kLanes];
};

/// Whole bytes of packed codes, high nibble first, 16 values at a time; answers how many values that were.
HWY_INLINE std::int64_t decode_pairs(const Table16& table, const std::uint8_t* HWY_RESTRICT packed, std::int64_t count,
                                     float scale, float* HWY_RESTRICT out) {
  const Df d;
  const hn::RebindToSigned<Df> di;
  const hn::FixedTag<std::uint8_t, 16> d8;
  const hn::FixedTag<std::uint64_t, 2> d64;
  const hn::FixedTag<std::uint16_t, 8> d16;
  const auto mask = hn::Set(d8, 15);
  const auto scales = hn::Set(d, scale);
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    std::uint64_t eight;
    std::memcpy(&eight, packed + i / 2, sizeof eight);
    const auto bytes = hn::BitCast(d8, hn::Set(d64, eight));
    const auto high = hn::And(hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(d16, bytes))), mask);
    const auto codes = hn::InterleaveLower(d8, high, hn::And(bytes, mask));
#if HWY_TARGET == HWY_AVX3
    hn::StoreU(hn::Mul(table(hn::PromoteTo(di, codes)), scales), d, out + i);
#else
    const hn::FixedTag<std::uint8_t, 8> half;
    hn::StoreU(hn::Mul(table(hn::PromoteTo(di, hn::LowerHalf(half, codes))), scales), d, out + i);
    hn::StoreU(hn::Mul(table(hn::PromoteTo(di, hn::UpperHalf(half, codes))), scales), d, out + i + kLanes);
#endif
  }
  return i;
}
#else
/// Without a permutation of floats the table stays in memory.
class Table16 {
 public:
  explicit HWY_INLINE Table16(const float* codes) : codes_(codes) {}
  const float* codes_;
};
HWY_INLINE std::int64_t decode_pairs(const Table16& table, const std::uint8_t* HWY_RESTRICT packed, std::int64_t count,
                                     float scale, float* HWY_RESTRICT out) {
  for (std::int64_t i = 0; i + 2 <= count; i += 2) {
    out[i] = table.codes_[packed[i / 2] >> 4] * scale;
    out[i + 1] = table.codes_[packed[i / 2] & 15] * scale;
  }
  return count / 2 * 2;
}
#endif

template <class F>
void decode_flat4(const nibble_weight& w, std::int64_t first, std::int64_t count, float* HWY_RESTRICT out) {
  const std::uint8_t* packed = bytes_of(w.packed);
  const Table16 table(F::kCodes);
  while (count > 0) {
    const std::int64_t block = first / w.block_size;
    const std::int64_t here = std::min(count, (block + 1) * w.block_size - first);
    const float scale = block_absmax(w, block);
    std::int64_t i = 0;
    if (first % 2 != 0) out[i++] = mul_rn(F::kCodes[packed[first / 2] & 15], scale);
    i += decode_pairs(table, packed + (first + i) / 2, here - i, scale, out + i);
    for (; i < here; ++i) {
      const std::uint32_t byte = packed[(first + i) / 2];
      out[i] = mul_rn(F::kCodes[(first + i) % 2 == 0 ? byte >> 4 : byte & 15u], scale);
    }
    first += here;
    out += here;
    count -= here;
  }
}

void decode_flat8(const nibble_weight& w, std::int64_t first, std::int64_t count, float* HWY_RESTRICT out) {
  const std::uint8_t* packed = bytes_of(w.packed);
  const auto* code = reinterpret_cast<const float*>(bytes_of(w.code));
  while (count > 0) {
    const std::int64_t block = first / w.block_size;
    const std::int64_t here = std::min(count, (block + 1) * w.block_size - first);
    const float scale = block_absmax(w, block);
    std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    const Df d;
    const hn::RebindToSigned<Df> di;
    const hn::Rebind<std::uint8_t, Df> d8;
    for (; i + kLanes <= here; i += kLanes) {
      const auto index = hn::PromoteTo(di, hn::LoadU(d8, packed + first + i));
      hn::StoreU(hn::Mul(hn::GatherIndex(d, code, index), hn::Set(d, scale)), d, out + i);
    }
#endif
    for (; i < here; ++i) out[i] = mul_rn(code[packed[first + i]], scale);
    first += here;
    out += here;
    count -= here;
  }
}

// F16C converts exactly, to nearest even, and keeps subnormals; where it is missing, values go one by one.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
#define NIBBLE_CPU_HALF_VECTORS 1
#else
#define NIBBLE_CPU_HALF_VECTORS 0
#endif

#if HWY_TARGET != HWY_SCALAR
/// As many 16-bit elements as there are floats in a vector, from an address that need not be aligned.
HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, Df>> load_16bit(const std::uint8_t* from) {
  const hn::Rebind<std::uint16_t, Df> d16;
  return hn::BitCast(d16, hn::LoadU(hn::Repartition<std::uint8_t, decltype(d16)>(), from));
}
#endif

void widen_f32(const std::uint8_t* HWY_RESTRICT from, std::int64_t count, float* HWY_RESTRICT out) {
  std::memcpy(out, from, static_cast<std::size_t>(count) * 4);
}

void widen_f16(const std::uint8_t* HWY_RESTRICT from, std::int64_t count, float* HWY_RESTRICT out) {
  std::int64_t i = 0;
#if NIBBLE_CPU_HALF_VECTORS
  const Df d;
  const hn::Rebind<hwy::float16_t, Df> d16;
  for (; i + kLanes <= count; i += kLanes)
    hn::StoreU(hn::PromoteTo(d, hn::BitCast(d16, load_16bit(from + 2 * i))), d, out + i);
#endif
  for (; i < count; ++i) out[i] = load_half(from + 2 * i);
}

void widen_bf16(const std::uint8_t* HWY_RESTRICT from, std::int64_t count, float* HWY_RESTRICT out) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Df d;
  const hn::RebindToUnsigned<Df> du;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, load_16bit(from + 2 * i)))), d, out + i);
  }
#endif
  for (; i < count; ++i) out[i] = float_from_bfloat16(load_u16(from + 2 * i));
}

void round_to_half(const float* HWY_RESTRICT from, std::int64_t count, std::uint8_t* HWY_RESTRICT to) {
  std::int64_t i = 0;
#if NIBBLE_CPU_HALF_VECTORS
  const Df d;
  const hn::Rebind<hwy::float16_t, Df> d16;
  const hn::Repartition<std::uint8_t, decltype(d16)> d8;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(hn::BitCast(d8, hn::DemoteTo(d16, hn::LoadU(d, from + i))), d8, to + 2 * i);
  }
#endif
  for (; i < count; ++i) {
    const std::uint16_t bits = half_from_float(from[i]);
    std::memcpy(to + 2 * i, &bits, sizeof bits);
  }
}

void round_to_bfloat16(const float* HWY_RESTRICT from, std::int64_t count, std::uint8_t* HWY_RESTRICT to) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Df d;
  const hn::RebindToUnsigned<Df> du;
  const hn::RebindToSigned<Df> di;
  const hn::Rebind<std::uint16_t, Df> d16;
  const hn::Repartition<std::uint8_t, decltype(d16)> d8;
  const auto one = hn::Set(du, 1), half = hn::Set(du, 0x7fff), quiet = hn::Set(du, 0x40);
  for (; i + kLanes <= count; i += kLanes) {
    const auto x = hn::LoadU(d, from + i);
    const auto bits = hn::BitCast(du, x), upper = hn::ShiftRight<16>(bits);
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(half, hn::And(upper, one))));
    const auto nan = hn::RebindMask(du, hn::IsNaN(x));
    const auto result = hn::IfThenElse(nan, hn::Or(upper, quiet), rounded);
    hn::StoreU(hn::BitCast(d8, hn::DemoteTo(d16, hn::BitCast(di, result))), d8, to + 2 * i);
  }
#endif
  for (; i < count; ++i) {
    const std::uint16_t bits = bfloat16_from_float(from[i]);
    std::memcpy(to + 2 * i, &bits, sizeof bits);
  }
}

}  // namespace

FlatFn flat_decoder(nibble_format format) {
  FlatFn found = nullptr;
  visit_format(format, [&](auto f) {
    if constexpr (decltype(f)::kEngine == Engine::flat4) found = decode_flat4<decltype(f)>;
    if constexpr (decltype(f)::kEngine == Engine::flat8) found = decode_flat8;
  });
  return found;
}

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
#undef NIBBLE_CPU_HALF_VECTORS
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nibble::cpu {

#define NIBBLE_CPU_CASE(name, hwy_target, hwy_namespace, isa, rank) \
  case Target::name:                                                \
    return hwy_namespace::NIBBLE_CPU_FUNCTION(format);

FlatFn flat_decoder(Target target, nibble_format format) {
#define NIBBLE_CPU_FUNCTION flat_decoder
  switch (target) { NIBBLE_CPU_TARGETS(NIBBLE_CPU_CASE) }
#undef NIBBLE_CPU_FUNCTION
  return nullptr;
}

BlocksFn element_decoder(Target target, nibble_format format) {
#define NIBBLE_CPU_FUNCTION element_decoder
  switch (target) { NIBBLE_CPU_TARGETS(NIBBLE_CPU_CASE) }
#undef NIBBLE_CPU_FUNCTION
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
