// dequantize and out_prod on the CPU, every kernel row by name, beside a copy of the same bytes.
// Apart from the dispatch benchmark, whose unit is the nanosecond.
#include "fixtures.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstring>
#include <memory>

namespace nibble::bench {
namespace {

constexpr std::int64_t kResident = 16 * 1024;          // values: 64 KiB of f32, within a core's second-level cache
constexpr std::int64_t kStreaming = 64 * 1024 * 1024;  // values: 256 MiB of f32

const Registry& registry() { return Registry::default_registry().value(); }

/// GB/s of f32 written.
void count_written(benchmark::State& state, std::int64_t values) {
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(values) * 4e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["ns/value"] = benchmark::Counter(
      static_cast<double>(values) * 1e-9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void copy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0)) * 4;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  count_written(state, state.range(0));
}
BENCHMARK(copy)->Arg(kResident)->Arg(kStreaming)->UseRealTime();

void dequantize_row(benchmark::State& state, const nibble_kernel* kernel, Format format, bool nested) {
  const std::int64_t values = state.range(0);
  const RandomWeight w(format, 4096, values / 4096, nested);
  std::vector<float> out(static_cast<std::size_t>(values), 1.0f);
  nibble_request r = make_request(NIBBLE_OP_DEQUANTIZE);
  r.weight = w.weight;
  r.dst = make_tensor(out.data(), NIBBLE_F32, {4096, values / 4096});
  r.threads = static_cast<std::uint32_t>(state.range(1));
  auto plan = registry().plan(r, kernel->name);
  if (!plan) return state.SkipWithError(plan.status().message().c_str());
  for (auto _ : state) {
    if (Status s = plan->run(r); !s) return state.SkipWithError(s.message().c_str());
    benchmark::ClobberMemory();
  }
  count_written(state, values);
}

void out_prod_row(benchmark::State& state, const nibble_kernel* kernel, Format format) {
  const std::int64_t embed = 2048, vocabulary = 8192, tokens = state.range(0);
  const RandomWeight w(format, embed, vocabulary);
  std::vector<float> grad = random_floats(static_cast<std::size_t>(tokens * vocabulary), 4);
  std::vector<float> out(static_cast<std::size_t>(tokens * embed));
  nibble_request r = make_request(NIBBLE_OP_OUT_PROD);
  r.weight = w.weight;
  r.src1 = make_tensor(grad.data(), NIBBLE_F32, {tokens, vocabulary});
  r.dst = make_tensor(out.data(), NIBBLE_F32, {embed, tokens});
  r.threads = static_cast<std::uint32_t>(state.range(1));
  auto plan = registry().plan(r, kernel->name);
  if (!plan) return state.SkipWithError(plan.status().message().c_str());
  for (auto _ : state) {
    if (Status s = plan->run(r); !s) return state.SkipWithError(s.message().c_str());
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(embed * vocabulary * tokens),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

/// One benchmark a row and format; the reference is left out, which is not meant to be fast.
bool register_rows() {
  for (const KernelRecord& record : registry().kernels()) {
    const nibble_kernel* k = record.kernel;
    if (k->device_type != NIBBLE_DEVICE_CPU || k->tier == NIBBLE_TIER_REFERENCE) continue;
    for (std::uint64_t i = 0; i < k->format_count; ++i) {
      const Format f = k->formats[i];
      const std::string name = fmt::format("{}/{}", k->name, format_name(f));
      if (k->op == NIBBLE_OP_DEQUANTIZE) {
        benchmark::RegisterBenchmark(name.c_str(), dequantize_row, k, f, false)
            ->Args({kResident, 1})
            ->Args({kStreaming, 1})
            ->Args({kStreaming, 2})
            ->UseRealTime();
        if (f == NIBBLE_NF4 || f == NIBBLE_FP4) {
          benchmark::RegisterBenchmark((name + "_nested").c_str(), dequantize_row, k, f, true)
              ->Args({kResident, 1})
              ->Args({kStreaming, 2})
              ->UseRealTime();
        }
      } else if (k->op == NIBBLE_OP_OUT_PROD && (f == NIBBLE_Q4_K || f == NIBBLE_Q8_0 || f == NIBBLE_F16)) {
        benchmark::RegisterBenchmark(name.c_str(), out_prod_row, k, f)
            ->ArgsProduct({{1, 4, 16, 128, 512}, {1, 2}})
            ->UseRealTime();
      }
    }
  }
  return true;
}
const bool kRegistered = register_rows();

}  // namespace
}  // namespace nibble::bench
