// The engines for grid vectors and for base-3 digits.
// Apart from the engine of runs because nothing is shared but the shape of the functions.
#include "backends/cpu/targets.h"

#include "backends/cpu/engines.h"
#include "core/formats/formats.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/decode_grid.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Eight entries of a grid times a scale, plus delta before it, negated where a sign bit is set.
template <class F>
HWY_INLINE void decode_group(const GridGroup& g, float* HWY_RESTRICT out) {
  const auto& grid = grid_table<F::kGrid>();
  std::int8_t entry[8];
  if constexpr (sizeof(typename F::Entry) == 8) {
    std::memcpy(entry, &grid[g.index[0]], 8);
  } else {
    std::memcpy(entry, &grid[g.index[0]], 4);
    std::memcpy(entry + 4, &grid[g.index[1]], 4);
  }
  const hn::CappedTag<float, 8> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<std::int8_t, decltype(d)> d8;
  alignas(32) static constexpr std::uint32_t kBit[8] = {1, 2, 4, 8, 16, 32, 64, 128};
  const auto scale = hn::Set(d, g.scale);
  const auto signs = hn::Set(du, g.signs);
  const auto sign_bit = hn::Set(du, 0x80000000u);
  for (std::size_t i = 0; i < 8; i += hn::Lanes(d)) {
    auto v = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, entry + i)));
    if constexpr (F::kHasDelta) v = hn::Add(v, hn::Set(d, g.delta));
    v = hn::Mul(scale, v);
    if constexpr (!F::kHasDelta) {
      const auto bit = hn::LoadU(du, kBit + i);
      const auto negated = hn::VecFromMask(du, hn::Eq(hn::And(signs, bit), bit));
      v = hn::Xor(v, hn::BitCast(d, hn::And(negated, sign_bit)));
    }
    hn::StoreU(v, d, out + i);
  }
}

template <class F>
void decode_grid(const std::uint8_t* HWY_RESTRICT blocks, std::int64_t block_count, float* HWY_RESTRICT out) {
  for (std::int64_t i = 0; i < block_count; ++i) {
    const std::uint8_t* block = blocks + i * F::kBlockBytes;
    for (int g = 0; g < F::kBlockValues / 8; ++g)
      decode_group<F>(F::group(block, g), out + i * F::kBlockValues + 8 * g);
  }
}

/// One digit of `count` consecutive bytes.
template <class D>
HWY_INLINE void decode_digits(D d, const std::uint8_t* HWY_RESTRICT bytes, int count, int power, float scale,
                              float* HWY_RESTRICT out) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint8_t, D> d8;
  const auto powers = hn::Set(di, power), byte_mask = hn::Set(di, 255), one = hn::Set(di, 1);
  const auto scales = hn::Set(d, scale);
  for (int i = 0; i < count; i += static_cast<int>(hn::Lanes(d))) {
    const auto t = hn::And(hn::Mul(hn::PromoteTo(di, hn::LoadU(d8, bytes + i)), powers), byte_mask);
    const auto digit = hn::ShiftRight<8>(hn::Add(t, hn::Add(t, t)));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, hn::Sub(digit, one)), scales), d, out + i);
  }
}

template <class F>
void decode_base3(const std::uint8_t* HWY_RESTRICT blocks, std::int64_t block_count, float* HWY_RESTRICT out) {
  for (std::int64_t b = 0; b < block_count; ++b) {
    const std::uint8_t* block = blocks + b * F::kBlockBytes;
    const float scale = F::scale(block);
    for (const auto& section : F::kSections) {
      for (int n = 0; n < section.digits; ++n) {
        if (section.bytes >= 16) {
          decode_digits(hn::CappedTag<float, 16>(), block + section.at, section.bytes, F::kPowers[n], scale, out);
        } else {
          decode_digits(hn::CappedTag<float, 4>(), block + section.at, section.bytes, F::kPowers[n], scale, out);
        }
        out += section.bytes;
      }
    }
  }
}

template <Engine engine>
BlocksFn decoder(nibble_format format) {
  BlocksFn found = nullptr;
  visit_format(format, [&](auto f) {
    using F = decltype(f);
    if constexpr (F::kEngine == engine) {
      if constexpr (engine == Engine::grid) {
        found = decode_grid<F>;
      } else {
        found = decode_base3<F>;
      }
    }
  });
  return found;
}

}  // namespace

BlocksFn grid_decoder(nibble_format format) { return decoder<Engine::grid>(format); }
BlocksFn base3_decoder(nibble_format format) { return decoder<Engine::base3>(format); }

}  // namespace nibble::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nibble::cpu {

#define NIBBLE_CPU_CASE(name, hwy_target, hwy_namespace, isa, rank) \
  case Target::name:                                                \
    return hwy_namespace::NIBBLE_CPU_FUNCTION(format);

BlocksFn grid_decoder(Target target, nibble_format format) {
#define NIBBLE_CPU_FUNCTION grid_decoder
  switch (target) { NIBBLE_CPU_TARGETS(NIBBLE_CPU_CASE) }
#undef NIBBLE_CPU_FUNCTION
  return nullptr;
}

BlocksFn base3_decoder(Target target, nibble_format format) {
#define NIBBLE_CPU_FUNCTION base3_decoder
  switch (target) { NIBBLE_CPU_TARGETS(NIBBLE_CPU_CASE) }
#undef NIBBLE_CPU_FUNCTION
  return nullptr;
}

}  // namespace nibble::cpu
#endif
