// The cut of the fused out_prod into tokens, columns and splits, run on the host with a kernel of plain loops.
// Apart from the other products because its workspace holds sums, not decoded weights.
#include <gtest/gtest.h>

#include "backends/cuda/fused_out_prod.h"
#include "backends/gpu/device_code.h"
#include "backends/gpu/product_rows.h"
#include "core/decode.h"
#include "tests/gpu/products_fixture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

namespace nibble {
namespace {

using gpu_test::Case;
using gpu_test::Fixture;

/// The values of the weight of the call in hand: what a device would read at work.weight.
std::vector<float> values_in_hand;
int launches = 0;
cuda::Cores launched = cuda::Cores::warp;  ///< last

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
  ++launches;
  launched = cores;
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
      const float* row = values_in_hand.data() + k * w.columns;
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
DeviceGuard::~DeviceGuard() = default;
nibble_status run_portable(const GemmEngine&, const Gemm&, Scratch, Stream, nibble_text*) { return NIBBLE_INTERNAL; }
nibble_status device_has_code(const nibble_kernel*, const nibble_caps*, const nibble_request*, nibble_text*) {
  return NIBBLE_OK;
}
}  // namespace gpu

namespace {

const nibble_caps kCaps = [] {
  nibble_caps caps{};
  caps.arch_major = 9;
  caps.processors = 3;
  return caps;
}();

constexpr gpu::Product kHalves{{}, gpu::Product::Shape::matrix};
constexpr nibble_kernel kRow = gpu::product_row(NIBBLE_OP_OUT_PROD, "fused", {NIBBLE_TIER_GENERIC, 0}, NIBBLE_MATH_TF32,
                                                NIBBLE_DEVICE_CUDA, {}, kHalves);

/// `operand`: what rounding the gradient may cost.
void expect_sums(const Fixture& f, const std::vector<gpu_test::Expected>& expected, double operand,
                 const std::string& what) {
  const Tensor& d = f.request().dst;
  const auto m = static_cast<std::size_t>(d.shape[0]), stride = static_cast<std::size_t>(d.byte_stride[1]);
  const auto size = static_cast<std::size_t>(gpu::element_bytes(d.format));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double x = load_element(d.format, f.dst.data() + i / m * stride + i % m * size);
    const double unit = d.format == NIBBLE_F32 ? 0x1p-24 : d.format == NIBBLE_F16 ? 0x1p-11 : 0x1p-8;
    const double bound =
        (0x1p-18 + operand) * expected[i].magnitude + 1.01 * unit * std::abs(expected[i].value) + 0x1p-25;
    ASSERT_LE(std::abs(x - expected[i].value), bound) << what << ": element " << i % m << ", " << i / m;
  }
  for (std::size_t i = 0; i < f.dst.size(); ++i) {
    if (f.is_padding(i)) {
      ASSERT_EQ(f.dst[i], 0xff) << what << ": padding byte " << i;
    }
  }
}

/// One call in a poisoned workspace of exactly `bytes`, with a canary behind it.
template <cuda::Cores kCores = cuda::Cores::warp>
void expect_right(const Case& c, std::uint64_t bytes) {
  const Fixture f(c, 7);
  const std::string what = c.text() + " in " + std::to_string(bytes) + " bytes";
  std::vector<float> memory(bytes / 4 + 64, -7.0f);
  const auto expected = f.expected();  // before the call: it counts in what dst holds
  const Tensor& w = f.request().weight.packed;
  values_in_hand.resize(static_cast<std::size_t>(w.shape[0] * w.shape[1]));
  for (std::int64_t k = 0; k < w.shape[1]; ++k)
    decode_row(f.request().weight, k, 0, 0, 0, w.shape[0], values_in_hand.data() + k * w.shape[0]);
  ASSERT_EQ(cuda::FusedRow<kCores>::execute(nullptr, &kCaps, &f.request(), memory.data(), bytes, nullptr, nullptr),
            NIBBLE_OK)
      << what;
  const auto tokens = std::min<std::int64_t>(c.tokens, cuda::most_tokens(kCores));
  const bool rounded = cuda::grad_layout(c.format, tokens, kCores).form == cuda::FusedForm::values;
  expect_sums(f, expected, rounded ? 0x1p-11 : 0.0, what);
  ASSERT_TRUE(std::all_of(memory.begin() + static_cast<std::ptrdiff_t>(bytes / 4), memory.end(), [](float x) {
    return x == -7.0f;
  })) << what;
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
  values_in_hand.resize(512 * 70);
  for (std::int64_t k = 0; k < 70; ++k) decode_row(r.weight, k, 0, 0, 0, 512, values_in_hand.data() + k * 512);
  const nibble_workspace_need need = need_of<cuda::Cores::warpgroup>(c);
  for (const std::size_t by : {0, 8}) {
    std::copy_n(packed, kBytes, chunk + by);
    r.weight.packed.data = chunk + by;
    std::vector<float> workspace(need.minimum_bytes / 4);
    ASSERT_EQ(cuda::FusedRow<cuda::Cores::warpgroup>::execute(nullptr, &kCaps, &r, workspace.data(), need.minimum_bytes,
                                                              nullptr, nullptr),
              NIBBLE_OK);
    expect_sums(f, expected, 0x1p-11, "moved by " + std::to_string(by));
    EXPECT_EQ(launched, by == 0 ? cuda::Cores::warpgroup : cuda::Cores::warp);
  }
}

}  // namespace
}  // namespace nibble
