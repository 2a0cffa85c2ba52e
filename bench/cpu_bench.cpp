// dequantize and out_prod on the CPU, every kernel row by name, beside a copy of the same bytes and, where the user
// names its libraries, ggml. Apart from the dispatch benchmark, whose unit is the nanosecond.
#include "bench/ggml.h"
#include "tests/support/weights.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstring>
#include <memory>

namespace nibble::bench {
namespace {

constexpr std::int64_t kResident = 16 * 1024;              // values: 64 KiB of f32, within a core's second-level cache
constexpr std::int64_t kStreaming = 64 * 1024 * 1024;      // values: 256 MiB of f32
constexpr std::int64_t kEmbed = 2048, kVocabulary = 8192;  // the shape of W in every out_prod

const Registry& registry() { return Registry::default_registry().value(); }

/// Random codes and moderate scales: zeros can run faster than real data, and subnormal values slower.
test::HostWeight random_weight(Format format, bool nested, std::int64_t columns, std::int64_t rows) {
  test::Random random("bench");
  return test::make_host_weight({format, nested}, {.shape = {columns, rows, 1, 1}}, test::Contents::moderate, random);
}

std::vector<float> random_floats(std::int64_t count) {
  test::Random random("gradient");
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = static_cast<float>(random.uniform(-1, 1));
  return values;
}

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
  const test::HostWeight w = random_weight(format, nested, 4096, values / 4096);
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

void count_operations(benchmark::State& state, std::int64_t tokens) {
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(kEmbed * kVocabulary * tokens),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

void out_prod_row(benchmark::State& state, const nibble_kernel* kernel, Format format) {
  const std::int64_t tokens = state.range(0);
  const test::HostWeight w = random_weight(format, false, kEmbed, kVocabulary);
  std::vector<float> grad = random_floats(tokens * kVocabulary);
  std::vector<float> out(static_cast<std::size_t>(tokens * kEmbed));
  nibble_request r = make_request(NIBBLE_OP_OUT_PROD);
  r.weight = w.weight;
  r.src1 = make_tensor(grad.data(), NIBBLE_F32, {tokens, kVocabulary});
  r.dst = make_tensor(out.data(), NIBBLE_F32, {kEmbed, tokens});
  r.threads = static_cast<std::uint32_t>(state.range(1));
  auto plan = registry().plan(r, kernel->name);
  if (!plan) return state.SkipWithError(plan.status().message().c_str());
  for (auto _ : state) {
    if (Status s = plan->run(r); !s) return state.SkipWithError(s.message().c_str());
    benchmark::ClobberMemory();
  }
  count_operations(state, tokens);
}

void ggml_dequantize(benchmark::State& state, Ggml::Decode decode, Format format) {
  const std::int64_t values = state.range(0);
  const test::HostWeight w = random_weight(format, false, 4096, values / 4096);
  std::vector<float> out(static_cast<std::size_t>(values), 1.0f);
  for (auto _ : state) {
    decode(w.packed.data(), out.data(), values);
    benchmark::ClobberMemory();
  }
  count_written(state, values);
}

void ggml_out_prod(benchmark::State& state, const Ggml* ggml, Format format) {
  const std::int64_t tokens = state.range(0);
  const test::HostWeight w = random_weight(format, false, kEmbed, kVocabulary);
  const auto graph = ggml->out_prod(format, kEmbed, kVocabulary, tokens, w.packed, random_floats(tokens * kVocabulary));
  if (!graph) return state.SkipWithError("ggml has not every function that its out_prod needs");
  for (auto _ : state) {
    if (!graph->run(static_cast<int>(state.range(1)))) return state.SkipWithError("ggml could not compute the graph");
    benchmark::ClobberMemory();
  }
  count_operations(state, tokens);
}

bool multiplied(Format f) { return f == NIBBLE_Q4_K || f == NIBBLE_Q8_0 || f == NIBBLE_F32; }

bool register_ggml() {
  const Result<const Ggml*> loaded = Ggml::load();
  if (!loaded) {
    fmt::print(stderr, "nibble_bench: {}\n", loaded.status().message());
    std::exit(2);
  }
  const Ggml* ggml = *loaded;
  if (ggml == nullptr) return false;
  for (const FormatInfo& info : formats()) {
    const Ggml::Decode decode = ggml->decoder(info.id);
    if (decode != nullptr) {
      benchmark::RegisterBenchmark(fmt::format("ggml.dequantize/{}", info.name).c_str(), ggml_dequantize, decode,
                                   info.id)
          ->Arg(kResident)
          ->Arg(kStreaming)
          ->UseRealTime();
    }
    if (multiplied(info.id)) {
      benchmark::RegisterBenchmark(fmt::format("ggml.out_prod/{}", info.name).c_str(), ggml_out_prod, ggml, info.id)
          ->ArgsProduct({{1, 16, 128}, {2}})
          ->UseRealTime();
    }
  }
  return true;
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
      } else if (k->op == NIBBLE_OP_OUT_PROD && multiplied(f)) {
        benchmark::RegisterBenchmark(name.c_str(), out_prod_row, k, f)
            ->ArgsProduct({{1, 4, 16, 128, 512}, {1, 2}})
            ->UseRealTime();
      }
    }
  }
  return true;
}
const bool kRegistered = register_ggml() | register_rows();

}  // namespace
}  // namespace nibble::bench
