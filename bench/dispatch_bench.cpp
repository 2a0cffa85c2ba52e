// What dispatch costs: a repeated call, a kept plan, a new decision. The kernel's own work is 32 values of f32.
// Apart from the kernels' benchmarks because here the kernel is what must not matter.
#include <nibble/nibble.hpp>

#include <benchmark/benchmark.h>

#include <array>

namespace nibble::bench {
namespace {

const Registry& registry() { return Registry::default_registry().value(); }

struct Small {
  std::array<float, 32> in{}, out{};
  nibble_request request = make_request(NIBBLE_OP_DEQUANTIZE);
  Small() {
    request.weight = make_weight(make_tensor(in.data(), NIBBLE_F32, {32}));
    request.dst = make_tensor(out.data(), NIBBLE_F32, {32});
    request.threads = 1;
  }
};

/// The kernel alone, through its function pointer: what the next two add to is dispatch.
void kernel_alone(benchmark::State& state) {
  Small s;
  const auto plan = registry().plan(s.request);
  const nibble_kernel& k = plan->kernel();
  nibble_caps caps = invent_caps("cpu:avx512").value();
  nibble_text text{.struct_size = sizeof text, .reserved = 0, .capacity = 0, .data = nullptr};
  for (auto _ : state) benchmark::DoNotOptimize(k.execute(&k, &caps, &s.request, nullptr, 0, nullptr, &text));
}
BENCHMARK(kernel_alone);

void kept_plan(benchmark::State& state) {
  Small s;
  const auto plan = registry().plan(s.request);
  for (auto _ : state) benchmark::DoNotOptimize(plan->run(s.request).ok());
}
BENCHMARK(kept_plan);

/// As above with the plan's own request, which has nothing left to fill in.
void kept_plan_complete(benchmark::State& state) {
  Small s;
  const auto plan = registry().plan(s.request);
  nibble_request request = plan->request();
  for (auto _ : state) benchmark::DoNotOptimize(plan->run(request).ok());
}
BENCHMARK(kept_plan_complete);

void repeated_call(benchmark::State& state) {
  Small s;
  for (auto _ : state) benchmark::DoNotOptimize(registry().run(s.request).ok());
}
BENCHMARK(repeated_call);

void new_decision(benchmark::State& state) {
  Small s;
  for (auto _ : state) benchmark::DoNotOptimize(registry().plan(s.request).ok());
}
BENCHMARK(new_decision);

}  // namespace
}  // namespace nibble::bench
