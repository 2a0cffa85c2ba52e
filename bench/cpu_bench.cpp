// Weights, memory, threads and counters of the CPU benchmarks.
// Apart from the header so that each benchmark compiles without them.
#include "bench/cpu_bench.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace nibble::bench {
namespace {

constexpr std::int64_t kRandomRows = 64;  // random bits are slow to make

/// As bitsandbytes makes them where it is not told otherwise.
std::int64_t block_size_of(Format format) { return format == NIBBLE_BLOCKWISE8 ? 4096 : 64; }

void repeat(std::span<std::uint8_t> bytes, std::size_t pattern) {
  for (std::size_t at = pattern; at < bytes.size(); at += pattern)
    std::memcpy(bytes.data() + at, bytes.data(), std::min(pattern, bytes.size() - at));
}

test::HostWeight make_weight_of(Format format, bool nested, std::int64_t columns, std::int64_t rows) {
  test::Random random("bench");
  const auto make = [&](std::int64_t row_count) {
    return test::make_host_weight({format, nested},
                                  {.shape = {columns, row_count, 1, 1}, .block_size = block_size_of(format)},
                                  test::Contents::moderate, random);
  };
  if (rows <= kRandomRows || find_format(format)->kind == FormatInfo::Kind::flat) return make(rows);
  test::HostWeight w = make(kRandomRows);
  const std::size_t pattern = w.packed.size();
  w.packed.resize(pattern / kRandomRows * static_cast<std::size_t>(rows));
  repeat(w.packed, pattern);
  w.weight.packed = make_tensor(w.packed.data(), format, {columns, rows});
  return w;
}

}  // namespace

const Registry& registry() { return Registry::default_registry().value(); }

const test::HostWeight& random_weight(Format format, bool nested, std::int64_t columns, std::int64_t rows) {
  struct Kept {
    Format format = 0;
    bool nested = false;
    std::int64_t columns = 0, rows = 0;
    test::HostWeight weight;
  };
  static Kept kept;
  if (kept.format != format || kept.nested != nested || kept.columns != columns || kept.rows != rows)
    kept = {format, nested, columns, rows, make_weight_of(format, nested, columns, rows)};
  return kept.weight;
}

std::size_t stored_bytes(const test::HostWeight& w) {
  return w.packed.size() + w.code.size() + w.absmax.size() + w.nested_absmax.size() + w.nested_code.size();
}

std::vector<float> random_floats(std::int64_t count) {
  test::Random random("gradient");
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = static_cast<float>(random.uniform(-1, 1));
  return values;
}

std::uint8_t* result_memory(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  static std::vector<std::uint8_t> memory;
  if (memory.size() < bytes + kLine) memory.assign(bytes + kLine, 1);
  return memory.data() + (kLine - reinterpret_cast<std::uintptr_t>(memory.data()) % kLine) % kLine;
}

void run_kernel(benchmark::State& state, const nibble_kernel* kernel, const nibble_request& request) {
  auto plan = registry().plan(request, kernel->name);
  if (!plan) return state.SkipWithError(plan.status().message().c_str());
  for (auto _ : state) {
    if (Status s = plan->run(request); !s) return state.SkipWithError(s.message().c_str());
    benchmark::ClobberMemory();
  }
}

void on_threads(std::int64_t threads, const std::function<void(std::int64_t)>& body) {
  std::vector<std::jthread> others;
  for (std::int64_t i = 1; i < threads; ++i) others.emplace_back([&body, i] { body(i); });
  body(0);
}

void count_values(benchmark::State& state, std::int64_t values, std::size_t result_bytes, std::size_t read_bytes) {
  using benchmark::Counter;
  const auto rate = [](double each) { return Counter(each, Counter::kIsIterationInvariantRate); };
  state.counters["GB/s"] = rate(1e-9 * static_cast<double>(result_bytes));
  state.counters["moved_GB/s"] = rate(1e-9 * static_cast<double>(result_bytes + read_bytes));
  state.counters["ns/value"] =
      Counter(1e-9 * static_cast<double>(values), Counter::kIsIterationInvariantRate | Counter::kInvert);
}

void count_operations(benchmark::State& state, double multiply_adds) {
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * multiply_adds, benchmark::Counter::kIsIterationInvariantRate);
}

void for_each_row(nibble_op op, const std::function<void(const nibble_kernel*, Format)>& visit) {
  for (const KernelRecord& record : registry().kernels()) {
    const nibble_kernel* k = record.kernel;
    if (k->op != op || k->device_type != NIBBLE_DEVICE_CPU || k->tier == NIBBLE_TIER_REFERENCE) continue;
    for (std::uint64_t i = 0; i < k->format_count; ++i) visit(k, k->formats[i]);
  }
}

}  // namespace nibble::bench
