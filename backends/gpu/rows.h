// What a decode kernel is told: rows of a weight, where they go, and how they are cut into tiles.
// Apart from the kernels because every engine walks the same rows, and host code makes and flattens them.
#ifndef NIBBLE_BACKENDS_GPU_ROWS_H
#define NIBBLE_BACKENDS_GPU_ROWS_H

#include <nibble/abi.h>

#include "core/numeric.h"

#include <cstdint>

namespace nibble::gpu {

/// Rows of `values` neighbouring values, in up to three outer dimensions. Source positions are in the engine's own
/// unit: bytes for formats that keep everything in their blocks, values for formats that run over the whole tensor.
struct Rows {
  const std::uint8_t* src = nullptr;  ///< packed bytes
  std::uint8_t* dst = nullptr;
  std::int64_t first = 0;   ///< source position of the first row
  std::int64_t values = 0;  ///< of a row
  std::int64_t count[3] = {1, 1, 1};
  std::int64_t src_stride[3] = {0, 0, 0};  ///< source positions
  std::int64_t dst_stride[3] = {0, 0, 0};  ///< bytes
  const float* power = nullptr;  ///< of two, that values are multiplied by before they are rounded; null: none

  [[nodiscard]] NIBBLE_HD constexpr std::int64_t rows() const { return count[0] * count[1] * count[2]; }
};

/// Joins dimensions that follow on each other on both sides, so that a contiguous tensor is one long row.
/// A row of v values takes v / block_values * block_units source positions.
constexpr Rows flattened(Rows r, std::int64_t block_values, std::int64_t block_units, std::int64_t dst_value_bytes) {
  for (int d = 0; d < 3; ++d) {
    const bool follows = r.src_stride[0] == r.values / block_values * block_units &&
                         r.dst_stride[0] == r.values * dst_value_bytes && r.values % block_values == 0;
    if (r.count[0] != 1 && !follows) break;
    r.values *= r.count[0];
    for (int i = 0; i < 2; ++i) {
      r.count[i] = r.count[i + 1];
      r.src_stride[i] = r.src_stride[i + 1];
      r.dst_stride[i] = r.dst_stride[i + 1];
    }
    r.count[2] = 1;
  }
  return r;
}

/// A piece of a row.
struct Tile {
  std::int64_t src;    ///< source position of its row
  std::int64_t begin;  ///< its first value, counted in the row
  std::uint8_t* dst;   ///< its own first value's place
  int values;
  const float* power;
};

/// Rows cut into tiles of at most `tile_values`, so few that a grid of blocks can number them; the last tile of each
/// row may be shorter.
struct Tiles {
  Rows rows;
  std::uint32_t tile_values;
  std::uint32_t per_row;
  std::uint32_t count;

  [[nodiscard]] NIBBLE_HD constexpr Tile tile(std::uint32_t index, int dst_value_bytes) const {
    Tile t{
        .src = rows.first, .begin = 0, .dst = rows.dst, .values = static_cast<int>(tile_values), .power = rows.power};
    if (count != per_row) {
      std::uint32_t row = index / per_row;
      index -= row * per_row;
      for (int d = 0; d < 3; ++d) {
        const auto n = static_cast<std::uint32_t>(rows.count[d]);
        const std::uint32_t next = row / n;
        t.src += (row - next * n) * rows.src_stride[d];
        t.dst += (row - next * n) * rows.dst_stride[d];
        row = next;
      }
    }
    t.begin = static_cast<std::int64_t>(index) * tile_values;
    if (rows.values - t.begin < t.values) t.values = static_cast<int>(rows.values - t.begin);
    t.dst += t.begin * dst_value_bytes;
    return t;
  }
};

/// The most blocks of a grid.
inline constexpr std::int64_t kMostTiles = 0x7fffffff;

/// Calls launch(tiles) for the rows, in halves where there are more tiles than a grid has blocks, until one fails.
/// No single row comes near that: it would be 10^13 values.
template <class Launch>
nibble_status in_pieces(const Rows& r, int tile_values, const Launch& launch) {
  const std::int64_t per_row = (r.values + tile_values - 1) / tile_values;
  if (r.rows() <= kMostTiles / per_row || r.rows() == 1) {
    return launch(Tiles{r, static_cast<std::uint32_t>(tile_values), static_cast<std::uint32_t>(per_row),
                        static_cast<std::uint32_t>(per_row * r.rows())});
  }
  const int d = r.count[2] > 1 ? 2 : r.count[1] > 1 ? 1 : 0;
  Rows head = r, tail = r;
  head.count[d] /= 2;
  tail.count[d] -= head.count[d];
  tail.first += head.count[d] * r.src_stride[d];
  tail.dst += head.count[d] * r.dst_stride[d];
  const nibble_status s = in_pieces(head, tile_values, launch);
  return s != NIBBLE_OK ? s : in_pieces(tail, tile_values, launch);
}

}  // namespace nibble::gpu

#endif
