// Many threads load, dispatch, keep plans and drop registries at once; ThreadSanitizer watches where it is built in.
// Apart from the other plugin tests because here order is what must not matter.
#include <nibble/nibble.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace nibble {
namespace {

constexpr int kThreads = 8;

/// The plugins that are good and bad as they were built: twin_a writes 1, twin_b 2 to the first value.
Settings with_plugins() {
  Settings s;
  s.plugin_path = {NIBBLE_BAD_PLUGINS};
  return s;
}

/// `blocks` of Q8_0, all values 2.
struct Decode {
  std::vector<std::uint8_t> in;
  std::vector<float> out;
  nibble_request request = make_request(NIBBLE_OP_DEQUANTIZE);

  explicit Decode(std::int64_t blocks) : in(static_cast<std::size_t>(34 * blocks), 2), out(in.size()) {
    for (std::size_t b = 0; b < in.size(); b += 34) in[b] = 0, in[b + 1] = 0x3c;
    request.weight = make_weight(make_tensor(in.data(), NIBBLE_Q8_0, {32 * blocks}));
    request.dst = make_tensor(out.data(), NIBBLE_F32, {32 * blocks});
  }
  bool run(const Registry& registry) {
    out[0] = 0;
    return registry.run(request).ok() && out[0] == 2.0f;
  }
  bool run(const Plan& plan, float expected) {
    out[0] = 0;
    return plan.run(request).ok() && out[0] == expected;
  }
};

/// Runs body(thread) on all threads at once; the number of those that found something wrong.
int at_once(const std::function<bool(int)>& body) {
  std::atomic<int> waiting = kThreads, wrong = 0;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      --waiting;
      while (waiting != 0) std::this_thread::yield();
      if (!body(t)) ++wrong;
    });
  }
  for (std::thread& t : threads) t.join();
  return wrong;
}

TEST(ConcurrencyTest, ThreadsDispatchWhileRegistriesAreMadeAndDropped) {
  const auto shared = Registry::create(with_plugins());
  ASSERT_TRUE(shared.ok()) << shared.status().message();
  EXPECT_EQ(0, at_once([&](int t) {
              bool good = true;
              for (int i = 0; i < 20; ++i) {
                Decode d(1 + (t + i) % 5);
                good &= d.run(*shared);
                good &= d.run(*Registry::default_registry());
                const auto own = Registry::create(t % 2 == 0 ? with_plugins() : Settings{});
                good &= own.ok() && d.run(*own) && !own->devices().empty();
                good &= !shared->explain(d.request)->candidates.empty();
              }
              return good;
            }));
}

TEST(ConcurrencyTest, ARegistrysFirstCallMayComeFromManyThreads) {
  for (int round = 0; round < 10; ++round) {
    const auto fresh = Registry::create(with_plugins());
    EXPECT_EQ(0, at_once([&](int t) { return Decode(t % 2 + 1).run(*fresh) && !fresh->devices().empty(); }));
  }
}

TEST(ConcurrencyTest, KeptPlansNeedNothingButThemselves) {
  Decode d(1);
  std::vector<Plan> plans;
  for (const char* kernel : {"twin_a.dequantize.helper", "twin_b.dequantize.helper", ""}) {
    auto plan = Registry::create(with_plugins())->plan(d.request, kernel);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    plans.push_back(*plan);
  }
  EXPECT_EQ(0, at_once([&](int t) {
              const std::vector<Plan> own = plans;  // copies, made and dropped while others run
              bool good = true;
              for (int i = 0; i < 20; ++i) {
                Decode mine(1);
                good &= mine.run(own[0], 1) && mine.run(own[1], 2) && mine.run(plans[2], 2);
                if (t == 0) good &= Registry::create(with_plugins()).ok();
              }
              return good;
            }));
}

TEST(ConcurrencyTest, TheCacheIsFilledFromAllSidesAtOnce) {
  const auto registry = Registry::create(Settings{});
  // More shapes than it has places for, the same from every thread.
  EXPECT_EQ(0, at_once([&](int t) {
              bool good = true;
              for (int i = 0; i < 300; ++i) good &= Decode(1 + (i * 7 + t) % 97).run(*registry);
              return good;
            }));
}

}  // namespace
}  // namespace nibble
