// The register tiles for each target.
// Apart from the driver, which is compiled once and calls this through a pointer.
#include "backends/cpu/targets.h"

#include "backends/cpu/microkernel.h"

#include <algorithm>
#include <array>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/microkernel.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Accumulators fill the register file but for two vectors of b and one of a.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr std::size_t kRegisters = 32, kTileRows = 14;
#else
constexpr std::size_t kRegisters = 16, kTileRows = 6;
#endif

using D = hn::CappedTag<float, 16>;
constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(D()));

// Fewer rows take more columns, so that there are enough independent sums to hide a multiplication's latency.
constexpr std::size_t wide_vectors(std::size_t rows) {
  std::size_t vectors = 8;
  while (vectors > 2 && vectors * rows > kRegisters * 3 / 4) vectors /= 2;
  return vectors;
}

using TileFn = void (*)(const float*, const float*, std::int64_t, std::int64_t, float*, std::int64_t, bool);

template <std::size_t kRows, std::size_t kVectors>
void tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::int64_t ldb, std::int64_t k,
          float* HWY_RESTRICT c, std::int64_t ldc, bool first) {
  const D d;
  hn::Vec<D> sums[kRows][kVectors];
  for (auto& row : sums) {
    for (auto& sum : row) sum = hn::Zero(d);
  }
  // What the sums are added to comes from farther away than a and b.
  for (std::size_t m = 0; m < kRows; ++m) {
    for (std::size_t v = 0; v < kVectors; ++v)
      hwy::Prefetch(c + static_cast<std::int64_t>(m) * ldc + static_cast<std::int64_t>(v) * kLanes);
  }
  for (std::int64_t i = 0; i < k; ++i, a += kRows, b += ldb) {
    hn::Vec<D> columns[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(d, b + v * static_cast<std::size_t>(kLanes));
    _Pragma("GCC unroll 16") for (std::size_t m = 0; m < kRows; ++m) {
      const auto x = hn::Set(d, a[m]);
      _Pragma("GCC unroll 16") for (std::size_t v = 0; v < kVectors; ++v) sums[m][v] =
          hn::MulAdd(x, columns[v], sums[m][v]);
    }
  }
  _Pragma("GCC unroll 16") for (std::size_t m = 0; m < kRows; ++m, c += ldc) {
    _Pragma("GCC unroll 16") for (std::size_t v = 0; v < kVectors; ++v) {
      float* out = c + v * static_cast<std::size_t>(kLanes);
      hn::StoreU(first ? sums[m][v] : hn::Add(hn::LoadU(d, out), sums[m][v]), d, out);
    }
  }
}

template <std::size_t... kRow>
constexpr std::array<TileFn, kTileRows> narrow_tiles(std::index_sequence<kRow...>) {
  return {tile<kRow + 1, 2>...};
}
template <std::size_t... kRow>
constexpr std::array<TileFn, kTileRows> wide_tiles(std::index_sequence<kRow...>) {
  return {tile<kRow + 1, wide_vectors(kRow + 1)>...};
}
constexpr auto kNarrow = narrow_tiles(std::make_index_sequence<kTileRows>());
constexpr auto kWide = wide_tiles(std::make_index_sequence<kTileRows>());

void multiply(const float* a, std::int64_t rows, const float* b, std::int64_t ldb, std::int64_t k, std::int64_t columns,
              float* c, std::int64_t ldc, bool first) {
  constexpr std::int64_t kBlockFloats = 32 * 1024;  // of a: stays in a second-level cache while the columns go by
  const std::int64_t tiles = tile_count(rows, kTileRows);
  const std::int64_t block = std::max<std::int64_t>(1, kBlockFloats / (static_cast<std::int64_t>(kTileRows) * k + 1));
  const std::int64_t wide =
      (tiles == 1 ? static_cast<std::int64_t>(wide_vectors(static_cast<std::size_t>(rows))) : 2) * kLanes;
  for (std::int64_t begin = 0; begin < tiles; begin += block) {
    // Columns outside: k rows of a few vectors stay in L1 while the tiles of a come by.
    for (std::int64_t n = 0; n < columns;) {
      const bool is_wide = tiles == 1 && columns - n >= wide;
      for (std::int64_t i = begin; i < std::min(tiles, begin + block); ++i) {
        const TileRows t = tile_at(rows, kTileRows, i);
        const auto& fns = is_wide ? kWide : kNarrow;
        fns[static_cast<std::size_t>(t.count) - 1](a + t.first * k, b + n, ldb, k, c + t.first * ldc + n, ldc, first);
      }
      n += is_wide ? wide : 2 * kLanes;
    }
  }
}

/// kRows x kColumns dot products. Each is one chain of vectors and the sum of its lanes, whatever shares its tile.
template <std::size_t kRows, std::size_t kColumns>
void dots_tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::int64_t ldb, std::int64_t k,
               float* HWY_RESTRICT c, std::int64_t ldc, bool first) {
  const D d;
  hn::Vec<D> sums[kRows][kColumns];
  for (auto& row : sums) {
    for (auto& sum : row) sum = hn::Zero(d);
  }
  const std::int64_t whole = k / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    hn::Vec<D> columns[kColumns];
    _Pragma("GCC unroll 16") for (std::size_t n = 0; n < kColumns; ++n) {
      columns[n] = hn::LoadU(d, b + static_cast<std::int64_t>(n) * ldb + i);
    }
    _Pragma("GCC unroll 16") for (std::size_t m = 0; m < kRows; ++m) {
      const auto x = hn::LoadU(d, a + static_cast<std::int64_t>(m) * k + i);
      _Pragma("GCC unroll 16") for (std::size_t n = 0; n < kColumns; ++n) sums[m][n] =
          hn::MulAdd(x, columns[n], sums[m][n]);
    }
  }
  for (std::size_t m = 0; m < kRows; ++m) {
    for (std::size_t n = 0; n < kColumns; ++n) {
      float sum = hn::GetLane(hn::SumOfLanes(d, sums[m][n]));
      for (std::int64_t i = whole; i < k; ++i)
        sum += a[static_cast<std::int64_t>(m) * k + i] * b[static_cast<std::int64_t>(n) * ldb + i];
      float& out = c[static_cast<std::int64_t>(m) * ldc + static_cast<std::int64_t>(n)];
      out = first ? sum : out + sum;
    }
  }
}

constexpr std::size_t kDotRows = 8;
constexpr std::size_t dot_columns(std::size_t rows) { return std::min<std::size_t>(8, (kRegisters - 2) / (rows + 1)); }
template <std::size_t... kRow>
constexpr std::array<TileFn, kDotRows> dot_tiles(std::index_sequence<kRow...>) {
  return {dots_tile<kRow + 1, dot_columns(kRow + 1)>...};
}
template <std::size_t... kRow>
constexpr std::array<TileFn, kDotRows> dot_rests(std::index_sequence<kRow...>) {
  return {dots_tile<kRow + 1, 1>...};
}
constexpr auto kDots = dot_tiles(std::make_index_sequence<kDotRows>());
constexpr auto kDotRests = dot_rests(std::make_index_sequence<kDotRows>());

void dots(const float* a, std::int64_t rows, const float* b, std::int64_t ldb, std::int64_t k, std::int64_t columns,
          float* c, std::int64_t ldc, bool first) {
  for (std::int64_t i = 0; i < tile_count(rows, kDotRows); ++i) {
    const TileRows t = tile_at(rows, kDotRows, i);
    const auto here = static_cast<std::size_t>(t.count);
    const auto step = static_cast<std::int64_t>(dot_columns(here));
    for (std::int64_t n = 0; n < columns;) {
      const bool all = columns - n >= step;
      (all ? kDots : kDotRests)[here - 1](a + t.first * k, b + n * ldb, ldb, k, c + t.first * ldc + n, ldc, first);
      n += all ? step : 1;
    }
  }
}

void transpose(const float* from, std::int64_t rows, std::int64_t columns, std::int64_t from_ld, float* to,
               std::int64_t to_ld) {
#if HWY_TARGET == HWY_SCALAR
  constexpr std::int64_t kTile = 16;  // stays in a few cache lines of both
  for (std::int64_t i0 = 0; i0 < rows; i0 += kTile) {
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t i = i0; i < std::min(rows, i0 + kTile); ++i) to[j * to_ld + i] = from[i * from_ld + j];
    }
  }
#else
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<std::uint64_t, 2> pairs;
  const auto low = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveLower(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b)));
  };
  const auto high = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveUpper(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b)));
  };
  // Sixteen rows at a time fill a cache line of `to` while it is at hand.
  for (std::int64_t i0 = 0; i0 < rows; i0 += 16) {
    for (std::int64_t j = 0; j < columns; j += 4) {
      for (std::int64_t i = i0; i < std::min(rows, i0 + 16); i += 4) {
        const float* in = from + i * from_ld + j;
        const auto r0 = hn::LoadU(d, in), r1 = hn::LoadU(d, in + from_ld), r2 = hn::LoadU(d, in + 2 * from_ld),
                   r3 = hn::LoadU(d, in + 3 * from_ld);
        const auto a = hn::InterleaveLower(d, r0, r1), b = hn::InterleaveLower(d, r2, r3);
        const auto e = hn::InterleaveUpper(d, r0, r1), f = hn::InterleaveUpper(d, r2, r3);
        float* out = to + j * to_ld + i;
        hn::StoreU(low(a, b), d, out);
        hn::StoreU(high(a, b), d, out + to_ld);
        hn::StoreU(low(e, f), d, out + 2 * to_ld);
        hn::StoreU(high(e, f), d, out + 3 * to_ld);
      }
    }
  }
#endif
}

}  // namespace

Microkernel microkernel() { return {multiply, dots, transpose, kTileRows}; }

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
