// A repeated call and a kept plan put nothing on the heap, from the registry down to the CPU's kernels.
// Apart from the other tests because it replaces the process's operator new to count.
#include <nibble/nibble.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <new>
#include <vector>

namespace {
std::size_t allocations = 0;  // of all threads; the test has one
}

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace nibble {
namespace {

template <class F>
std::size_t allocations_of(F&& f) {
  const std::size_t before = allocations;
  f();
  return allocations - before;
}

TEST(AllocationTest, TheCounterCounts) {
  EXPECT_EQ(1u, allocations_of([] { ::operator delete(::operator new(4)); }));
}

TEST(AllocationTest, RepeatedCallsAndKeptPlansMakeNone) {
  std::array<std::uint8_t, 3 * 34> packed{};
  std::array<float, 96> out{};
  nibble_request r = make_request(NIBBLE_OP_DEQUANTIZE);
  r.weight = make_weight(make_tensor(packed.data(), NIBBLE_Q8_0, {32, 3}));
  r.dst = make_tensor(out.data(), NIBBLE_F32, {32, 3});
  const auto registry = Registry::create(Settings{});
  ASSERT_TRUE(registry.ok()) << registry.status().message();
  for (const char* kernel : {"", "cpu.dequantize.simd.portable", "reference.dequantize.scalar"}) {
    const auto plan = registry->plan(r, kernel);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    ASSERT_TRUE(plan->run(r).ok());
    EXPECT_EQ(0u, allocations_of([&] { EXPECT_TRUE(plan->run(r).ok()); })) << kernel;
  }
  ASSERT_TRUE(registry->run(r).ok());
  EXPECT_EQ(0u, allocations_of([&] { EXPECT_TRUE(registry->run(r).ok()); }));
}

}  // namespace
}  // namespace nibble
