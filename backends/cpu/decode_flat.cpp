// The engines for bitsandbytes codes: a table of 16 or of 256 floats, statistics beside the codes.
// Apart from the engine of runs: blocks run over the whole tensor, and a request may begin and end within one.
#include "backends/cpu/targets.h"

#include "backends/cpu/engines.h"
#include "core/decode.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/decode_flat.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "backends/cpu/sinks-inl.h"
#include "backends/cpu/table16-inl.h"
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

#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
/// A vector of what lies at so many codes. AVX2's gathers take twice as long as loads one by one (Zen 3:
/// bench/results).
HWY_INLINE hn::Vec<Df> look_up(const float* HWY_RESTRICT code, const std::uint8_t* HWY_RESTRICT packed) {
#if HWY_TARGET == HWY_AVX3
  const hn::Rebind<std::uint8_t, Df> d8;
  return hn::GatherIndex(Df(), code, hn::PromoteTo(Di(), hn::LoadU(d8, packed)));
#else
  const auto four = [&](int first) HWY_ATTR {
    std::uint32_t codes;
    std::memcpy(&codes, packed + first, sizeof codes);
    return _mm_setr_ps(code[codes & 255], code[codes >> 8 & 255], code[codes >> 16 & 255], code[codes >> 24]);
  };
#if HWY_TARGET == HWY_AVX2
  return hn::Vec<Df>{_mm256_set_m128(four(4), four(0))};
#else
  return hn::Vec<Df>{four(0)};
#endif
#endif
}
#endif

/// Values one by one, or a vector at a time.
template <class Put>
HWY_INLINE void look_up_256(const std::uint8_t* HWY_RESTRICT packed, std::int64_t count, const float* HWY_RESTRICT code,
                            float scale, typename Put::Element* HWY_RESTRICT out, const Put& put) {
  std::int64_t i = 0;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(Df()));
  for (; i + kLanes <= count; i += kLanes) put(hn::Mul(look_up(code, packed + i), hn::Set(Df(), scale)), out + i);
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
