// The device's part of the fused out_prod as plain loops on the host: packing, and each launch's sums.
// Apart from the tests because the product by halves, which hands some weights over to it, is tested with it too.
#include "tests/unit/gpu_fused_host.h"

#include <gtest/gtest.h>

#include "backends/gpu/device_code.h"
#include "core/decode.h"

#include <algorithm>
#include <cstring>

namespace nibble {

namespace gpu_test {

std::vector<float> values_in_hand;
int launches = 0;
cuda::Cores launched = cuda::Cores::warp;

void take_in_hand(const nibble_weight& w) {
  const std::int64_t columns = w.packed.shape[0];
  values_in_hand.resize(static_cast<std::size_t>(columns * w.packed.shape[1]));
  for (std::int64_t k = 0; k < w.packed.shape[1]; ++k)
    decode_row(w, k, 0, 0, 0, columns, values_in_hand.data() + k * columns);
}

}  // namespace gpu_test

namespace {

/// An element of the packed gradient over 2^kGradExponent, and where it is.
struct PackedPlace {
  PackedPlace(std::int64_t row, std::int64_t token, const cuda::GradLayout& layout)
      : type(layout.form == cuda::FusedForm::values ? NIBBLE_F16 : NIBBLE_F32) {
    const std::int64_t unit = row / cuda::kUnitRows, in_unit = row % cuda::kUnitRows;
    const std::int64_t tile = unit * layout.tiles + token / 8, lane = token % 8 * 4 + in_unit % 4, i = in_unit / 4;
    const std::int64_t element = layout.cores == cuda::Cores::warpgroup ? i / 2 * 64 + lane * 2 + i % 2 : lane * 4 + i;
    at = tile * cuda::grad_tile_bytes(layout.form) + element * gpu::element_bytes(type);
  }
  nibble_format type;
  std::int64_t at;
};

/// What every launch computes: the sums of its columns, tokens and splits.
nibble_status sum_plainly(nibble_format format, cuda::Cores cores, const cuda::FusedWork& w) {
  ++gpu_test::launches;
  gpu_test::launched = cores;
  const std::int64_t first = w.first_tile * cuda::kFusedColumns;
  const std::int64_t columns = std::min(w.tiles * cuda::kFusedColumns, w.columns - first);
  EXPECT_TRUE(columns > 0 && w.tokens > 0 && w.tokens <= cuda::most_tokens(cores));
  EXPECT_GE(w.part_token_stride, columns);
  EXPECT_EQ(w.rows_per_split % cuda::kSplitStep, 0);
  const cuda::GradLayout layout = cuda::grad_layout(format, w.tokens, cores);
  for (std::int64_t split = 0; split < w.splits; ++split) {
    const std::int64_t begin = split * w.rows_per_split, end = std::min(begin + w.rows_per_split, w.rows);
    EXPECT_TRUE(begin < end && end - begin <= gpu::kMostSummed);
    float* part = w.parts + split * w.part_stride;
    for (int t = 0; t < w.tokens; ++t) std::fill_n(part + t * w.part_token_stride, columns, 0.0f);
    for (std::int64_t k = begin; k < end; ++k) {
      const float* row = gpu_test::values_in_hand.data() + k * w.columns;
      for (int t = 0; t < w.tokens; ++t) {
        const PackedPlace place(k, t, layout);
        const float g = load_element(place.type, w.grads + place.at) / static_cast<float>(1 << cuda::kGradExponent) *
                        w.grad_powers[t];
        for (std::int64_t i = 0; i < columns; ++i) part[t * w.part_token_stride + i] += g * row[first + i];
      }
    }
  }
  return NIBBLE_OK;
}

}  // namespace

namespace cuda {
nibble_status fused_runs(nibble_format f, const FusedWork& w, gpu::Stream, nibble_text*) {
  return sum_plainly(f, Cores::warp, w);
}
nibble_status fused_grid(nibble_format f, const FusedWork& w, gpu::Stream, nibble_text*) {
  return sum_plainly(f, Cores::warp, w);
}
nibble_status fused_base3(nibble_format f, const FusedWork& w, gpu::Stream, nibble_text*) {
  return sum_plainly(f, Cores::warp, w);
}
nibble_status fused_flat(nibble_format f, const FusedWork& w, gpu::Stream, nibble_text*) {
  return sum_plainly(f, Cores::warp, w);
}
nibble_status fused_groups_runs(nibble_format f, const FusedWork& w, gpu::Stream, nibble_text*) {
  return sum_plainly(f, Cores::warpgroup, w);
}
nibble_status fused_groups_others(nibble_format f, const FusedWork& w, gpu::Stream, nibble_text*) {
  return sum_plainly(f, Cores::warpgroup, w);
}

nibble_status pack_grads(const PackedGrads& g, gpu::Stream, nibble_text*) {
  std::memset(g.packed, 0, static_cast<std::size_t>(g.layout.bytes(g.rows)));
  std::fill_n(g.maxima, max_chunks(g.rows, g.tokens) * g.tokens, 1.0f);
  for (int t = 0; t < g.tokens; ++t) {
    g.powers[t] = static_cast<float>(1 << t % 5);
    for (std::int64_t k = 0; k < g.rows; ++k) {
      const std::int64_t at = (k * g.row_stride + t * g.token_stride) * gpu::element_bytes(g.type);
      const float x = load_element(g.type, static_cast<const std::uint8_t*>(g.grad) + at) / g.powers[t] *
                      static_cast<float>(1 << kGradExponent);
      const PackedPlace place(k, t, g.layout);
      store_element(place.type, g.packed + place.at, x);
    }
  }
  return NIBBLE_OK;
}
}  // namespace cuda

namespace gpu {
DeviceGuard::DeviceGuard(std::int32_t, nibble_text*) {}
DeviceGuard::~DeviceGuard() {}  // not trivial, as the one it stands for
nibble_status device_has_code(const nibble_kernel*, const nibble_caps*, const nibble_request*, nibble_text*) {
  return NIBBLE_OK;
}
}  // namespace gpu

}  // namespace nibble
