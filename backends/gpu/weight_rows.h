// From a weight and a destination to an engine's rows.
// Apart from decode.cpp because the path of nested weights in one launch starts from the same rows.
#ifndef NIBBLE_BACKENDS_GPU_WEIGHT_ROWS_H
#define NIBBLE_BACKENDS_GPU_WEIGHT_ROWS_H

#include <nibble/tensor.hpp>

#include "backends/gpu/rows.h"
#include "core/formats/formats.h"

namespace nibble::gpu {

constexpr bool keeps_scales_beside(Engine engine) { return engine == Engine::flat4 || engine == Engine::flat8; }

/// A format's numbers that rows are made of.
struct Layout {
  Engine engine = Engine::element;
  std::int64_t block_values = 1;
  std::int64_t block_units = 1;  ///< source positions that a block takes
};
inline Layout layout_of(nibble_format format) {
  Layout layout;
  visit_format(format, [&](auto f) {
    layout.engine = f.kEngine;
    if (!keeps_scales_beside(f.kEngine)) layout = {f.kEngine, f.kBlockValues, f.kBlockBytes};
  });
  return layout;
}

inline std::int64_t bytes_of_type(nibble_format to) { return to == NIBBLE_F32 ? 4 : 2; }

/// Rows of the weight's three outer dimensions, from row (i1, i2, i3) on. The destination is left to the caller.
inline Rows source_rows(const nibble_weight& w, const Layout& layout, std::int64_t i1, std::int64_t i2,
                        std::int64_t i3) {
  const nibble_tensor& t = w.packed;
  Rows rows{.src = bytes_of(t), .values = t.shape[0]};
  std::int64_t flat_stride = t.shape[0];
  for (int d = 0; d < 3; ++d) {
    rows.src_stride[d] = keeps_scales_beside(layout.engine) ? flat_stride : t.byte_stride[d + 1];
    flat_stride *= t.shape[d + 1];
  }
  rows.first = i1 * rows.src_stride[0] + i2 * rows.src_stride[1] + i3 * rows.src_stride[2];
  return rows;
}

/// Rows i1 .. i1 + count of slice (i2, i3) to `out`, whose rows are `stride` elements apart.
inline Rows rows_of_range(const nibble_weight& w, std::int64_t i1, std::int64_t count, std::int64_t i2, std::int64_t i3,
                          nibble_format to, void* out, std::int64_t stride) {
  const Layout layout = layout_of(w.packed.format);
  Rows rows = source_rows(w, layout, i1, i2, i3);
  rows.dst = static_cast<std::uint8_t*>(out);
  rows.count[0] = count;
  rows.dst_stride[0] = stride * bytes_of_type(to);
  return flattened(rows, layout.block_values, layout.block_units, bytes_of_type(to));
}

/// All rows, to `dst` of the same shape.
inline Rows rows_of_tensor(const nibble_weight& w, const nibble_tensor& dst) {
  const Layout layout = layout_of(w.packed.format);
  Rows rows = source_rows(w, layout, 0, 0, 0);
  rows.dst = bytes_of(dst);
  for (int d = 0; d < 3; ++d) {
    rows.count[d] = dst.shape[d + 1];
    rows.dst_stride[d] = dst.byte_stride[d + 1];
  }
  return flattened(rows, layout.block_values, layout.block_units, bytes_of_type(dst.format));
}

inline bool is_empty(const Rows& rows) { return rows.values == 0 || rows.rows() == 0; }

}  // namespace nibble::gpu

#endif
