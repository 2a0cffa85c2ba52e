// Whose memory a kernel's workspace comes from, what becomes of a failure there, and threads that are cancelled inside
// a plugin. Apart from the other plugin tests because these devices are no CPU's.
#include <nibble/nibble.hpp>

#include "tests/plugins/fixture.h"

#include <pthread.h>

#include <atomic>
#include <functional>

namespace nibble {
namespace {

using test::Decode;
using test::PluginsTest;

constexpr Device kHip{NIBBLE_DEVICE_HIP, 0};
constexpr const char* kNoMemory = "no loaded back end brings memory functions for this device";

class PluginMemoryTest : public PluginsTest {
 protected:
  /// Only these back ends, in this order.
  [[nodiscard]] Registry only(const std::vector<std::string>& backends) const {
    for (const std::string& name : backends) {
      if (!std::filesystem::exists(path("nibble_" + name + ".so"))) add(name);
    }
    Settings s;
    s.plugin_path = {path("")};
    s.backends = backends;
    auto registry = Registry::create(s);
    EXPECT_EQ(registry.status().message(), "");
    return std::move(registry).value();
  }
};

struct OnHip : Decode {
  OnHip() { request.weight.packed.device_type = request.dst.device_type = NIBBLE_DEVICE_HIP; }
  [[nodiscard]] std::string fate(const Registry& registry, std::string_view kernel) const {
    const auto decision = registry.explain(request);
    for (const Candidate& c : decision->candidates) {
      if (c.kernel == kernel) return c.reason;
    }
    return "not considered";
  }
};

TEST_F(PluginMemoryTest, WithoutAnyMemoryFunctionsExplainAndRunRefuseAlike) {
  const Registry registry = only({"bare_hip"});
  EXPECT_EQ(OnHip().fate(registry, "bare_hip.dequantize.bad"), kNoMemory);
  EXPECT_EQ(OnHip().run(registry, "bare_hip.dequantize.bad"),
            std::string("no kernel for dequantize of q8_0 to f32 on hip:0: bare_hip.dequantize.bad is forced, but ") +
                kNoMemory);
  EXPECT_EQ(registry.run(OnHip().request).code(), NIBBLE_UNSUPPORTED);
  EXPECT_EQ(registry.memory(kHip).status().message(),
            "no loaded back end has memory of hip:0: bare_hip has it without memory functions");
}

TEST_F(PluginMemoryTest, AnotherBackEndsMemoryFunctionsServe) {
  for (const auto& order : {std::vector<std::string>{"bare_hip", "hip_with_memory"}, {"hip_with_memory", "bare_hip"}}) {
    const Registry registry = only(order);
    EXPECT_EQ(OnHip().fate(registry, "bare_hip.dequantize.bad"), "fits, but comes in only by a rule or an override");
    EXPECT_EQ(OnHip().run(registry, "bare_hip.dequantize.bad"), "1");
    EXPECT_TRUE(registry.memory(kHip).ok());
  }
}

TEST_F(PluginMemoryTest, AKernelsWorkspaceIsItsOwnBackEndsAndAligned) {
  for (const auto& order : {std::vector<std::string>{"odd_memory"}, {"hip_with_memory", "odd_memory"}}) {
    EXPECT_EQ(OnHip().run(only(order), "odd_memory.dequantize.bad"), "0") << order.size();  // it writes no result
  }
}

TEST_F(PluginMemoryTest, ResultsAreAlignedAsPromised) {
  const std::int64_t shape[] = {100};
  const auto tensor = OwnedTensor::allocate(only({"odd_memory"}), NIBBLE_F32, shape, kHip);
  ASSERT_TRUE(tensor.ok()) << tensor.status().message();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor->view().data) % 64, 0u);
}

TEST_F(PluginMemoryTest, AFailureIsPassedOnAndOnlyShortageIsTriedAgain) {
  const auto run = [&](const char* backend) {
    const Registry registry = only({backend});
    const OnHip on_hip;
    return registry.plan(on_hip.request, backend + std::string(".dequantize.bad"))->run(on_hip.request);
  };
  const Status broken = run("broken_memory");
  EXPECT_EQ(broken.code(), NIBBLE_DEVICE_ERROR);
  EXPECT_EQ(broken.message(), "broken_memory.dequantize.bad needs 1048576 bytes of workspace: the bus is on fire");
  EXPECT_EQ(run("short_of_memory").message(), "");  // half, and half of that
}

TEST_F(PluginMemoryTest, ADeviceThatIsNotThereKeepsItsName) {
  const Registry registry = only({"no_devices"});
  const auto decision = registry.explain(OnHip().request);
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->device, "hip:0");
  EXPECT_EQ(OnHip().fate(registry, "no_devices.dequantize.bad"), "no driver");
  EXPECT_EQ(registry.explain(Decode().request)->device, "cpu");  // where nothing serves it either
}

/// Runs body on a thread of its own; what the thread ended with.
void* end_of_thread(const std::function<void()>& body, bool cancel) {
  pthread_t thread;
  const auto start = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  EXPECT_EQ(pthread_create(&thread, nullptr, start, const_cast<std::function<void()>*>(&body)), 0);
  if (cancel) pthread_cancel(thread);
  void* result = nullptr;
  EXPECT_EQ(pthread_join(thread, &result), 0);
  return result;
}

TEST_F(PluginMemoryTest, AThreadMayBeCancelledInsideAKernel) {
  const Registry registry = only({"waits_for_its_end"});
  const OnHip on_hip;
  const auto plan = registry.plan(on_hip.request, "waits_for_its_end.dequantize.bad");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(end_of_thread([&] { static_cast<void>(plan->run(on_hip.request)); }, true), PTHREAD_CANCELED);
}

TEST_F(PluginMemoryTest, AThreadThatIsCancelledReleasesFirst) {
  const Registry registry = only({"waits_for_its_end"});
  std::atomic<bool> released = false;
  const auto body = [&] {
    const std::int64_t shape[] = {100};
    auto tensor = OwnedTensor::allocate(registry, NIBBLE_F32, shape, kHip);
    ASSERT_TRUE(tensor.ok()) << tensor.status().message();
    pthread_cancel(pthread_self());
    { const OwnedTensor dropped = std::move(*tensor); }
    released = true;
    pthread_testcancel();
  };
  EXPECT_EQ(end_of_thread(body, false), PTHREAD_CANCELED);
  EXPECT_TRUE(released);
}

}  // namespace
}  // namespace nibble
