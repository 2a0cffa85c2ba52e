// linear: its checks and its reference.
// Apart from the other operations so that a change to one cannot touch another.
#include "core/ops/linear.h"

#include "core/decode.h"
#include "core/ops/validate.h"

#include <fmt/format.h>

#include <algorithm>

namespace nibble::ops::linear {

Status validate(const nibble_request& r) {
  const Tensor &w = r.weight.packed, &src1 = r.src1, &bias = r.bias;
  if (Status s = check_weight(r.weight); !s) return s;
  if (Status s = check_activation({"src1", &src1}); !s) return s;
  if (Status s = check_output({"dst", &r.dst}); !s) return s;
  if (Status s = check_no_flags("linear", r.flags); !s) return s;
  if (w.shape[2] != 1 || w.shape[3] != 1) {
    return {NIBBLE_INVALID_ARGUMENT,
            fmt::format("weight has dimensions 2 and 3 of {} and {}: expected 1, a matrix [in, out]", w.shape[2],
                        w.shape[3])};
  }
  if (Status s = check_dimensions({"src1", &src1}, {w.shape[0], src1.shape[1], 1, 1}, "[in, tokens]"); !s) return s;
  if (present(bias)) {
    if (Status s = check_activation({"bias", &bias}); !s) return s;
    if (Status s = check_dimensions({"bias", &bias}, {w.shape[1], 1, 1, 1}, "[out]"); !s) return s;
  }
  return check_dimensions({"dst", &r.dst}, {w.shape[1], src1.shape[1], 1, 1}, "[out, tokens]");
}

std::uint64_t reference_workspace(const nibble_request& r) {
  return static_cast<std::uint64_t>(r.dst.shape[1]) * sizeof(double);
}

void reference(const nibble_request& r, void* workspace) {
  constexpr std::int64_t kPiece = 256;  // a whole number of every format's blocks
  auto* sums = static_cast<double*>(workspace);
  const std::int64_t in = r.weight.packed.shape[0], out = r.dst.shape[0], tokens = r.dst.shape[1];
  for (std::int64_t o = 0; o < out; ++o) {
    const double bias =
        present(r.bias) ? load_element(r.bias.format, bytes_of(r.bias) + o * r.bias.byte_stride[0]) : 0.0;
    std::fill_n(sums, tokens, bias);
    float values[kPiece];
    for (std::int64_t first = 0; first < in; first += kPiece) {
      const std::int64_t count = std::min(kPiece, in - first);
      decode_row(r.weight, o, 0, 0, first, count, values);
      for (std::int64_t t = 0; t < tokens; ++t) {
        const std::uint8_t* x = bytes_of(r.src1) + t * r.src1.byte_stride[1] + first * r.src1.byte_stride[0];
        for (std::int64_t i = 0; i < count; ++i) {
          sums[t] += static_cast<double>(values[i]) * load_element(r.src1.format, x + i * r.src1.byte_stride[0]);
        }
      }
    }
    for (std::int64_t t = 0; t < tokens; ++t) {
      store_element(r.dst.format, bytes_of(r.dst) + o * r.dst.byte_stride[0] + t * r.dst.byte_stride[1],
                    static_cast<float>(sums[t]));
    }
  }
}

}  // namespace nibble::ops::linear
