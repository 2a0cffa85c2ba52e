// What the plugin offers on a processor with fewer instruction sets than this one: Highway's answer is faked, in the
// library that the plugin asks too.
// Apart from the CPU's other tests because those link its objects, and here the plugin itself is loaded.
#include <nibble/nibble.hpp>

#include "backends/cpu/targets.h"
#include "tests/unit/fake.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace nibble {
namespace {

class CpuFeaturesTest : public testing::Test {
 protected:
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_F(CpuFeaturesTest, RowsAreOfferedForWhatIsEnabledAlone) {
  std::int64_t enabled = HWY_SCALAR;
  // From the fewest to all: each step adds one set, and its rows become the choice.
  for (std::size_t i = std::size(cpu::kTargets); i-- > 0;) {
    const cpu::TargetInfo& best = cpu::kTargets[i];
    enabled |= best.hwy_target;
    hwy::SetSupportedTargetsForTest(enabled);
    const auto registry = Registry::create(Settings{});
    ASSERT_TRUE(registry.ok()) << registry.status().message();
    const auto decision = registry->explain(fake::dequantize(NIBBLE_Q4_K, NIBBLE_F32));
    EXPECT_EQ(decision->kernel, std::string("cpu.dequantize.simd.") + best.name);
    for (const DeviceRecord& d : registry->devices()) {
      if (d.backend != "cpu") continue;
      EXPECT_EQ(d.caps.arch, std::string(best.name));
    }
    for (std::size_t better = 0; better < i; ++better) {
      const std::string name = cpu::kTargets[better].name;
      for (const Candidate& c : decision->candidates) {
        if (!c.kernel.ends_with("." + name)) continue;
        EXPECT_FALSE(c.accepted) << c.kernel;
        EXPECT_EQ(c.reason, "needs " + name + ", which this processor or its operating system does not offer");
      }
      // Not even by force.
      const auto forced = registry->plan(fake::dequantize(NIBBLE_Q4_K, NIBBLE_F32), "cpu.dequantize.simd." + name);
      EXPECT_EQ(forced.status().code(), NIBBLE_UNSUPPORTED) << name;
    }
  }
}

}  // namespace
}  // namespace nibble
