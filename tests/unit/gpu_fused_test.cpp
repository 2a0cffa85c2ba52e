// The cut of the fused out_prod into tokens, columns and splits, run on the host with a kernel of plain loops.
// Apart from the other products because its workspace holds sums, not decoded weights.
#include <gtest/gtest.h>

#include "backends/gpu/product_rows.h"
#include "tests/unit/gpu_fused_host.h"
#include "tests/unit/gpu_host_device.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace nibble {
namespace {

using gpu_test::Case;
using gpu_test::expect_sums;
using gpu_test::Fixture;
using gpu_test::kCaps;
using gpu_test::launched;
using gpu_test::launches;

/// What rounding of sums may cost, beside what rounding the gradient does.
constexpr double kSums = 0x1p-18;

constexpr gpu::Product kHalves{{}, gpu::Product::Shape::matrix};
constexpr nibble_kernel kRow = gpu::product_row(NIBBLE_OP_OUT_PROD, "fused", {NIBBLE_TIER_GENERIC, 0}, NIBBLE_MATH_TF32,
                                                NIBBLE_DEVICE_CUDA, {}, kHalves);

/// One call in a poisoned workspace of exactly `bytes`, with a canary behind it.
template <cuda::Cores kCores = cuda::Cores::warp>
void expect_right(const Case& c, std::uint64_t bytes) {
  const Fixture f(c, 7);
  const std::string what = c.text() + " in " + std::to_string(bytes) + " bytes";
  const gpu_test::Workspace workspace(bytes);
  const auto expected = f.expected();  // before the call: it counts in what dst holds
  gpu_test::take_in_hand(f.request().weight);
  ASSERT_EQ(cuda::FusedRow<kCores>::execute(nullptr, &kCaps, &f.request(), workspace.data(), bytes, nullptr, nullptr),
            NIBBLE_OK)
      << what;
  const auto tokens = std::min<std::int64_t>(c.tokens, cuda::most_tokens(kCores));
  const bool rounded = cuda::grad_layout(c.format, tokens, kCores).form == cuda::FusedForm::values;
  expect_sums(f, expected, kSums + (rounded ? 0x1p-11 : 0.0), what);
  ASSERT_TRUE(workspace.canary_lives()) << what;
}

template <cuda::Cores kCores = cuda::Cores::warp>
nibble_workspace_need need_of(const Case& c) {
  const Fixture f(c, 7);
  nibble_workspace_need need{};
  EXPECT_EQ(cuda::FusedRow<kCores>::query(nullptr, &kCaps, &f.request(), &need, nullptr), NIBBLE_OK);
  EXPECT_LE(need.minimum_bytes, need.bytes);
  return need;
}

template <cuda::Cores kCores>
void expect_right_in_any_workspace(const Case& c) {
  const nibble_workspace_need need = need_of<kCores>(c);
  for (const std::uint64_t bytes :
       {need.minimum_bytes, need.minimum_bytes + 3000, need.minimum_bytes + 30000, need.bytes}) {
    expect_right<kCores>(c, bytes);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(FusedOutProd, IsRightInAnyWorkspace) {
  for (const nibble_format format : {NIBBLE_Q4_K, NIBBLE_Q8_0, NIBBLE_TQ1_0, NIBBLE_IQ2_XXS, NIBBLE_NF4}) {
    for (const bool accumulate : {false, true}) {
      for (const nibble_format dst : {NIBBLE_F32, NIBBLE_BF16}) {
        const Case c{.format = format,
                     .nested = format == NIBBLE_NF4,
                     .columns = 1024,
                     .rows = 151,
                     .tokens = format == NIBBLE_IQ2_XXS ? 70
                               : format == NIBBLE_Q8_0  ? 300
                                                        : 11,
                     .layout = accumulate ? Case::Layout::along_k : Case::Layout::strided,
                     .src1 = NIBBLE_F16,
                     .dst = dst,
                     .accumulate = accumulate,
                     .pad = 5};
        expect_right_in_any_workspace<cuda::Cores::warp>(c);
        expect_right_in_any_workspace<cuda::Cores::warpgroup>(c);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(FusedOutProd, ReadsTheWeightOnceWhereMemoryAllows) {
  const Case c{.format = NIBBLE_Q4_K, .columns = 1024, .rows = 320, .tokens = 16};
  launches = 0;
  expect_right(c, need_of(c).bytes);
  EXPECT_EQ(launches, 1);
  // One split of one tile of one token is the least, and what its gradient takes when it is packed.
  EXPECT_EQ(need_of(c).minimum_bytes, 320u / cuda::kUnitRows * 512 + 256 + 256 + cuda::kFusedColumns * sizeof(float));
}

TEST(FusedOutProd, StaysWithinALimit) {
  for (const std::uint64_t limit : {std::uint64_t{23000}, std::uint64_t{60000}, std::uint64_t{400000}}) {
    const Case c{.format = NIBBLE_Q8_0, .columns = 544, .rows = 600, .tokens = 9, .limit = limit};
    EXPECT_LE(need_of(c).bytes, limit);
    expect_right(c, need_of(c).bytes);
  }
}

TEST(FusedOutProd, SumsNoLongerThanItsClassAllows) {
  const Case c{.format = NIBBLE_Q8_0, .columns = 32, .rows = 2 * gpu::kMostSummed + 5, .tokens = 1};
  expect_right(c, need_of(c).minimum_bytes);  // sum_plainly looks at every split
}

TEST(FusedOutProd, SumsOverNothing) {
  for (const bool accumulate : {false, true}) {
    expect_right({.format = NIBBLE_Q8_0, .columns = 32, .rows = 0, .tokens = 3, .accumulate = accumulate, .pad = 2}, 0);
  }
}

TEST(FusedOutProd, TakesUpTo128TokensFromTheFirstFittingTensorCoresOn) {
  nibble_caps first = kCaps;
  first.arch_major = 8, first.arch_minor = 0;
  const Fixture f({.columns = 256, .tokens = 128}, 7);
  std::array<char, 200> words{};
  nibble_text why{sizeof(nibble_text), 0, words.size(), words.data()};
  EXPECT_EQ(cuda::FusedRow<cuda::Cores::warp>::supports(&kRow, &first, &f.request(), &why), NIBBLE_OK) << words.data();
}

TEST(FusedOutProd, NeedsCodeForTensorCoresAndNotOnlyTheDevice) {
  nibble_caps later = kCaps;
  later.arch_major = 12, later.arch_minor = 0;  // by the form of 7.5, this test's only one
  const Fixture f({.columns = 256, .tokens = 128}, 7);
  std::array<char, 200> words{};
  nibble_text why{sizeof(nibble_text), 0, words.size(), words.data()};
  EXPECT_EQ(cuda::FusedRow<cuda::Cores::warp>::supports(&kRow, &later, &f.request(), &why), NIBBLE_UNSUPPORTED);
  EXPECT_STREQ(words.data(),
               "needs tensor cores for halves: compute capability 12.0 runs this build's code for 7.5, expected 8.0 or "
               "later");
}

TEST(FusedOutProd, PlansNothingForNoColumns) {
  nibble_request r{};
  r.weight.packed = make_tensor(nullptr, NIBBLE_Q4_K, {0, 100});
  r.dst = make_tensor(nullptr, NIBBLE_F32, {0, 16});
  for (const cuda::Cores cores : {cuda::Cores::warp, cuda::Cores::warpgroup})
    EXPECT_EQ(cuda::plan_fused(r, cores, 132, std::uint64_t{1} << 28).splits, 0);
}

TEST(FusedOutProd, FillsADeviceWithWholeRounds) {
  // 20 tiles for two blocks on each of 132 processors, of one round 13 splits; of halves of tiles, one block on each,
  // 13 splits in four rounds.
  nibble_request r{};
  r.weight.packed = make_tensor(nullptr, NIBBLE_Q4_K, {5120, 152064});
  r.dst = make_tensor(nullptr, NIBBLE_F32, {5120, 64});
  EXPECT_EQ(cuda::plan_fused(r, cuda::Cores::warp, 132, std::uint64_t{1} << 28).splits, 13);
  r.dst = make_tensor(nullptr, NIBBLE_F32, {5120, 256});
  EXPECT_EQ(cuda::plan_fused(r, cuda::Cores::warpgroup, 132, std::uint64_t{1} << 28).splits, 13);
}

TEST(FusedOutProd, IsCutInItsOwnMemoryAsItWasPlanned) {
  for (const std::int64_t rows : {4096, 11008, 14336, 32000, 152064}) {
    for (const std::int64_t columns : {4096, 5120, 14336}) {
      for (const std::int64_t tokens : {1, 8, 32, 64}) {
        for (const cuda::Cores cores : {cuda::Cores::warp, cuda::Cores::warpgroup}) {
          nibble_request r{};
          r.weight.packed = make_tensor(nullptr, NIBBLE_Q4_K, {columns, rows});
          r.dst = make_tensor(nullptr, NIBBLE_F32, {columns, tokens});
          const cuda::FusedPlan plan = cuda::plan_fused(r, cores, 132, gpu::workspace_limit(r));
          const cuda::FusedPlan again = cuda::plan_fused_within(r, cores, 132, plan.total());
          EXPECT_EQ(again.splits, plan.splits) << rows << " x " << columns << ", " << tokens;
          EXPECT_EQ(again.tokens, plan.tokens) << rows << " x " << columns << ", " << tokens;
        }
      }
    }
  }
}

template <cuda::Cores kCores>
std::string refusal(const Case& c, nibble_caps caps) {
  const Fixture f(c, 7);
  std::array<char, 200> words{};
  nibble_text why{sizeof(nibble_text), 0, words.size(), words.data()};
  EXPECT_EQ(cuda::FusedRow<kCores>::supports(&kRow, &caps, &f.request(), &why), NIBBLE_UNSUPPORTED);
  return words.data();
}

TEST(FusedOutProd, RefusesWhatItDoesNotTake) {
  constexpr auto by_warps = refusal<cuda::Cores::warp>;
  nibble_caps old = kCaps;
  old.arch_major = 7, old.arch_minor = 5;
  EXPECT_NE(by_warps({.columns = 256, .tokens = 1}, old).find("7.5"), std::string::npos);
  EXPECT_NE(by_warps({.columns = 256, .tokens = 129}, kCaps).find("129 tokens"), std::string::npos);
  EXPECT_NE(by_warps({.format = NIBBLE_NF4, .columns = 40, .tokens = 1}, kCaps).find("40 values"), std::string::npos);
  EXPECT_NE(by_warps({.columns = 256, .tokens = 2, .repeats = {2, 1}}, kCaps).find("2 x 1"), std::string::npos);
}

TEST(FusedOutProd, WarpgroupsMultiplyOnOneArchitecture) {
  constexpr auto by_groups = refusal<cuda::Cores::warpgroup>;
  nibble_caps next = kCaps;
  next.arch_major = 10, next.arch_minor = 3;
  EXPECT_NE(by_groups({.columns = 256, .tokens = 64}, next).find("10.3, expected 9.0"), std::string::npos);
  EXPECT_NE(by_groups({.columns = 256, .tokens = 1025}, kCaps).find("1025 tokens"), std::string::npos);
  EXPECT_NE(by_groups({.format = NIBBLE_Q8_0, .columns = 256, .rows = 3, .tokens = 64, .pad = 1}, kCaps)
                .find("273 bytes apart: expected a multiple of 2"),
            std::string::npos);
}

TEST(FusedOutProd, WarpsMultiplyWhatStartsBetweenChunks) {
  // A choice knows no addresses, so it may have been made for a weight that starts elsewhere.
  const Case c{.format = NIBBLE_Q4_K, .columns = 512, .rows = 70, .tokens = 40};
  Fixture f(c, 7);
  const auto expected = f.expected();
  nibble_request r = f.request();
  auto* packed = static_cast<std::uint8_t*>(r.weight.packed.data);
  constexpr std::size_t kBytes = 70 * 288;
  std::vector<std::uint8_t> memory(kBytes + 32);
  std::uint8_t* chunk = memory.data() + (16 - reinterpret_cast<std::uintptr_t>(memory.data()) % 16);
  gpu_test::take_in_hand(r.weight);
  const nibble_workspace_need need = need_of<cuda::Cores::warpgroup>(c);
  for (const std::size_t by : {0, 8}) {
    std::copy_n(packed, kBytes, chunk + by);
    r.weight.packed.data = chunk + by;
    const gpu_test::Workspace workspace(need.minimum_bytes);
    ASSERT_EQ(cuda::FusedRow<cuda::Cores::warpgroup>::execute(nullptr, &kCaps, &r, workspace.data(), need.minimum_bytes,
                                                              nullptr, nullptr),
              NIBBLE_OK);
    expect_sums(f, expected, kSums + 0x1p-11, "moved by " + std::to_string(by));
    EXPECT_EQ(launched, by == 0 ? cuda::Cores::warpgroup : cuda::Cores::warp);
  }
}

}  // namespace
}  // namespace nibble
