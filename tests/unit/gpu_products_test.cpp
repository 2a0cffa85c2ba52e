// The cut of the GPU products into blocks, run on the host: decoder, packing and engine are plain loops here.
// Apart from the checks on a GPU so that a wrong offset, a missing beta or an overrun workspace shows without one.
#include <gtest/gtest.h>

#include "backends/gpu/decode.h"
#include "backends/gpu/linear.h"
#include "backends/gpu/out_prod.h"
#include "tests/unit/gpu_host_device.h"

#include <cstdint>
#include <string>

namespace nibble::gpu {

namespace {

using gpu_test::Case;
using gpu_test::Fixture;
using gpu_test::reads_as_blas;
using gpu_test::run_plainly;

constexpr std::uint64_t kScratch = 8192, kLeastScratch = 1024;
constexpr GemmEngine kEngines[] = {
    {NIBBLE_MATH_F32, NIBBLE_F32, kScratch, kLeastScratch, reads_as_blas,
     [](nibble_format a, nibble_format b) { return a == NIBBLE_F32 && b == NIBBLE_F32; }, run_plainly},
    {NIBBLE_MATH_TF32, NIBBLE_F32, kScratch, kLeastScratch, reads_as_blas,
     [](nibble_format a, nibble_format b) { return a == b; }, run_plainly},
    {NIBBLE_MATH_F32, NIBBLE_F32, 0, 0, [](const Operand&, std::int64_t, std::int64_t) { return true; },
     [](nibble_format, nibble_format) { return true; }, run_plainly},
    {NIBBLE_MATH_BF16, NIBBLE_BF16, kScratch, kLeastScratch, reads_as_blas,
     [](nibble_format a, nibble_format b) { return a == b && a != NIBBLE_F32; }, run_plainly}};

constexpr ProductTools kTools[] = {{&kEngines[0], &kTwoStepDecoder},
                                   {&kEngines[1], &kTwoStepDecoder},
                                   {&kEngines[2], &kTwoStepDecoder},
                                   {&kEngines[3], &kTwoStepDecoder}};

nibble_status query(const ProductTools& tools, const nibble_request& r, nibble_workspace_need* need) {
  return r.op == NIBBLE_OP_LINEAR ? query_linear(tools, r, need) : query_out_prod(tools, r, need);
}
nibble_status execute(const ProductTools& tools, const nibble_request& r, void* workspace, std::uint64_t bytes) {
  return r.op == NIBBLE_OP_LINEAR ? run_linear(tools, r, workspace, bytes, nullptr, nullptr)
                                  : run_out_prod(tools, r, workspace, bytes, nullptr, nullptr);
}

/// One call in a poisoned workspace of exactly `bytes`, with a canary behind it.
void expect_right(const ProductTools& tools, const Case& c, std::uint64_t bytes) {
  const Fixture f(c, 11);
  const std::string what = c.text() + " in " + std::to_string(bytes) + " bytes";
  const auto expected = f.expected();
  const gpu_test::Workspace workspace(bytes);
  ASSERT_EQ(execute(tools, f.request(), workspace.data(), bytes), NIBBLE_OK) << what;
  const double operands = tools.engine->math == NIBBLE_MATH_BF16 ? 0x1p-7 : 0.0;  // two, half a unit of 8 bits each
  gpu_test::expect_sums(f, expected, 0x1p-20 + operands, what);
  ASSERT_TRUE(workspace.canary_lives()) << what;
}

/// The least workspace, what query asks for under several limits, and sizes in between.
void expect_right_in_any_workspace(const Case& c) {
  for (const ProductTools& tools : kTools) {
    for (const std::uint64_t limit :
         {std::uint64_t{0}, std::uint64_t{3000}, std::uint64_t{12000}, std::uint64_t{50000}}) {
      Case limited = c;
      limited.limit = limit;
      const Fixture f(limited, 11);
      nibble_workspace_need need{};
      ASSERT_EQ(query(tools, f.request(), &need), NIBBLE_OK);
      ASSERT_LE(need.minimum_bytes, need.bytes);
      if (limit >= need.minimum_bytes && limit != 0) {
        ASSERT_LE(need.bytes, limit) << limited.text();
      }
      for (const std::uint64_t bytes :
           {need.minimum_bytes, need.minimum_bytes + (need.bytes - need.minimum_bytes) / 3, need.bytes}) {
        expect_right(tools, limited, bytes);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

constexpr Case::Layout kLayouts[] = {Case::Layout::along_outer, Case::Layout::along_k, Case::Layout::strided,
                                     Case::Layout::repeated};
constexpr nibble_format kWeights[] = {NIBBLE_F32, NIBBLE_F16, NIBBLE_Q8_0, NIBBLE_NF4};
constexpr nibble_format kTypes[] = {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16};

TEST(GpuOutProd, IsRightInAnyWorkspace) {
  for (const nibble_format format : kWeights) {
    for (const auto layout : kLayouts) {
      for (const nibble_format src1 : {kTypes[0], kTypes[1]}) {
        for (const nibble_format dst : kTypes) {
          expect_right_in_any_workspace({.format = format,
                                         .nested = format == NIBBLE_NF4,
                                         .columns = gpu_test::columns_for(format),
                                         .rows = 41,
                                         .tokens = 5,
                                         .layout = layout,
                                         .src1 = src1,
                                         .dst = dst,
                                         .accumulate = dst != NIBBLE_BF16,
                                         .pad = layout == Case::Layout::along_k ? 6 : 0});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(GpuOutProd, ServesBatchesThatShareAWeight) {
  for (int bits = 0; bits < 16; ++bits) {
    const auto either = [&](int i, std::int64_t more) { return (bits >> i & 1) != 0 ? more : std::int64_t{1}; };
    for (const nibble_format dst : {kTypes[0], kTypes[2]}) {
      expect_right_in_any_workspace({.format = NIBBLE_Q4_0,
                                     .columns = 32,
                                     .rows = 19,
                                     .tokens = 3,
                                     .weights = {either(0, 3), either(1, 2)},
                                     .repeats = {either(2, 2), either(3, 3)},
                                     .layout = kLayouts[bits % 4],
                                     .dst = dst,
                                     .accumulate = bits % 3 == 0,
                                     .pad = 3});
      if (HasFatalFailure()) return;
    }
  }
}

TEST(GpuOutProd, SumsOverNothing) {
  for (const nibble_format dst : kTypes) {
    for (const bool accumulate : {false, true}) {
      expect_right_in_any_workspace({.format = NIBBLE_Q8_0,
                                     .columns = 32,
                                     .rows = 0,
                                     .tokens = 3,
                                     .repeats = {2, 2},
                                     .dst = dst,
                                     .accumulate = accumulate,
                                     .pad = 2});
    }
  }
}

TEST(GpuOutProd, CutsLongSums) {
  expect_right(kTools[1],
               {.format = NIBBLE_F16, .columns = 3, .rows = 2 * kMostSummed + 5, .tokens = 2, .src1 = NIBBLE_F16},
               16384);
}

TEST(GpuOutProd, AWeightThatSuitsTheEngineIsNotCopied) {
  const Fixture f({.format = NIBBLE_F32, .columns = 64, .rows = 4096, .tokens = 8}, 1);
  EXPECT_EQ(out_prod_least_bytes(kTools[1], f.request()), kLeastScratch);
  EXPECT_EQ(plan_out_prod(kTools[1], f.request(), 1 << 20).pieces.total(), kScratch);
  const Fixture halves({.format = NIBBLE_F16, .columns = 64, .rows = 4096, .tokens = 8, .src1 = NIBBLE_F16}, 1);
  EXPECT_EQ(plan_out_prod(kTools[1], halves.request(), 1 << 20).pieces.total(), kScratch);
  EXPECT_GT(plan_out_prod(kTools[0], halves.request(), 1 << 20).pieces.decoded, 0u);
  const Fixture odd_rows({.format = NIBBLE_F32, .columns = 64, .rows = 4096, .tokens = 8, .pad = 6}, 1);
  EXPECT_GT(plan_out_prod(kTools[1], odd_rows.request(), 1 << 20).pieces.decoded, 0u);
}

TEST(GpuLinear, IsRightInAnyWorkspace) {
  for (const nibble_format format : kWeights) {
    for (const auto layout : {kLayouts[0], kLayouts[1], kLayouts[2]}) {
      for (const nibble_format src1 : {kTypes[0], kTypes[1]}) {
        for (const nibble_format dst : kTypes) {
          expect_right_in_any_workspace({.op = NIBBLE_OP_LINEAR,
                                         .format = format,
                                         .nested = format == NIBBLE_NF4,
                                         .columns = gpu_test::columns_for(format),
                                         .rows = 45,
                                         .tokens = 6,
                                         .layout = layout,
                                         .src1 = src1,
                                         .dst = dst,
                                         .bias = dst != NIBBLE_BF16,
                                         .pad = layout == Case::Layout::along_k ? 6 : 0});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(GpuLinear, SumsOverNothing) {
  for (const nibble_format dst : kTypes) {
    for (const bool bias : {false, true}) {
      expect_right_in_any_workspace({.op = NIBBLE_OP_LINEAR,
                                     .format = NIBBLE_NF4,
                                     .columns = 0,
                                     .rows = 12,
                                     .tokens = 3,
                                     .dst = dst,
                                     .bias = bias,
                                     .pad = 1});
    }
  }
}

TEST(GpuLinear, CutsLongSums) {
  expect_right(kTools[1],
               {.op = NIBBLE_OP_LINEAR,
                .format = NIBBLE_F16,
                .columns = 2 * kMostSummed + 5,
                .rows = 3,
                .tokens = 2,
                .layout = Case::Layout::along_k,
                .src1 = NIBBLE_F16,
                .bias = true},
               16384);
}

}  // namespace

}  // namespace nibble::gpu
