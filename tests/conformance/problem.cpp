// Putting a problem together.
// Apart from the header so that it stays a description.
#include "tests/conformance/problem.h"

#include "tests/support/bits.h"
#include "tests/support/device_memory.h"

#include <cmath>

namespace nibble::conformance {
namespace {

bool expects_nan(const Problem& p, std::size_t index) {
  if (const auto* exact = std::get_if<ExactValues>(&p.expected))
    return test::is_nan(p.request.dst.format, exact->bits[index]);
  return std::isnan(std::get<BoundedValues>(p.expected).value[index]);
}

}  // namespace

Tensor make_view(Format type, const std::array<std::int64_t, 4>& shape, std::int64_t padding, bool swap_outer) {
  Tensor t = make_tensor(nullptr, type, shape);
  while (t.rank > 1 && t.shape[t.rank - 1] == 1) --t.rank;
  const std::int64_t pad = padding * test::element_bytes(type);
  t.byte_stride[1] = t.shape[0] * t.byte_stride[0] + pad;
  const int inner = swap_outer ? 3 : 2, outer = swap_outer ? 2 : 3;
  t.byte_stride[inner] = t.shape[1] * t.byte_stride[1] + pad;
  t.byte_stride[outer] = t.shape[inner] * t.byte_stride[inner] + pad;
  return t;
}

void set_weight(Problem& p, test::HostWeight weight) {
  p.request.weight = weight.weight;
  p.bytes[kWeight] = std::move(weight.packed);
  p.bytes[kCode] = std::move(weight.code);
  p.bytes[kAbsmax] = std::move(weight.absmax);
  p.bytes[kNestedAbsmax] = std::move(weight.nested_absmax);
  p.bytes[kNestedCode] = std::move(weight.nested_code);
}

void put_off_alignment(Problem& p) {
  const FormatInfo& info = *find_format(p.request.weight.packed.format);
  p.weight_skew = info.kind == FormatInfo::Kind::element ? info.block_bytes : 1;
  p.dst_skew = static_cast<std::size_t>(test::element_bytes(p.request.dst.format));
}

void poison_dst(Problem& p) {
  constexpr std::uint32_t kNumber = 0x5a5a5a5a;  // finite in f32, f16 and bf16
  const Tensor& dst = p.request.dst;
  p.dst.resize(test::extent_bytes(dst));
  test::poison(p.dst);
  test::for_each_element(dst, [&](std::size_t index, std::int64_t at) {
    if (expects_nan(p, index)) test::put_element_bits(dst.format, p.dst.data() + at, kNumber);
  });
}

}  // namespace nibble::conformance
