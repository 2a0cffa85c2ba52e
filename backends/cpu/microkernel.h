// The inner loops of a product: register tiles of the result over one chunk of k.
// Apart from the product's driver so that only this part compiles once a target.
#ifndef NIBBLE_BACKENDS_CPU_MICROKERNEL_H
#define NIBBLE_BACKENDS_CPU_MICROKERNEL_H

#include "backends/cpu/targets.h"

#include <cstdint>

namespace nibble::cpu {

/// Columns of a panel that the kernels handle together at least; a panel is padded to a multiple of it.
inline constexpr std::int64_t kColumnStep = 32;

/// c[m][n] = (first ? 0 : c[m][n]) + sum over k of a[m][k] * b[k][n], the sum alone in registers from zero on, which
/// keeps the error of a long k small. Which rows and columns share a tile changes no bit.
///   a: tile after tile as tile_at cuts them; in a tile, for each k, its rows side by side
///   b: [k][columns], rows ldb apart; columns a multiple of kColumnStep
///   c: [rows][columns], rows ldc apart
using MultiplyFn = void (*)(const float* a, std::int64_t rows, const float* b, std::int64_t ldb, std::int64_t k,
                            std::int64_t columns, float* c, std::int64_t ldc, bool first);

/// The same for few rows and a weight whose values lie along k: a is [rows][k], b is [columns][k] with rows ldb apart.
/// Any number of columns.
using DotsFn = MultiplyFn;

/// to[j][i] = from[i][j] for i < rows and j < columns. May also write up to to[.][round up to 4 of rows], and read and
/// write as far in j.
using TransposeFn = void (*)(const float* from, std::int64_t rows, std::int64_t columns, std::int64_t from_ld,
                             float* to, std::int64_t to_ld);

struct Microkernel {
  MultiplyFn multiply;
  DotsFn dots;
  TransposeFn transpose;
  std::int64_t tile_rows;  ///< at most
};

const Microkernel& microkernel(Target target);

/// A run of rows that share a tile.
struct TileRows {
  std::int64_t first, count;
};

constexpr std::int64_t tile_count(std::int64_t rows, std::int64_t most) { return (rows + most - 1) / most; }

/// Tile `index` of `rows` cut as evenly as can be: one short tile would leave multipliers idle.
constexpr TileRows tile_at(std::int64_t rows, std::int64_t most, std::int64_t index) {
  const std::int64_t tiles = tile_count(rows, most), least = rows / tiles, longer = rows % tiles;
  return {index * least + (index < longer ? index : longer), least + (index < longer ? 1 : 0)};
}

}  // namespace nibble::cpu

#endif
