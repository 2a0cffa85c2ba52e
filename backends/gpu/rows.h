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
  std::int64_t src;     ///< source position of its row
  std::uint8_t* dst;    ///< its own first value's place
  std::int64_t begin;   ///< its first value, counted in the row
  int values;
};

/// Rows cut into pieces of at most `tile_values`; the last of each row may be shorter.
struct Tiling {
  std::int64_t per_row;
  std::int64_t count;
  int tile_values;

  NIBBLE_HD constexpr Tiling(const Rows& r, int values)
      : per_row((r.values + values - 1) / values), count(per_row * r.rows()), tile_values(values) {}

  [[nodiscard]] NIBBLE_HD constexpr Tile tile(const Rows& r, std::int64_t index, int dst_value_bytes) const {
    Tile t{.src = r.first, .dst = r.dst, .begin = index * tile_values, .values = tile_values};
    if (count != per_row) {
      // Divisions of 64 bits cost as much as decoding a few values, and most calls are one flat row.
      std::int64_t row = index / per_row;
      t.begin = (index - row * per_row) * tile_values;
      for (int d = 0; d < 3; ++d) {
        const std::int64_t next = row / r.count[d];
        t.src += (row - next * r.count[d]) * r.src_stride[d];
        t.dst += (row - next * r.count[d]) * r.dst_stride[d];
        row = next;
      }
    }
    const std::int64_t left = r.values - t.begin;
    if (left < t.values) t.values = static_cast<int>(left);
    t.dst += t.begin * dst_value_bytes;
    return t;
  }
};

}  // namespace nibble::gpu

#endif
