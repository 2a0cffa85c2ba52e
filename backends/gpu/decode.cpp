// From a weight and a destination to an engine's rows.
// Apart from the engines because this is host code, compiled by the host's compiler in every back end.
#include "backends/gpu/decode.h"

#include <nibble/tensor.hpp>

#include "backends/gpu/engines.h"
#include "backends/gpu/text.h"

namespace nibble::gpu {
namespace {

bool is_flat(Engine engine) { return engine == Engine::flat4 || engine == Engine::flat8; }

std::int64_t bytes_of_type(nibble_format to) { return to == NIBBLE_F32 ? 4 : 2; }

/// A format's numbers that rows are made of.
struct Layout {
  Engine engine = Engine::element;
  std::int64_t block_values = 1;
  std::int64_t block_units = 1;  ///< source positions that a block takes
};
Layout layout_of(nibble_format format) {
  Layout layout;
  visit_format(format, [&](auto f) {
    layout.engine = f.kEngine;
    if (!is_flat(f.kEngine)) layout = {f.kEngine, f.kBlockValues, f.kBlockBytes};
  });
  return layout;
}

/// Rows of the weight's three outer dimensions, from row (i1, i2, i3) on. The destination is left to the caller.
Rows source_rows(const nibble_weight& w, const Layout& layout, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
  const nibble_tensor& t = w.packed;
  Rows rows{.src = bytes_of(t), .values = t.shape[0]};
  std::int64_t flat_stride = t.shape[0];
  for (int d = 0; d < 3; ++d) {
    rows.src_stride[d] = is_flat(layout.engine) ? flat_stride : t.byte_stride[d + 1];
    flat_stride *= t.shape[d + 1];
  }
  rows.first = i1 * rows.src_stride[0] + i2 * rows.src_stride[1] + i3 * rows.src_stride[2];
  return rows;
}

nibble_status decode_flat_two_step(const nibble_weight& w, nibble_format to, const Rows& rows, const float* scales,
                                   Stream stream, nibble_text* why) {
  if (nested(w) && scales == nullptr) {
    return fail(why, NIBBLE_INTERNAL, "a nested weight was decoded without rebuilt scales");
  }
  const float* absmax = nested(w) ? scales : reinterpret_cast<const float*>(bytes_of(w.absmax));
  return decode_flat(w, to, rows, absmax, stream, why);
}

nibble_status decode(const nibble_weight& w, const Layout& layout, nibble_format to, Rows rows, const float* scales,
                     Stream stream, nibble_text* why) {
  rows = flattened(rows, layout.block_values, layout.block_units, bytes_of_type(to));
  if (rows.values == 0 || rows.rows() == 0) return NIBBLE_OK;
  switch (layout.engine) {
    case Engine::runs:
      return decode_runs(w.packed.format, to, rows, stream, why);
    case Engine::grid:
      return decode_grid(w.packed.format, to, rows, stream, why);
    case Engine::base3:
      return decode_base3(w.packed.format, to, rows, stream, why);
    case Engine::element:
      return decode_element(w.packed.format, to, rows, stream, why);
    case Engine::flat4:
    case Engine::flat8:
      break;
  }
  return decode_flat_two_step(w, to, rows, scales, stream, why);
}

}  // namespace

std::uint64_t decode_scales_bytes(const nibble_weight& w) {
  if (!nested(w)) return 0;
  return static_cast<std::uint64_t>(element_count(w.absmax)) * sizeof(float);
}

nibble_status decode_rows(const nibble_weight& w, std::int64_t i1_first, std::int64_t i1_count, std::int64_t i2,
                          std::int64_t i3, nibble_format to, void* out, std::int64_t out_row_stride_elements,
                          const float* scales, Stream stream, nibble_text* why) {
  const Layout layout = layout_of(w.packed.format);
  Rows rows = source_rows(w, layout, i1_first, i2, i3);
  rows.dst = static_cast<std::uint8_t*>(out);
  rows.count[0] = i1_count;
  rows.dst_stride[0] = out_row_stride_elements * bytes_of_type(to);
  return decode(w, layout, to, rows, scales, stream, why);
}

nibble_status decode_tensor(const nibble_weight& w, const nibble_tensor& dst, const float* scales, Stream stream,
                            nibble_text* why) {
  const Layout layout = layout_of(w.packed.format);
  Rows rows = source_rows(w, layout, 0, 0, 0);
  rows.dst = bytes_of(dst);
  for (int d = 0; d < 3; ++d) {
    rows.count[d] = dst.shape[d + 1];
    rows.dst_stride[d] = dst.byte_stride[d + 1];
  }
  return decode(w, layout, dst.format, rows, scales, stream, why);
}

}  // namespace nibble::gpu
