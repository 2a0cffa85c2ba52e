// The device's part of what the GPU products are made of, as plain loops on the host: decoder, packing, rounding.
// Apart from the tests because each operation's cut is tested with them.
#include <gtest/gtest.h>

#include "backends/gpu/decode.h"
#include "backends/gpu/gemm.h"
#include "backends/gpu/gemm_plan.h"
#include "core/decode.h"

#include <vector>

namespace nibble::gpu {

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
        store_element(p.out_type, out, load_element(p.type, in + at * element_bytes(p.type)));
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

}  // namespace nibble::gpu
