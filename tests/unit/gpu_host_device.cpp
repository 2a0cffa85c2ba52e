// The device's part of what the GPU products are made of, as plain loops on the host: decoder, packing, rounding.
// Apart from the tests because each operation's cut is tested with them.
#include "tests/unit/gpu_host_device.h"

#include <gtest/gtest.h>

#include "backends/gpu/decode.h"
#include "backends/gpu/gemm_plan.h"
#include "core/decode.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace nibble {
namespace gpu {

std::uint64_t decode_scales_bytes(const nibble_weight& w) {
  return nested(w) ? static_cast<std::uint64_t>(element_count(w.absmax)) * sizeof(float) : 0;
}

nibble_status rebuild_scales(const nibble_weight& w, float* out, Stream, nibble_text*) {
  for (std::int64_t b = 0; b < element_count(w.absmax); ++b) out[b] = block_absmax(w, b);
  return NIBBLE_OK;
}

nibble_status decode_rows(const nibble_weight& w, std::int64_t i1_first, std::int64_t i1_count, std::int64_t i2,
                          std::int64_t i3, nibble_format to, void* out, std::int64_t out_row_stride_elements,
                          const float* scales, Stream, nibble_text*) {
  EXPECT_EQ(scales != nullptr, nested(w));
  EXPECT_LE(i1_first + i1_count, w.packed.shape[1]);
  std::vector<float> row(static_cast<std::size_t>(w.packed.shape[0]));
  for (std::int64_t i = 0; i < i1_count; ++i) {
    decode_row(w, i1_first + i, i2, i3, 0, w.packed.shape[0], row.data());
    auto* at = static_cast<std::uint8_t*>(out) + i * out_row_stride_elements * element_bytes(to);
    for (const float x : row) {
      store_element(to, at, x);
      at += element_bytes(to);
    }
  }
  return NIBBLE_OK;
}

nibble_status pack(const Pack& p, Stream, nibble_text*) {
  const auto* in = static_cast<const std::uint8_t*>(p.in);
  auto* out = static_cast<std::uint8_t*>(p.out);
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t j = 0; j < p.outer; ++j) {
      for (std::int64_t i = 0; i < p.inner; ++i) {
        const std::int64_t at = b * p.batch_stride + j * p.outer_stride + i * p.inner_stride;
        float x = load_element(p.type, in + at * element_bytes(p.type));
        if (p.inner_powers != nullptr) x *= p.inner_powers[i];
        if (p.outer_powers != nullptr) x *= p.outer_powers[j];
        store_element(p.out_type, out, x);
        out += element_bytes(p.out_type);
      }
    }
  }
  return NIBBLE_OK;
}

nibble_status finish(const Finish& f, Stream, nibble_text*) {
  for (std::int64_t b = 0; b < f.batch; ++b) {
    for (std::int64_t j = 0; j < f.n; ++j) {
      for (std::int64_t i = 0; i < f.m; ++i) {
        auto* at =
            static_cast<std::uint8_t*>(f.out) + (b * f.out_batch_stride + j * f.out_stride + i) * element_bytes(f.type);
        float sum = 0.0f;
        for (std::int64_t part = 0; part < f.parts; ++part) sum += f.sums[((part * f.batch + b) * f.n + j) * f.m + i];
        if (f.powers != nullptr) sum = times_power_of_two(sum, -exponent_of(f.powers[j]) - exponent_of(*f.power));
        if (f.bias != nullptr) {
          sum += load_element(
              f.bias_type, static_cast<const std::uint8_t*>(f.bias) + i * f.bias_stride * element_bytes(f.bias_type));
        }
        if (f.add) sum += load_element(f.type, at);
        store_element(f.type, at, sum);
      }
    }
  }
  return NIBBLE_OK;
}

/// The device's engine, which gemm.cpp names.
nibble_status run_portable(const GemmEngine& engine, const Gemm& g, Scratch scratch, Stream stream, nibble_text* why) {
  return gpu_test::run_plainly(engine, g, scratch, stream, why);
}

}  // namespace gpu

namespace gpu_test {
namespace {

float element(const gpu::Operand& o, std::int64_t batch, std::int64_t outer, std::int64_t k) {
  const std::int64_t at = batch * o.batch_stride + outer * o.outer_stride + k * o.k_stride;
  return load_element(o.type, static_cast<const std::uint8_t*>(o.data) + at * gpu::element_bytes(o.type));
}

}  // namespace

bool reads_as_blas(const gpu::Operand& o, std::int64_t outer, std::int64_t k) {
  const bool along_outer = (o.outer_stride == 1 || outer == 1) && (o.k_stride >= outer || k == 1);
  const bool along_k = (o.k_stride == 1 || k == 1) && (o.outer_stride >= k || outer == 1);
  return along_outer || along_k;
}

nibble_status run_plainly(const gpu::GemmEngine& engine, const gpu::Gemm& g, gpu::Scratch scratch, gpu::Stream,
                          nibble_text*) {
  EXPECT_TRUE(engine.reads(g.a, g.m, g.k) && engine.reads(g.b, g.n, g.k) && engine.multiplies(g.a.type, g.b.type));
  EXPECT_TRUE(g.m > 0 && g.n > 0 && g.k > 0 && g.batch > 0 && g.k <= gpu::kMostSummed);
  EXPECT_TRUE(g.n == 1 || g.c_stride >= g.m);
  EXPECT_GE(scratch.bytes, engine.least_scratch_bytes);
  if (scratch.bytes != 0) std::memset(scratch.data, 0xff, scratch.bytes);
  for (std::int64_t batch = 0; batch < g.batch; ++batch) {
    for (std::int64_t j = 0; j < g.n; ++j) {
      for (std::int64_t i = 0; i < g.m; ++i) {
        float& c = g.c[batch * g.c_batch_stride + j * g.c_stride + i];
        double sum = g.add ? c : 0.0;
        for (std::int64_t k = 0; k < g.k; ++k)
          sum += static_cast<double>(element(g.a, batch, i, k)) * element(g.b, batch, j, k);
        c = static_cast<float>(sum);
      }
    }
  }
  return NIBBLE_OK;
}

void expect_sums(const Fixture& f, const std::vector<Expected>& expected, double relative, const std::string& what) {
  const Tensor& d = f.request().dst;
  const auto m = static_cast<std::size_t>(d.shape[0]), stride = static_cast<std::size_t>(d.byte_stride[1]);
  const auto size = static_cast<std::size_t>(gpu::element_bytes(d.format));
  const double unit = d.format == NIBBLE_F32 ? 0x1p-24 : d.format == NIBBLE_F16 ? 0x1p-11 : 0x1p-8;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double x = load_element(d.format, f.dst.data() + i / m * stride + i % m * size);
    const double bound = relative * expected[i].magnitude + 1.01 * unit * std::abs(expected[i].value) + 0x1p-25;
    ASSERT_LE(std::abs(x - expected[i].value), bound)
        << what << ": element " << i % m << ", " << i / m << " is " << x << ", expected " << expected[i].value;
  }
  for (std::size_t i = 0; i < f.dst.size(); ++i) {
    if (f.is_padding(i)) {
      ASSERT_EQ(f.dst[i], 0xff) << what << ": padding byte " << i;
    }
  }
}

namespace {
constexpr std::uint64_t kCanary = 512;
}

Workspace::Workspace(std::uint64_t bytes) : memory_(bytes + kCanary + gpu::kPieceAlignment, 0xff), bytes_(bytes) {
  data_ =
      memory_.data() + (gpu::kPieceAlignment - reinterpret_cast<std::uintptr_t>(memory_.data()) % gpu::kPieceAlignment);
}

bool Workspace::canary_lives() const {
  const std::uint8_t* end = memory_.data() + memory_.size();
  return std::all_of<const std::uint8_t*>(data_ + bytes_, end, [](std::uint8_t b) { return b == 0xff; });
}

}  // namespace gpu_test
}  // namespace nibble
