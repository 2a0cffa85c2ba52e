// The engine for grid formats: groups of eight values, looked up whole.
// Apart from the engine of runs because nothing is shared but the shape of the functions.
#include "backends/cpu/targets.h"

#include "backends/cpu/engines.h"
#include "core/formats/formats.h"

#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/decode_grid.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/sinks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
namespace {

/// The eight signed bytes of a group, the first one lowest.
template <class F>
HWY_INLINE std::uint64_t entry_of(const GridGroup& g) {
  const auto& grid = grid_table<F::kGrid>();
  if constexpr (sizeof(typename F::Entry) == 8) {
    return grid[g.index[0]];
  } else {
    return grid[g.index[0]] | static_cast<std::uint64_t>(grid[g.index[1]]) << 32;
  }
}

#if HWY_TARGET == HWY_SCALAR

constexpr int kGroupsATime = 1;

template <class F>
HWY_INLINE void decode_groups(const std::uint8_t* HWY_RESTRICT block, int first, float* HWY_RESTRICT out) {
  const GridGroup g = F::group(block, first);
  const std::uint64_t entry = entry_of<F>(g);
  for (int j = 0; j < 8; ++j) {
    auto v = static_cast<float>(static_cast<std::int8_t>(entry >> 8 * j & 255u));
    if constexpr (F::kHasDelta) v = add_rn(v, g.delta);
    out[j] = float_from_bits(float_bits(mul_rn(g.scale, v)) ^ (g.signs >> j & 1u) << 31);
  }
}

#else

constexpr int kLanes = static_cast<int>(hn::MaxLanes(Df()));
constexpr int kGroupsATime = kLanes == 16 ? 2 : 1;  // a vector holds two groups, one, or half of one

/// Lanes from lane kFrom of one or two entries on, as f32.
template <int kFrom, class D>
HWY_INLINE hn::Vec<D> to_floats(D d, std::uint64_t entry, std::uint64_t next) {
  const hn::Rebind<std::int8_t, D> d8;
  const hn::RebindToSigned<D> di;
  const hn::FixedTag<std::uint64_t, 1> d64;
  if constexpr (hn::MaxLanes(D()) == 16) {
    const auto both = hn::Combine(hn::FixedTag<std::uint64_t, 2>(), hn::Set(d64, next), hn::Set(d64, entry));
    return hn::ConvertTo(d, hn::PromoteTo(di, hn::BitCast(d8, both)));
  } else if constexpr (hn::MaxLanes(D()) == 8) {
    return hn::ConvertTo(d, hn::PromoteTo(di, hn::BitCast(d8, hn::Set(d64, entry))));
  } else {
    const auto four = hn::Set(hn::FixedTag<std::uint32_t, 1>(), static_cast<std::uint32_t>(entry >> 8 * kFrom));
    return hn::ConvertTo(d, hn::PromoteTo(di, hn::BitCast(d8, four)));
  }
}

/// A value of the first group in its lanes, of the second in the others where a vector holds two.
HWY_INLINE hn::Vec<Df> per_group(float first, [[maybe_unused]] float second) {
  const Df d;
#if HWY_TARGET == HWY_AVX3
  return hn::IfThenElse(hn::Ge(hn::Iota(d, 0), hn::Set(d, 8.0f)), hn::Set(d, second), hn::Set(d, first));
#else
  return hn::Set(d, first);
#endif
}

/// Lanes 0, 1, 2, ... negated where bits 0, 1, 2, ... of `signs` are set.
HWY_INLINE hn::Vec<Df> with_signs(hn::Vec<Df> v, std::uint32_t signs) {
#if HWY_TARGET == HWY_AVX3
  return hn::Vec<Df>{_mm512_mask_xor_ps(v.raw, static_cast<__mmask16>(signs), v.raw, _mm512_set1_ps(-0.0f))};
#else
  const Du d;
  const auto bits = hn::Set(d, signs);
#if HWY_TARGET == HWY_AVX2
  const auto at_top = hn::Shl(bits, hn::Sub(hn::Set(d, 31), hn::Iota(d, 0)));
#else
  alignas(16) static constexpr std::uint32_t kToTop[4] = {1u << 31, 1u << 30, 1u << 29, 1u << 28};
  const auto at_top = hn::Mul(bits, hn::Load(d, kToTop));
#endif
  return hn::Xor(v, hn::BitCast(Df(), hn::And(at_top, hn::Set(d, 1u << 31))));
#endif
}

template <class F>
HWY_INLINE void decode_groups(const std::uint8_t* HWY_RESTRICT block, int first, float* HWY_RESTRICT out) {
  const Df d;
  const GridGroup g = F::group(block, first), next = F::group(block, first + kGroupsATime - 1);
  const std::uint64_t entry = entry_of<F>(g), next_entry = entry_of<F>(next);
  const std::uint32_t signs = g.signs | next.signs << 8;
  const auto scale = hn::Set(d, g.scale), delta = per_group(g.delta, next.delta);
  const auto store = [&](auto v, int from) HWY_ATTR {
    if constexpr (F::kHasDelta) v = hn::Add(v, delta);
    v = hn::Mul(scale, v);
    // Without delta there are signs, with it there are none. A negated product is a product with its sign turned.
    if constexpr (!F::kHasDelta) v = with_signs(v, signs >> from);
    hn::StoreU(v, d, out + from);
  };
  store(to_floats<0>(d, entry, next_entry), 0);
  if constexpr (kLanes == 4) store(to_floats<4>(d, entry, next_entry), 4);
}

#endif

// Flattened, because a group that the compiler leaves in a function of its own is a call every eight values; unrolled,
// because groups share scales and their positions are then constants, which the scalar target gains nothing from and
// sanitizers would compile for many minutes; and not inlined, since what it is inlined into is not flattened.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || HWY_TARGET == HWY_SCALAR
#define NIBBLE_CPU_UNROLLED
#else
#define NIBBLE_CPU_UNROLLED _Pragma("GCC unroll 32")
#endif
template <class F>
HWY_FLATTEN HWY_NOINLINE void decode_block(const std::uint8_t* HWY_RESTRICT block, float* HWY_RESTRICT out) {
  NIBBLE_CPU_UNROLLED
  for (int g = 0; g < F::kBlockValues / 8; g += kGroupsATime) decode_groups<F>(block, g, out + 8 * g);
}
#undef NIBBLE_CPU_UNROLLED

/// Only floats are decoded straight to where they belong. So long a function is compiled once a format, and a block in
/// L1 costs the other sinks nothing beside it.
template <class F, class Put>
void decode_blocks(const std::uint8_t* HWY_RESTRICT blocks, std::int64_t block_count, Destination to) {
  const Put put(to);
  auto* out = static_cast<typename Put::Element*>(to.to);
  const std::uint8_t* end = blocks + block_count * F::kBlockBytes;
  for (; blocks < end; blocks += F::kBlockBytes, out += F::kBlockValues) {
    if constexpr (std::is_same_v<Put, Store<AsF32>>) {
      decode_block<F>(blocks, out);
    } else {
      alignas(64) float tile[F::kBlockValues];
      decode_block<F>(blocks, tile);
      put_all(tile, F::kBlockValues, out, put);
    }
  }
}

}  // namespace

BlocksFn grid_decoder(nibble_format format, Sink sink) {
  BlocksFn found = nullptr;
  visit_format(format, [&](auto f) {
    using F = decltype(f);
    if constexpr (F::kEngine == Engine::grid)
      found = for_sink<BlocksFn>(sink, []<class Put>() -> BlocksFn { return decode_blocks<F, Put>; });
  });
  return found;
}

}  // namespace nibble::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nibble::cpu {

BlocksFn grid_decoder(Target target, nibble_format format, Sink sink) {
#define NIBBLE_CPU_CASE(name, hwy_target, hwy_namespace, isa, rank) \
  case Target::name:                                                \
    return hwy_namespace::grid_decoder(format, sink);
  switch (target) { NIBBLE_CPU_TARGETS(NIBBLE_CPU_CASE) }
#undef NIBBLE_CPU_CASE
  return nullptr;
}

}  // namespace nibble::cpu
#endif
