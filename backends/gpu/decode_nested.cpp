// Decoding nested weights in one launch.
// Apart from decode.cpp because a back end that does not have this path must not need its kernels.
#include "backends/gpu/decode.h"
#include "backends/gpu/engines.h"
#include "backends/gpu/weight_rows.h"

namespace nibble::gpu {

const WeightDecoder kNestedDecoder = {
    .scales_bytes = [](const nibble_weight&) { return std::uint64_t{0}; },
    .rebuild_scales = nullptr,  // asked for only where there are bytes for them
    .rows =
        [](const nibble_weight& w, std::int64_t i1_first, std::int64_t i1_count, std::int64_t i2, std::int64_t i3,
           nibble_format to, void* out, std::int64_t out_row_stride_elements, const float* /*scales*/, Stream stream,
           nibble_text* why) {
          const Rows rows = rows_of_range(w, i1_first, i1_count, i2, i3, to, out, out_row_stride_elements);
          return is_empty(rows) ? NIBBLE_OK : decode_nested(w, to, rows, stream, why);
        }};

nibble_status decode_tensor_nested(const nibble_weight& w, const nibble_tensor& dst, Stream stream, nibble_text* why) {
  const Rows rows = rows_of_tensor(w, dst);
  return is_empty(rows) ? NIBBLE_OK : decode_nested(w, dst.format, rows, stream, why);
}

}  // namespace nibble::gpu
