// out_prod: its checks and its reference.
// Apart from the other operations so that a change to one cannot touch another.
#include "core/ops/out_prod.h"

#include "core/decode.h"
#include "core/ops/validate.h"

#include <fmt/format.h>

#include <algorithm>

namespace nibble::ops::out_prod {
namespace {

/// Values of a weight's row that are decoded at a time: a whole number of every format's blocks.
constexpr std::int64_t kPiece = 256;

Status check_repeat(int dimension, std::int64_t weight, std::int64_t src1) {
  if (weight == src1 || (weight > 0 && src1 % weight == 0)) return {};
  return {NIBBLE_INVALID_ARGUMENT,
          fmt::format("src1 has {} in dimension {} and the weight {}: expected a multiple of the weight's", src1,
                      dimension, weight)};
}

std::uint8_t* at(const Tensor& t, std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
  return bytes_of(t) + i0 * t.byte_stride[0] + i1 * t.byte_stride[1] + i2 * t.byte_stride[2] + i3 * t.byte_stride[3];
}

/// One piece of columns of one matrix of the batch: sums over all k, then stores.
void reference_piece(const nibble_request& r, std::int64_t first, std::int64_t i2, std::int64_t i3, double* sums) {
  const Tensor &w = r.weight.packed, &src1 = r.src1, &dst = r.dst;
  const std::int64_t count = std::min(kPiece, w.shape[0] - first), tokens = dst.shape[1];
  const std::int64_t w2 = i2 / (src1.shape[2] / w.shape[2]), w3 = i3 / (src1.shape[3] / w.shape[3]);
  std::fill_n(sums, count * tokens, 0.0);
  float values[kPiece];
  for (std::int64_t k = 0; k < w.shape[1]; ++k) {
    decode_row(r.weight, k, w2, w3, first, count, values);
    for (std::int64_t i1 = 0; i1 < tokens; ++i1) {
      const double g = load_element(src1.format, at(src1, i1, k, i2, i3));
      for (std::int64_t i = 0; i < count; ++i) sums[i1 * count + i] += values[i] * g;
    }
  }
  for (std::int64_t i1 = 0; i1 < tokens; ++i1) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint8_t* out = at(dst, first + i, i1, i2, i3);
      double sum = sums[i1 * count + i];
      if ((r.flags & NIBBLE_FLAG_ACCUMULATE) != 0) sum += load_element(dst.format, out);
      store_element(dst.format, out, static_cast<float>(sum));
    }
  }
}

}  // namespace

Status validate(const nibble_request& r) {
  const Tensor &w = r.weight.packed, &src1 = r.src1;
  if (Status s = check_weight(r.weight); !s) return s;
  if (Status s = check_activation({"src1", &src1}); !s) return s;
  if (Status s = check_absent({"bias", &r.bias}, "out_prod adds none"); !s) return s;
  if (Status s = check_output({"dst", &r.dst}); !s) return s;
  if ((r.flags & ~std::uint32_t{NIBBLE_FLAG_ACCUMULATE}) != 0) {
    return {NIBBLE_INVALID_ARGUMENT, fmt::format("out_prod was given flags {}: expected accumulate or none", r.flags)};
  }
  if (src1.shape[1] != w.shape[1]) {
    return {NIBBLE_INVALID_ARGUMENT, fmt::format("src1 has {} in dimension 1 and the weight {}: expected the same, K",
                                                 src1.shape[1], w.shape[1])};
  }
  for (const int d : {2, 3}) {
    if (Status s = check_repeat(d, w.shape[d], src1.shape[d]); !s) return s;
  }
  return check_dimensions({"dst", &r.dst}, {w.shape[0], src1.shape[0], src1.shape[2], src1.shape[3]},
                          "the weight's dimension 0, then src1's 0, 2 and 3");
}

std::uint64_t reference_workspace(const nibble_request& r) {
  return static_cast<std::uint64_t>(kPiece * r.dst.shape[1]) * sizeof(double);
}

void reference(const nibble_request& r, void* workspace) {
  for (std::int64_t i3 = 0; i3 < r.dst.shape[3]; ++i3) {
    for (std::int64_t i2 = 0; i2 < r.dst.shape[2]; ++i2) {
      for (std::int64_t first = 0; first < r.dst.shape[0]; first += kPiece) {
        reference_piece(r, first, i2, i3, static_cast<double*>(workspace));
      }
    }
  }
}

}  // namespace nibble::ops::out_prod
