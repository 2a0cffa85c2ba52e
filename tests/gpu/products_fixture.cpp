// Random operands and sums in binary64.
// Apart from the header so that the checks compile without the decoders.
#include "tests/gpu/products_fixture.h"

#include "core/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

namespace nibble::gpu_test {
namespace {

std::int64_t element_bytes(nibble_format type) { return type == NIBBLE_F32 ? 4 : 2; }

double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

float normal(std::mt19937_64& random, double scale) {
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += uniform(random);
  return static_cast<float>((sum - 2) * std::sqrt(3.0) * scale);
}

template <class F>
bool usable(const std::uint8_t* block) {
  float most = 0;
  for (int j = 0; j < F::kBlockValues; ++j) {
    const float v = std::abs(block_value<F>(block, j));
    if (!std::isfinite(v)) return false;
    most = std::max(most, v);
  }
  return most >= 0x1p-8f && most <= 16.0f;
}

std::vector<std::uint8_t> pool_of(nibble_format format, std::int64_t blocks, std::mt19937_64& random) {
  std::vector<std::uint8_t> pool;
  visit_format(format, [&](auto f) {
    using F = decltype(f);
    if constexpr (F::kEngine != Engine::flat4 && F::kEngine != Engine::flat8) {
      std::uint8_t block[F::kBlockBytes];
      for (std::int64_t i = 0; i < blocks; ++i) {
        do {
          for (auto& b : block) b = static_cast<std::uint8_t>(random());
        } while (!usable<F>(block));
        pool.insert(pool.end(), std::begin(block), std::end(block));
      }
    }
  });
  return pool;
}

Tensor view(std::vector<std::uint8_t>& bytes, nibble_format format, std::initializer_list<std::int64_t> shape) {
  return make_tensor(bytes.data(), format, shape);
}

void add_terms(Expected* sums, const std::vector<float>& values, double factor) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums[i].value += values[i] * factor;
    sums[i].magnitude += std::abs(values[i] * factor);
  }
}

std::vector<Expected> linear_sums(const nibble_request& r) {
  const Tensor &w = r.weight.packed, &x = r.src1;
  const std::int64_t in = w.shape[0], out = w.shape[1], tokens = x.shape[1];
  std::vector<Expected> sums(static_cast<std::size_t>(out * tokens));
  std::vector<float> values(static_cast<std::size_t>(in));
  for (std::int64_t o = 0; o < out; ++o) {
    decode_row(r.weight, o, 0, 0, 0, in, values.data());
    const double bias = present(r.bias) ? load_element(r.bias.format, bytes_of(r.bias) + o * r.bias.byte_stride[0]) : 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      Expected& sum = sums[static_cast<std::size_t>(t * out + o)];
      sum = {bias, std::abs(bias)};
      for (std::int64_t i = 0; i < in; ++i) {
        const double term = static_cast<double>(values[static_cast<std::size_t>(i)]) *
                            load_element(x.format, bytes_of(x) + i * x.byte_stride[0] + t * x.byte_stride[1]);
        sum.value += term;
        sum.magnitude += std::abs(term);
      }
    }
  }
  return sums;
}

constexpr const char* kLayouts[] = {"along_outer", "along_k", "strided", "repeated"};

}  // namespace

std::string Case::text() const {
  return fmt::format(
      "{} {}{} [{}, {}, {}, {}] repeats {}x{} tokens {} src1 {} {} dst {}{}{} pad {} scale {} limit {}{}",
      op == NIBBLE_OP_LINEAR ? "linear" : "out_prod", format_name(format), nested ? " nested" : "", columns, rows,
      weights[0], weights[1], repeats[0], repeats[1], tokens, format_name(src1), kLayouts[static_cast<int>(layout)],
      format_name(dst), accumulate ? " accumulate" : "", bias ? " bias" : "", pad, src1_scale, limit,
      least_workspace ? " least workspace" : "");
}

std::int64_t columns_for(nibble_format format) {
  const FormatInfo& info = *find_format(format);
  if (info.kind == FormatInfo::Kind::element) return 67;
  if (info.kind == FormatInfo::Kind::flat) return 100;
  return std::max<std::int64_t>(info.block_values, 96 / info.block_values * info.block_values);
}

std::vector<std::uint8_t> random_elements(nibble_format type, std::int64_t n, double scale, std::mt19937_64& random) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(n * element_bytes(type)));
  for (std::int64_t i = 0; i < n; ++i) store_element(type, out.data() + i * element_bytes(type), normal(random, scale));
  return out;
}

std::vector<std::uint8_t> random_blocks(nibble_format format, std::int64_t blocks, std::mt19937_64& random) {
  const FormatInfo& info = *find_format(format);
  if (info.kind == FormatInfo::Kind::element) return random_elements(format, blocks, 0.5, random);
  constexpr std::int64_t kPool = 64;
  const std::size_t size = info.block_bytes;
  const std::vector<std::uint8_t> pool = pool_of(format, kPool, random);
  std::vector<std::uint8_t> out(static_cast<std::size_t>(blocks) * size);
  for (std::size_t b = 0; b < static_cast<std::size_t>(blocks); ++b) {
    std::memcpy(out.data() + b * size, pool.data() + random() % kPool * size, size);
  }
  return out;
}

Fixture::Fixture(const Case& c, std::uint64_t seed) : random_(seed) {
  request_.struct_size = sizeof request_;
  request_.op = c.op;
  if (c.accumulate) request_.flags = NIBBLE_FLAG_ACCUMULATE;
  request_.workspace_limit_bytes = c.limit;
  make_weight(c);
  make_src1(c);
  make_dst(c);
}

void Fixture::make_weight(const Case& c) {
  const FormatInfo& info = *find_format(c.format);
  const std::int64_t rows = c.rows * c.weights[0] * c.weights[1];
  Weight& w = request_.weight;
  if (info.kind != FormatInfo::Kind::flat) {
    const auto row = static_cast<std::size_t>(c.columns / info.block_values * info.block_bytes);
    const std::size_t stride = row + static_cast<std::size_t>(c.pad);
    const auto blocks = random_blocks(c.format, rows * c.columns / info.block_values, random_);
    packed.assign(static_cast<std::size_t>(rows) * stride + 64, 0xff);
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      std::memcpy(packed.data() + r * stride, blocks.data() + r * row, row);
    }
    w = nibble::make_weight(view(packed, c.format, {c.columns, c.rows, c.weights[0], c.weights[1]}));
    for (int d = 1; d < 4; ++d) {
      w.packed.byte_stride[d] =
          d == 1 ? static_cast<std::int64_t>(stride) : w.packed.byte_stride[d - 1] * w.packed.shape[d - 1];
    }
    return;
  }
  const std::int64_t values = rows * c.columns;
  packed.resize(static_cast<std::size_t>((values + 1) / (c.format == NIBBLE_BLOCKWISE8 ? 1 : 2) + 64));
  for (auto& b : packed) b = static_cast<std::uint8_t>(random_());
  w = nibble::make_weight(view(packed, c.format, {c.columns, c.rows, c.weights[0], c.weights[1]}));
  w.block_size = 64;
  const std::int64_t blocks = (values + 63) / 64, groups = (blocks + 255) / 256;
  code = random_elements(NIBBLE_F32, 256, 0.5, random_);
  if (c.format == NIBBLE_BLOCKWISE8) w.code = view(code, NIBBLE_F32, {256});
  if (!c.nested) {
    absmax = random_elements(NIBBLE_F32, blocks, 0.5, random_);
    w.absmax = view(absmax, NIBBLE_F32, {blocks});
    return;
  }
  absmax.resize(static_cast<std::size_t>(blocks));
  for (auto& b : absmax) b = static_cast<std::uint8_t>(random_());
  nested_code = random_elements(NIBBLE_F32, 256, 0.5, random_);
  nested_absmax = random_elements(NIBBLE_F32, groups, 0.5, random_);
  w.nested_block_size = 256;
  w.nested_offset = 0.3f;
  w.absmax = view(absmax, NIBBLE_U8, {blocks});
  w.nested_absmax = view(nested_absmax, NIBBLE_F32, {groups});
  w.nested_code = view(nested_code, NIBBLE_F32, {256});
}

void Fixture::make_src1(const Case& c) {
  const bool linear = c.op == NIBBLE_OP_LINEAR;
  const std::int64_t k = linear ? c.columns : c.rows, size = element_bytes(c.src1);
  const std::int64_t batch[2] = {c.weights[0] * c.repeats[0], c.weights[1] * c.repeats[1]};
  std::int64_t outer = 0, along_k = 0, matrix = 0;
  switch (c.layout) {
    case Case::Layout::along_outer:
      outer = 1, along_k = c.tokens + c.pad, matrix = k * along_k;
      break;
    case Case::Layout::along_k:
      along_k = 1, outer = k + c.pad, matrix = c.tokens * outer;
      break;
    case Case::Layout::strided:
      outer = 3, along_k = 3 * c.tokens + c.pad, matrix = k * along_k;
      break;
    case Case::Layout::repeated:
      matrix = 1;  // an expanded gradient: one value a matrix
      break;
  }
  const std::int64_t count = matrix * batch[0] * batch[1];
  src1 = random_elements(c.src1, std::max<std::int64_t>(count, 1), c.src1_scale, random_);
  Tensor& t = request_.src1;
  t = linear ? view(src1, c.src1, {k, c.tokens}) : view(src1, c.src1, {c.tokens, k, batch[0], batch[1]});
  t.byte_stride[linear ? 1 : 0] = outer * size;
  t.byte_stride[linear ? 0 : 1] = along_k * size;
  t.byte_stride[2] = matrix * size;
  t.byte_stride[3] = matrix * size * batch[0];
}

void Fixture::make_dst(const Case& c) {
  const bool linear = c.op == NIBBLE_OP_LINEAR;
  const std::int64_t m = linear ? c.rows : c.columns, size = element_bytes(c.dst);
  const std::int64_t batch[2] = {c.weights[0] * c.repeats[0], c.weights[1] * c.repeats[1]};
  const std::int64_t count = (m + c.pad) * c.tokens * batch[0] * batch[1];
  dst = random_elements(c.dst, count, 1.0, random_);
  Tensor& t = request_.dst;
  t = linear ? view(dst, c.dst, {m, c.tokens}) : view(dst, c.dst, {m, c.tokens, batch[0], batch[1]});
  for (int d = 1; d < 4; ++d) t.byte_stride[d] = d == 1 ? (m + c.pad) * size : t.byte_stride[d - 1] * t.shape[d - 1];
  padding_.resize(dst.size());
  for (std::size_t i = 0; i < dst.size(); ++i) {
    padding_[i] = static_cast<std::int64_t>(i) / size % (m + c.pad) >= m;
    // Without accumulate every byte is poison, a NaN in all three types; else the padding alone.
    if (padding_[i] || !c.accumulate) dst[i] = 0xff;
  }
  if (!c.bias) return;
  bias = random_elements(c.src1, m, 1.0, random_);
  request_.bias = view(bias, c.src1, {m});
}

std::vector<Expected> out_prod_sums(const nibble_request& r, std::int64_t first, std::int64_t count, std::int64_t token,
                                    std::int64_t tokens, std::int64_t i2, std::int64_t i3) {
  const Tensor &w = r.weight.packed, &s = r.src1;
  const std::int64_t k = w.shape[1], w2 = i2 / (s.shape[2] / w.shape[2]), w3 = i3 / (s.shape[3] / w.shape[3]);
  const std::int64_t threads = k > 4096 ? std::max(1u, std::thread::hardware_concurrency()) : 1;
  const auto cells = static_cast<std::size_t>(count * tokens);
  std::vector<std::vector<Expected>> parts(static_cast<std::size_t>(threads));
  const auto part = [&](std::int64_t index) {
    std::vector<Expected> sums(cells);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::int64_t row = k * index / threads; row < k * (index + 1) / threads; ++row) {
      decode_row(r.weight, row, w2, w3, first, count, values.data());
      const std::uint8_t* g = bytes_of(s) + row * s.byte_stride[1] + i2 * s.byte_stride[2] + i3 * s.byte_stride[3];
      for (std::int64_t t = 0; t < tokens; ++t) {
        add_terms(sums.data() + t * count, values, load_element(s.format, g + (token + t) * s.byte_stride[0]));
      }
    }
    parts[static_cast<std::size_t>(index)] = std::move(sums);
  };
  std::vector<std::thread> pool;
  for (std::int64_t i = 1; i < threads; ++i) pool.emplace_back(part, i);
  part(0);
  for (auto& t : pool) t.join();
  for (std::size_t p = 1; p < parts.size(); ++p) {
    for (std::size_t i = 0; i < cells; ++i) {
      parts[0][i].value += parts[p][i].value;
      parts[0][i].magnitude += parts[p][i].magnitude;
    }
  }
  return std::move(parts[0]);
}

std::vector<Expected> Fixture::expected() const {
  const Tensor& d = request_.dst;
  std::vector<Expected> out;
  if (request_.op == NIBBLE_OP_LINEAR) {
    out = linear_sums(request_);
  } else {
    for (std::int64_t i3 = 0; i3 < d.shape[3]; ++i3) {
      for (std::int64_t i2 = 0; i2 < d.shape[2]; ++i2) {
        const auto matrix = out_prod_sums(request_, 0, d.shape[0], 0, d.shape[1], i2, i3);
        out.insert(out.end(), matrix.begin(), matrix.end());
      }
    }
  }
  if ((request_.flags & NIBBLE_FLAG_ACCUMULATE) == 0) return out;
  // dst's rows follow on each other at one distance, whatever the batch.
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto m = static_cast<std::size_t>(d.shape[0]);
    const double before = load_element(d.format, dst.data() + i / m * static_cast<std::size_t>(d.byte_stride[1]) +
                                                     i % m * static_cast<std::size_t>(d.byte_stride[0]));
    out[i].value += before;
    out[i].magnitude += std::abs(before);
  }
  return out;
}

}  // namespace nibble::gpu_test
