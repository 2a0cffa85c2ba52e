// The CPU back end's own parts: quotas, instruction sets, rounding to 16 bits on every target.
// Apart from conformance, which sees whole kernels.
#include "backends/cpu/decode.h"
#include "backends/cpu/threads.h"
#include "core/numeric.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <vector>

namespace nibble::cpu {
namespace {

class QuotaTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"/cpu/a.slice/b", "/cpu/other", "/a.slice/b"})
      std::filesystem::create_directories(root_ + folder);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& file, const std::string& text) const { std::ofstream(root_ + file) << text; }
  [[nodiscard]] std::uint32_t quota() const { return quota_threads(root_, root_ + "/own"); }
  std::string root_ = testing::TempDir() + "/nibble_quota_" + std::to_string(getpid());
};

TEST_F(QuotaTest, Version2RoundsUpAndMaxIsNone) {
  const std::pair<const char*, std::uint32_t> cases[] = {{"150000 100000\n", 2},
                                                         {"200000 100000\n", 2},
                                                         {"120000 100000\n", 2},
                                                         {"50000 100000\n", 1},
                                                         {"max 100000\n", 0}};
  for (const auto& [text, expected] : cases) {
    write("/cpu.max", text);
    EXPECT_EQ(quota(), expected) << text;
  }
}

TEST_F(QuotaTest, Version1AndNoFiles) {
  EXPECT_EQ(quota(), 0u);
  write("/cpu/cpu.cfs_period_us", "100000");
  write("/cpu/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(quota(), 0u);
  write("/cpu/cpu.cfs_quota_us", "300000");
  EXPECT_EQ(quota(), 3u);
}

TEST_F(QuotaTest, TheLeastOfTheGroupsAboveCounts) {
  write("/own", "0::/a.slice/b\n");
  write("/a.slice/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota(), 4u);
  write("/a.slice/cpu.max", "250000 100000\n");
  EXPECT_EQ(quota(), 3u);
  write("/a.slice/b/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 3u);
  write("/cpu.max", "100000 100000\n");
  EXPECT_EQ(quota(), 1u);
}

TEST_F(QuotaTest, Version1TakesTheGroupOfItsController) {
  write("/own", "7:memory:/other\n5:cpuset,cpuacct:/other\n4:cpu,cpuacct:/a.slice/b\nnonsense\n");
  write("/cpu/other/cpu.cfs_period_us", "100000");
  write("/cpu/other/cpu.cfs_quota_us", "100000");
  write("/cpu/a.slice/b/cpu.cfs_period_us", "50000");
  write("/cpu/a.slice/b/cpu.cfs_quota_us", "100000");
  EXPECT_EQ(quota(), 2u);
}

TEST_F(QuotaTest, NonsenseIsNoQuota) {
  for (const char* text : {"", "max", "-5 100000", "-300000 100000", "7000000000 100000", "nan 100000", "100000 0",
                           "100000 -1", "1e300 1", "a b"}) {
    write("/cpu.max", text);
    EXPECT_EQ(quota(), 0u) << text;
  }
}

TEST_F(QuotaTest, ItBoundsWhatTheAffinityAllows) {
  const auto allowed = [&](std::uint32_t affinity) { return allowed_threads(affinity, root_, root_ + "/own"); };
  EXPECT_EQ(allowed(8), 8u);
  write("/cpu.max", "300000 100000");
  EXPECT_EQ(allowed(8), 3u);
  EXPECT_EQ(allowed(2), 2u);
}

TEST(IsaTest, OnlyWhatIsEnabledAndAlwaysThePortableOne) {
  EXPECT_EQ(isa_of(0), std::uint64_t{NIBBLE_ISA_PORTABLE});
#if HWY_ARCH_X86
  EXPECT_EQ(isa_of(HWY_AVX2 | HWY_SSE4), std::uint64_t{NIBBLE_ISA_PORTABLE | NIBBLE_ISA_AVX2 | NIBBLE_ISA_SSE4});
#endif
  EXPECT_NE(detected_isa() & NIBBLE_ISA_PORTABLE, 0u);
}

TEST(ThreadsTest, ACallersLimitOverridesTheQuota) {
  EXPECT_EQ(threads_for(0), available_threads());
  EXPECT_EQ(threads_for(70), 70u);
}

TEST(ThreadsTest, EveryPieceOnceAndNoTwoWorkersAlike) {
  for (const std::uint32_t threads : {1u, 2u, 3u}) {
    std::vector<int> seen(1000, 0);
    std::mutex mutex;
    std::set<std::uint32_t> busy;
    for_pieces(1000, 7, threads, [&](std::int64_t first, std::int64_t last, std::uint32_t worker) {
      {
        const std::lock_guard lock(mutex);
        EXPECT_LT(worker, threads);
        EXPECT_TRUE(busy.insert(worker).second);
      }
      for (std::int64_t i = first; i < last; ++i) ++seen[static_cast<std::size_t>(i)];
      const std::lock_guard lock(mutex);
      busy.erase(worker);
    });
    EXPECT_EQ(seen, std::vector<int>(1000, 1));
  }
}

TEST(RoundingTest, EveryTargetRoundsAsTheReferenceDoes) {
  // Around every half and bfloat16: the value, the middle to the next one, and that middle's neighbours.
  std::vector<float> values;
  for (std::uint32_t h = 0; h < 65536; ++h) {
    for (const std::uint32_t low : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      values.push_back(float_from_bits(h << 16 | low));
      values.push_back(float_from_bits(float_bits(float_from_half(h)) + low));
    }
  }
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<std::uint8_t> got(values.size() * 2 + 2);
  for (const TargetInfo& t : kTargets) {
    if ((detected_isa() & t.isa) == 0) continue;
    const DecodeTable& table = decode_table(t.target);
    const struct {
      Sink sink;
      std::uint16_t (*reference)(float);
      float (*widen)(std::uint32_t);
    } kinds[] = {{Sink::store_f16, half_from_float, float_from_half},
                 {Sink::store_bf16, bfloat16_from_float, float_from_bfloat16}};
    for (const auto& kind : kinds) {
      table.round(values.data(), count, kind.sink, got.data() + 1);  // an odd address on purpose
      std::int64_t wrong = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint16_t bits;
        std::memcpy(&bits, got.data() + 1 + 2 * i, sizeof bits);
        const bool both_nan = std::isnan(values[i]) && std::isnan(kind.widen(bits));
        if (!both_nan && bits != kind.reference(values[i])) ++wrong;
      }
      EXPECT_EQ(wrong, 0) << t.name;
    }
  }
}

}  // namespace
}  // namespace nibble::cpu
