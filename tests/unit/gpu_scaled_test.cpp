// The cut of out_prod by halves into blocks of rows, run on the host with an engine of plain loops.
// Apart from the other products because powers of two are taken out of both operands, and some weights go elsewhere.
#include <gtest/gtest.h>

#include "backends/cuda/scaled_half.h"
#include "backends/gpu/blas.h"
#include "backends/gpu/decode.h"
#include "core/decode.h"
#include "tests/unit/gpu_fused_host.h"
#include "tests/unit/gpu_host_device.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace nibble {

namespace gpu {

const GemmEngine kBlasHalf = {NIBBLE_MATH_TF32,
                              NIBBLE_F16,
                              8192,
                              1024,
                              gpu_test::reads_as_blas,
                              [](nibble_format a, nibble_format b) { return a == NIBBLE_F16 && b == NIBBLE_F16; },
                              gpu_test::run_plainly};

nibble_status decode_rows_scaled(const nibble_weight& w, std::int64_t first, std::int64_t count, void* out,
                                 std::int64_t stride, const float* scales, const float* power, Stream, nibble_text*) {
  EXPECT_EQ(scales != nullptr, nested(w));
  EXPECT_LE(first + count, w.packed.shape[1]);
  std::vector<float> row(static_cast<std::size_t>(w.packed.shape[0]));
  for (std::int64_t i = 0; i < count; ++i) {
    decode_row(w, first + i, 0, 0, 0, w.packed.shape[0], row.data());
    auto* at = static_cast<std::uint8_t*>(out) + i * stride * 2;
    for (std::size_t n = 0; n < row.size(); ++n) store_element(NIBBLE_F16, at + 2 * n, row[n] * *power);
  }
  return NIBBLE_OK;
}

}  // namespace gpu

namespace cuda {

nibble_status weight_power(nibble_format, const FusedWork&, float* partial, float* power, gpu::Stream, nibble_text*) {
  std::fill_n(partial, kBoundParts, 1.0f);
  *power = 0.125f;
  return NIBBLE_OK;
}

nibble_status grad_powers(const PackedGrads& g, gpu::Stream, nibble_text*) {
  std::fill_n(g.maxima, max_chunks(g.rows, g.tokens) * g.tokens, 1.0f);
  for (int t = 0; t < g.tokens; ++t) g.powers[t] = static_cast<float>(1 << t % 5);
  return NIBBLE_OK;
}

}  // namespace cuda

namespace {

using gpu_test::Case;
using gpu_test::Fixture;
using gpu_test::kCaps;

/// Both operands are rounded to halves.
constexpr double kRelative = 0x1p-18 + 0x1p-10;

nibble_workspace_need need_of(const nibble_request& r) {
  nibble_workspace_need need{};
  EXPECT_EQ(cuda::query_scaled(nullptr, &kCaps, &r, &need, nullptr), NIBBLE_OK);
  EXPECT_LE(need.minimum_bytes, need.bytes);
  return need;
}

void expect_right(const Case& c, std::uint64_t bytes) {
  const Fixture f(c, 7);
  const std::string what = c.text() + " in " + std::to_string(bytes) + " bytes";
  const auto expected = f.expected();  // before the call: it counts in what dst holds
  const gpu_test::Workspace workspace(bytes);
  ASSERT_EQ(cuda::execute_scaled(nullptr, &kCaps, &f.request(), workspace.data(), bytes, nullptr, nullptr), NIBBLE_OK)
      << what;
  gpu_test::expect_sums(f, expected, kRelative, what);
  ASSERT_TRUE(workspace.canary_lives()) << what;
}

TEST(ScaledHalf, IsRightInAnyWorkspace) {
  for (const nibble_format format : {NIBBLE_Q4_K, NIBBLE_Q8_0, NIBBLE_NF4}) {
    for (const auto layout : {Case::Layout::along_outer, Case::Layout::along_k, Case::Layout::strided}) {
      for (const nibble_format dst : {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16}) {
        const Case c{.format = format,
                     .nested = format == NIBBLE_NF4,
                     .columns = 512,
                     .rows = 151,
                     .tokens = 11,
                     .layout = layout,
                     .src1 = dst,
                     .dst = dst,
                     .accumulate = dst != NIBBLE_BF16,
                     .pad = layout == Case::Layout::strided ? 6 : 0};
        const nibble_workspace_need need = need_of(Fixture(c, 7).request());
        for (const std::uint64_t bytes :
             {need.minimum_bytes, need.minimum_bytes + 5000, need.minimum_bytes + 50000, need.bytes}) {
          expect_right(c, bytes);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(ScaledHalf, StaysWithinALimit) {
  for (const std::uint64_t limit : {std::uint64_t{40000}, std::uint64_t{90000}, std::uint64_t{400000}}) {
    const Case c{.format = NIBBLE_Q8_0, .columns = 544, .rows = 600, .tokens = 9, .limit = limit};
    const nibble_workspace_need need = need_of(Fixture(c, 7).request());
    EXPECT_LE(need.bytes, limit);
    expect_right(c, need.bytes);
  }
}

TEST(ScaledHalf, AWeightAtAnOddAddressIsMultipliedPacked) {
  const Case c{.format = NIBBLE_Q8_0, .columns = 544, .rows = 70, .tokens = 40};
  Fixture f(c, 7);
  const auto expected = f.expected();
  gpu_test::take_in_hand(f.request().weight);
  nibble_request r = f.request();
  std::vector<std::uint8_t> moved(f.packed.size() + 2);
  std::uint8_t* odd = moved.data() + (1 - reinterpret_cast<std::uintptr_t>(moved.data()) % 2);
  std::copy(f.packed.begin(), f.packed.end(), odd);
  r.weight.packed.data = odd;
  const std::uint64_t bytes = need_of(r).bytes;
  const gpu_test::Workspace workspace(bytes);
  gpu_test::launches = 0;
  ASSERT_EQ(cuda::execute_scaled(nullptr, &kCaps, &r, workspace.data(), bytes, nullptr, nullptr), NIBBLE_OK);
  EXPECT_GT(gpu_test::launches, 0);
  EXPECT_EQ(gpu_test::launched, cuda::Cores::warp);
  gpu_test::expect_sums(f, expected, kRelative, c.text());
  ASSERT_TRUE(workspace.canary_lives());

  // What the choice promised to do with may be less than the packed gradient takes.
  const std::uint64_t least = cuda::plan_fused(r, cuda::Cores::warp, kCaps.processors, 0).total();
  std::array<char, 200> words{};
  nibble_text why{sizeof(nibble_text), 0, words.size(), words.data()};
  EXPECT_EQ(cuda::execute_scaled(nullptr, &kCaps, &r, workspace.data(), least - 1, nullptr, &why),
            NIBBLE_OUT_OF_MEMORY);
  EXPECT_EQ(std::string(words.data()), "workspace of " + std::to_string(least - 1) +
                                           " bytes for a weight at an odd address: expected " + std::to_string(least) +
                                           " or more, or an even address");
}

}  // namespace
}  // namespace nibble
