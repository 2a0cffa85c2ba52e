// dequantize: its checks and its reference.
// Apart from the other operations so that a change to one cannot touch another.
#include "core/ops/dequantize.h"

#include "core/decode.h"
#include "core/ops/validate.h"

#include <algorithm>

namespace nibble::ops::dequantize {

Status validate(const nibble_request& r) {
  if (Status s = check_weight(r.weight); !s) return s;
  for (const Named& t : {Named{"src1", &r.src1}, Named{"bias", &r.bias}}) {
    if (Status s = check_absent(t, "dequantize reads the weight alone"); !s) return s;
  }
  if (Status s = check_output({"dst", &r.dst}); !s) return s;
  if (Status s = check_no_flags("dequantize", r.flags); !s) return s;
  return check_dimensions({"dst", &r.dst}, r.weight.packed.shape, "the weight's");
}

std::uint64_t reference_workspace(const nibble_request& /*r*/) { return 0; }

void reference(const nibble_request& r, void* /*workspace*/) {
  constexpr std::int64_t kPiece = 1024;
  float values[kPiece];
  const Tensor& dst = r.dst;
  for (std::int64_t i3 = 0; i3 < dst.shape[3]; ++i3) {
    for (std::int64_t i2 = 0; i2 < dst.shape[2]; ++i2) {
      for (std::int64_t i1 = 0; i1 < dst.shape[1]; ++i1) {
        std::uint8_t* row = bytes_of(dst) + i1 * dst.byte_stride[1] + i2 * dst.byte_stride[2] + i3 * dst.byte_stride[3];
        for (std::int64_t first = 0; first < dst.shape[0]; first += kPiece) {
          const std::int64_t count = std::min(kPiece, dst.shape[0] - first);
          decode_row(r.weight, i1, i2, i3, first, count, values);
          for (std::int64_t i = 0; i < count; ++i) {
            store_element(dst.format, row + (first + i) * dst.byte_stride[0], values[i]);
          }
        }
      }
    }
  }
}

}  // namespace nibble::ops::dequantize
