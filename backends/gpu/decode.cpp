// Decoding a weight's rows with the engine of its format.
// Apart from the engines because this is host code, compiled by the host's compiler in every back end.
#include "backends/gpu/decode.h"

#include "backends/gpu/engines.h"
#include "backends/gpu/text.h"
#include "backends/gpu/weight_rows.h"

namespace nibble::gpu {
namespace {

nibble_status decode_two_step(const nibble_weight& w, nibble_format to, const Rows& rows, const float* scales,
                              Stream stream, nibble_text* why) {
  if (!nested(w)) return decode_flat(w, to, rows, reinterpret_cast<const float*>(bytes_of(w.absmax)), stream, why);
  if (scales == nullptr) return fail(why, NIBBLE_INTERNAL, "a nested weight was to be decoded without rebuilt scales");
  return decode_flat(w, to, rows, scales, stream, why);
}

nibble_status decode(const nibble_weight& w, nibble_format to, const Rows& rows, const float* scales, Stream stream,
                     nibble_text* why) {
  if (is_empty(rows)) return NIBBLE_OK;
  switch (layout_of(w.packed.format).engine) {
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
  return decode_two_step(w, to, rows, scales, stream, why);
}

}  // namespace

std::uint64_t decode_scales_bytes(const nibble_weight& w) {
  if (!nested(w)) return 0;
  return static_cast<std::uint64_t>(element_count(w.absmax)) * sizeof(float);
}

nibble_status decode_rows(const nibble_weight& w, std::int64_t i1_first, std::int64_t i1_count, std::int64_t i2,
                          std::int64_t i3, nibble_format to, void* out, std::int64_t out_row_stride_elements,
                          const float* scales, Stream stream, nibble_text* why) {
  const Rows rows = rows_of_range(w, i1_first, i1_count, i2, i3, to, out, out_row_stride_elements);
  return decode(w, to, rows, scales, stream, why);
}

nibble_status decode_rows_scaled(const nibble_weight& w, std::int64_t i1_first, std::int64_t i1_count, void* out,
                                 std::int64_t out_row_stride_elements, const float* scales, const float* power,
                                 Stream stream, nibble_text* why) {
  Rows rows = rows_of_range(w, i1_first, i1_count, 0, 0, NIBBLE_F16, out, out_row_stride_elements);
  rows.power = power;
  return decode(w, NIBBLE_F16, rows, scales, stream, why);
}

nibble_status decode_tensor(const nibble_weight& w, const nibble_tensor& dst, const float* scales, Stream stream,
                            nibble_text* why) {
  return decode(w, dst.format, rows_of_tensor(w, dst), scales, stream, why);
}

}  // namespace nibble::gpu
