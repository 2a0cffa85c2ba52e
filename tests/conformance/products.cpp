// Filling src1, bias and dst, and the sums in binary64 over weights that the reference decodes.
// Apart from the header so that cases see what can be varied and nothing else.
#include "tests/conformance/products.h"

#include "core/decode.h"
#include "tests/support/bits.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace nibble::conformance {
namespace {

using test::Random;

float activation(Activations kind, std::int64_t token, std::int64_t tokens, std::int64_t k, Random& r) {
  switch (kind) {
    case Activations::large:
      return 1e6f * r.normal();
    case Activations::small:
      return 1e-9f * r.normal();
    case Activations::huge:
      return 1e35f * r.normal();
    case Activations::tiny:
      return 1e-30f * r.normal();
    case Activations::expanded_one:
      return 1.0f;
    case Activations::zeros:
      return 0.0f;
    case Activations::one_huge:
      return r.normal() * (token == std::min<std::int64_t>(1, tokens - 1) ? 1e6f : 1.0f);
    case Activations::falling:
      return std::ldexp(r.normal(), -static_cast<int>(k % 21));
    default:
      return r.normal();
  }
}

/// Fills src1, whose strides are set, dimension `token` of which counts the tokens.
void fill_src1(Problem& p, Activations kind, int token, Random& r) {
  Tensor& t = p.request.src1;
  if (kind == Activations::expanded_one) std::fill_n(t.byte_stride, 4, 0);
  if (kind == Activations::one_per_k) t.byte_stride[token] = 0;
  auto& bytes = p.bytes[kSrc1];
  bytes.assign(test::extent_bytes(t), 0xff);  // NaN in the padding
  t.data = bytes.data();
  test::for_each_element(t, [&](std::size_t index, std::int64_t at) {
    const auto n = static_cast<std::int64_t>(index);
    const std::int64_t i[2] = {n % t.shape[0], n / t.shape[0] % t.shape[1]};
    store_element(t.format, bytes.data() + at, activation(kind, i[token], t.shape[token], i[1 - token], r));
  });
  if (kind != Activations::one_infinity && kind != Activations::one_nan) return;
  std::int64_t i[4] = {t.shape[0] / 2, t.shape[1] / 2, 0, 0};
  i[token] = t.shape[token] > 1 ? 1 : 0;
  const float odd = kind == Activations::one_nan ? std::nanf("") : std::numeric_limits<float>::infinity();
  store_element(t.format, bytes.data() + test::element_offset(t, i), odd);
}

/// src1 contiguous along dimension 0, or along dimension 1.
Tensor make_src1(Format type, const std::array<std::int64_t, 4>& shape, std::int64_t padding, bool along_1) {
  if (!along_1) return make_view(type, shape, padding);
  Tensor t = make_view(type, {shape[1], shape[0], shape[2], shape[3]}, padding);
  if (t.rank < 2) t.rank = 2;
  std::swap(t.shape[0], t.shape[1]);
  std::swap(t.byte_stride[0], t.byte_stride[1]);
  return t;
}

double load_at(const Tensor& t, std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
  return load_element(t.format, bytes_of(t) + test::element_offset(t, {i0, i1, i2, i3}));
}

BoundedValues sums(const Tensor& dst, std::int64_t depth, Activations activations) {
  const auto count = static_cast<std::size_t>(element_count(dst));
  // A few products that dominate a sum, as those that fall do, are not what a bound over many alike may count on.
  const bool alike = activations != Activations::expanded_one && activations != Activations::falling;
  // Nor may it where scales are products of codes alone, as nested ones beside an offset that is too small.
  const bool zero_mean = alike && activations != Activations::huge && activations != Activations::tiny;
  return {std::vector<double>(count), std::vector<double>(count), depth, zero_mean, alike};
}

/// Adds one row k of one weight matrix to all results that it reaches.
void add_row(const Problem& p, const std::vector<float>& row, std::int64_t k, std::int64_t w2, std::int64_t w3,
             BoundedValues& out) {
  const Tensor &w = p.request.weight.packed, &src1 = p.request.src1, &dst = p.request.dst;
  const std::int64_t repeat2 = src1.shape[2] / w.shape[2], repeat3 = src1.shape[3] / w.shape[3];
  for (std::int64_t i3 = w3 * repeat3; i3 < (w3 + 1) * repeat3; ++i3) {
    for (std::int64_t i2 = w2 * repeat2; i2 < (w2 + 1) * repeat2; ++i2) {
      for (std::int64_t token = 0; token < dst.shape[1]; ++token) {
        const double g = load_at(src1, token, k, i2, i3);
        const auto first = static_cast<std::size_t>(((i3 * dst.shape[2] + i2) * dst.shape[1] + token) * dst.shape[0]);
        double *value = out.value.data() + first, *magnitude = out.magnitude.data() + first;
        for (std::size_t i = 0; i < row.size(); ++i) {
          const double product = static_cast<double>(row[i]) * g;
          value[i] += product;
          magnitude[i] += std::abs(product);
        }
      }
    }
  }
}

BoundedValues out_prod_sums(const Problem& p, Activations activations) {
  const Tensor& w = p.request.weight.packed;
  BoundedValues out = sums(p.request.dst, w.shape[1], activations);
  std::vector<float> row(static_cast<std::size_t>(w.shape[0]));
  for (std::int64_t w3 = 0; w3 < w.shape[3]; ++w3) {
    for (std::int64_t w2 = 0; w2 < w.shape[2]; ++w2) {
      for (std::int64_t k = 0; k < w.shape[1]; ++k) {
        decode_row(p.request.weight, k, w2, w3, 0, w.shape[0], row.data());
        add_row(p, row, k, w2, w3, out);
      }
    }
  }
  return out;
}

/// dst holds numbers that the result is added to.
void start_from_numbers(Problem& p, Random& r) {
  auto& expected = std::get<BoundedValues>(p.expected);
  const Tensor& dst = p.request.dst;
  test::for_each_element(dst, [&](std::size_t index, std::int64_t at) {
    store_element(dst.format, p.dst.data() + at, r.normal());
    const double before = load_element(dst.format, p.dst.data() + at);
    expected.value[index] += before;
    expected.magnitude[index] += std::abs(before);
  });
}

BoundedValues linear_sums(const Problem& p, Activations activations) {
  const Tensor &w = p.request.weight.packed, &bias = p.request.bias, &dst = p.request.dst, &src1 = p.request.src1;
  BoundedValues out = sums(dst, w.shape[0], activations);
  std::vector<float> row(static_cast<std::size_t>(w.shape[0])), x(static_cast<std::size_t>(element_count(src1)));
  test::for_each_element(
      src1, [&](std::size_t index, std::int64_t at) { x[index] = load_element(src1.format, bytes_of(src1) + at); });
  for (std::int64_t o = 0; o < dst.shape[0]; ++o) {
    decode_row(p.request.weight, o, 0, 0, 0, w.shape[0], row.data());
    const double start = present(bias) ? load_at(bias, o, 0, 0, 0) : 0.0;
    for (std::int64_t token = 0; token < dst.shape[1]; ++token) {
      double value = start, magnitude = std::abs(start);
      for (std::size_t i = 0; i < row.size(); ++i) {
        const double product = static_cast<double>(row[i]) * x[static_cast<std::size_t>(token) * row.size() + i];
        value += product;
        magnitude += std::abs(product);
      }
      const auto index = static_cast<std::size_t>(token * dst.shape[0] + o);
      out.value[index] = value;
      out.magnitude[index] = magnitude;
    }
  }
  return out;
}

test::HostWeight make_weight_for(test::WeightKind kind, const std::array<std::int64_t, 4>& shape, std::int64_t padding,
                                 test::Contents contents, Random& r) {
  return test::make_host_weight(kind, {.shape = shape, .row_padding_blocks = padding}, contents, r);
}

std::string_view name_of(Activations a) {
  static constexpr std::string_view kNames[] = {"",          "_large",        "_small",     "_huge",
                                                "_tiny",     "_expanded_one", "_one_per_k", "_zeros",
                                                "_one_huge", "_falling",      "_infinity",  "_nan"};
  return kNames[static_cast<std::size_t>(a)];
}

/// The parts of a name that both operations have; what is as usual is not named.
template <class Case>
std::string common_name(const Case& c) {
  std::string text = fmt::format("_{}{}", format_name(c.src1), c.transposed ? "_transposed" : "");
  if (c.dst != NIBBLE_F32) text += "_to_" + format_name(c.dst);
  text += name_of(c.activations);
  if (c.contents == test::Contents::one_nan_block) text += "_nan_block";
  if (c.contents == test::Contents::wide) text += "_wide";
  if (c.contents == test::Contents::huge) text += "_huge_weight";
  if (c.contents == test::Contents::tiny) text += "_tiny_weight";
  if (c.weight_padding_blocks != 0) text += "_padded_weight";
  if (c.src1_padding != 0) text += "_padded_src1";
  if (c.dst_padding != 0) text += "_padded_dst";
  if (c.off_alignment) text += "_off_alignment";
  return text;
}

}  // namespace

std::int64_t row_values(test::WeightKind kind, std::int64_t least) {
  const FormatInfo& info = *find_format(kind.format);
  const std::int64_t block = info.kind == FormatInfo::Kind::block ? info.block_values : 1;
  return (least + block - 1) / block * block;
}

std::string name_of(const OutProdCase& c) {
  return fmt::format("n{}_k{}_t{}_b{}x{}_r{}x{}{}{}{}", c.columns, c.k, c.tokens, c.batch2, c.batch3, c.repeat2,
                     c.repeat3, common_name(c), c.swap_dst_outer ? "_swapped_dst" : "",
                     c.accumulate ? "_accumulate" : "");
}

std::string name_of(const LinearCase& c) {
  return fmt::format("in{}_out{}_t{}{}{}", c.in, c.out, c.tokens, common_name(c),
                     c.has_bias ? "_bias_" + format_name(c.bias) : "");
}

Problem build_out_prod(const OutProdCase& c) {
  Random r(test::label(c.kind) + name_of(c));
  Problem p;
  p.request = make_request(NIBBLE_OP_OUT_PROD);
  if (c.accumulate) p.request.flags = NIBBLE_FLAG_ACCUMULATE;
  set_weight(p, make_weight_for(c.kind, {c.columns, c.k, c.batch2, c.batch3}, c.weight_padding_blocks, c.contents, r));
  const std::int64_t n2 = c.batch2 * c.repeat2, n3 = c.batch3 * c.repeat3;
  p.request.src1 = make_src1(c.src1, {c.tokens, c.k, n2, n3}, c.src1_padding, c.transposed);
  p.request.dst = make_view(c.dst, {c.columns, c.tokens, n2, n3}, c.dst_padding, c.swap_dst_outer);
  fill_src1(p, c.activations, 0, r);
  p.expected = out_prod_sums(p, c.activations);
  poison_dst(p);
  if (c.accumulate) start_from_numbers(p, r);
  if (c.off_alignment) put_off_alignment(p);
  return p;
}

Problem build_linear(const LinearCase& c) {
  Random r(test::label(c.kind) + name_of(c));
  Problem p;
  p.request = make_request(NIBBLE_OP_LINEAR);
  set_weight(p, make_weight_for(c.kind, {c.in, c.out, 1, 1}, c.weight_padding_blocks, c.contents, r));
  p.request.src1 = make_src1(c.src1, {c.in, c.tokens, 1, 1}, c.src1_padding, c.transposed);
  p.request.dst = make_view(c.dst, {c.out, c.tokens, 1, 1}, c.dst_padding);
  fill_src1(p, c.activations, 1, r);
  if (c.has_bias) {
    p.bytes[kBias].resize(static_cast<std::size_t>(c.out * test::element_bytes(c.bias)));
    p.request.bias = make_tensor(p.bytes[kBias].data(), c.bias, {c.out});
    test::for_each_element(p.request.bias, [&](std::size_t, std::int64_t at) {
      store_element(c.bias, p.bytes[kBias].data() + at, r.normal());
    });
  }
  p.expected = linear_sums(p, c.activations);
  poison_dst(p);
  if (c.off_alignment) put_off_alignment(p);
  return p;
}

}  // namespace nibble::conformance
