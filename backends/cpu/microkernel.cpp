// The register tile for each target.
// Apart from the driver, which is compiled once and calls this through a pointer.
#include "backends/cpu/targets.h"

#include "backends/cpu/microkernel.h"

#include <algorithm>
#include <array>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/microkernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Two vectors of columns times this many rows of accumulators, with room for two of b and one of a in the register
// file: 32 registers with AVX-512, 16 before.
#if HWY_TARGET == HWY_AVX3
constexpr int kTileRows = 12;
#else
constexpr int kTileRows = 6;
#endif

using D = hn::CappedTag<float, 16>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

template <std::size_t... kRow>
HWY_INLINE void tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::int64_t ldb, std::int64_t k,
                     float* HWY_RESTRICT c, std::int64_t ldc, bool first, std::index_sequence<kRow...>) {
  const D d;
  constexpr std::size_t kRows = sizeof...(kRow);
  hn::Vec<D> sum0[kRows], sum1[kRows];
  ((sum0[kRow] = sum1[kRow] = hn::Zero(d)), ...);
  for (std::int64_t i = 0; i < k; ++i) {
    const auto b0 = hn::LoadU(d, b + i * ldb), b1 = hn::LoadU(d, b + i * ldb + kLanes);
    const float* row = a + i * kTileRows;
    const auto add = [&](auto& s0, auto& s1, float x) HWY_ATTR {
      const auto v = hn::Set(d, x);
      s0 = hn::MulAdd(v, b0, s0);
      s1 = hn::MulAdd(v, b1, s1);
    };
    (add(sum0[kRow], sum1[kRow], row[kRow]), ...);
  }
  const auto finish = [&](float* out, auto s0, auto s1) HWY_ATTR {
    hn::StoreU(first ? s0 : hn::Add(hn::LoadU(d, out), s0), d, out);
    hn::StoreU(first ? s1 : hn::Add(hn::LoadU(d, out + kLanes), s1), d, out + kLanes);
  };
  (finish(c + static_cast<std::int64_t>(kRow) * ldc, sum0[kRow], sum1[kRow]), ...);
}

/// The tile for a number of rows that is known when the program runs.
using TileFn = void (*)(const float*, const float*, std::int64_t, std::int64_t, float*, std::int64_t, bool);
template <std::size_t kRows>
void tile_of(const float* a, const float* b, std::int64_t ldb, std::int64_t k, float* c, std::int64_t ldc, bool first) {
  tile(a, b, ldb, k, c, ldc, first, std::make_index_sequence<kRows>());
}
template <std::size_t... kRow>
constexpr std::array<TileFn, kTileRows> tiles(std::index_sequence<kRow...>) {
  return {tile_of<kRow + 1>...};
}
constexpr auto kTiles = tiles(std::make_index_sequence<kTileRows>());

void multiply(const float* a, std::int64_t rows, const float* b, std::int64_t ldb, std::int64_t k, std::int64_t columns,
              float* c, std::int64_t ldc, bool first) {
  // Columns outside: k rows of two vectors stay in L1 while the tiles of a come by.
  for (std::int64_t n = 0; n < columns; n += 2 * kLanes) {
    for (std::int64_t m = 0; m < rows; m += kTileRows) {
      const auto here = static_cast<std::size_t>(std::min<std::int64_t>(kTileRows, rows - m));
      kTiles[here - 1](a + m * k, b + n, ldb, k, c + m * ldc + n, ldc, first);
    }
  }
}

}  // namespace

Microkernel microkernel() { return {multiply, kTileRows}; }

}  // namespace nibble::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nibble::cpu {

const Microkernel& microkernel(Target target) {
  static const Microkernel kAll[] = {
#define NIBBLE_CPU_KERNEL(name, hwy_target, hwy_namespace, isa, rank) hwy_namespace::microkernel(),
      NIBBLE_CPU_TARGETS(NIBBLE_CPU_KERNEL)
#undef NIBBLE_CPU_KERNEL
  };
  return kAll[static_cast<std::size_t>(target)];
}

}  // namespace nibble::cpu
#endif
