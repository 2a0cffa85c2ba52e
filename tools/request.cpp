// Building requests.
// Apart from request.h so that shapes of operations are written down once.
#include "tools/request.h"

#include "tools/common.h"

#include <algorithm>

namespace nibble::cli {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

Tensor tensor_of(const char* what, Format format, std::span<const std::int64_t> shape, Device device) {
  require(storage_bytes(format, shape).status(), kUsage);
  const Tensor t = make_tensor(nullptr, format, shape, device);
  if (!present(t)) fail(kUsage, "{} of shape {}: expected 1 to 4 dimensions", what, shape_text(shape));
  return t;
}

Weight weight_of(const RequestSpec& s) {
  Weight w = make_weight(tensor_of("weight", s.format, s.shape, s.device));
  if (!has_statistics(s.format)) return w;
  w.block_size = s.block_size;
  const std::int64_t blocks[] = {ceil_div(element_count(w.packed), s.block_size)};
  constexpr std::int64_t kCodes[] = {256};
  if (s.format == NIBBLE_BLOCKWISE8) w.code = tensor_of("code", NIBBLE_F32, kCodes, s.device);
  w.absmax = tensor_of("absmax", s.nested ? NIBBLE_U8 : NIBBLE_F32, blocks, s.device);
  if (!s.nested) return w;
  w.nested_block_size = s.nested_block_size;
  const std::int64_t groups[] = {ceil_div(blocks[0], s.nested_block_size)};
  w.nested_absmax = tensor_of("nested_absmax", NIBBLE_F32, groups, s.device);
  w.nested_code = tensor_of("nested_code", NIBBLE_F32, kCodes, s.device);
  return w;
}

std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) fail(kUsage, "{} times {}: expected a product of 63 bits", a, b);
  return out;
}

/// [tokens, out, batches]: neighbours along tokens, or with --transposed along out.
Tensor gradient_of(const RequestSpec& s, const Weight& w) {
  const std::int64_t shape[] = {s.tokens, w.packed.shape[1], product(w.packed.shape[2], s.repeat[0]),
                                product(w.packed.shape[3], s.repeat[1])};
  Tensor t = tensor_of("src1", s.src1, shape, s.device);
  if (s.transposed) {
    t.byte_stride[1] = t.byte_stride[0];
    t.byte_stride[0] = t.shape[1] * t.byte_stride[1];
  }
  return t;
}

}  // namespace

bool has_statistics(Format format) {
  const FormatInfo* info = find_format(format);
  return info != nullptr && info->kind == FormatInfo::Kind::flat;
}

nibble_request build_request(const RequestSpec& s) {
  nibble_request r = make_request(s.op);
  r.math = s.math;
  r.weight = weight_of(s);
  const Tensor& w = r.weight.packed;
  if (s.op == NIBBLE_OP_DEQUANTIZE) {
    r.dst = tensor_of("dst", s.to, s.shape, s.device);
  } else if (s.op == NIBBLE_OP_OUT_PROD) {
    r.src1 = gradient_of(s, r.weight);
    r.dst =
        tensor_of("dst", s.to, std::vector{w.shape[0], r.src1.shape[0], r.src1.shape[2], r.src1.shape[3]}, s.device);
  } else {
    r.src1 = tensor_of("src1", s.src1, std::vector{w.shape[0], s.tokens}, s.device);
    r.dst = tensor_of("dst", s.to, std::vector{w.shape[1], s.tokens}, s.device);
  }
  return r;
}

}  // namespace nibble::cli
