// What the machine can do at most: copies, past the caches too, and fused multiply-adds from registers.
// Apart from the kernels' benchmarks because these are what theirs are divided by.
#include "bench/cpu_bench.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/cpu_limits_bench.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace nibble::bench::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Both addresses and the count are whole cache lines.
void stream_copy(const std::uint8_t* HWY_RESTRICT from, std::size_t bytes, std::uint8_t* HWY_RESTRICT to) {
  const hn::ScalableTag<std::uint8_t> d;
  for (std::size_t i = 0; i < bytes; i += hn::Lanes(d)) hn::Stream(hn::Load(d, from + i), d, to + i);
  hwy::FlushStream();
}

void stream_fill(std::size_t bytes, std::uint8_t* HWY_RESTRICT to) {
  const hn::ScalableTag<std::uint8_t> d;
  const auto value = hn::Set(d, 3);
  for (std::size_t i = 0; i < bytes; i += hn::Lanes(d)) hn::Stream(value, d, to + i);
  hwy::FlushStream();
}

/// Independent chains enough to fill two units of four or five cycles' latency; answers the floats handled a step.
constexpr std::size_t kChains = 12;

std::int64_t multiply_add(std::int64_t steps, float x, float* result) {
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> sums[kChains];
  for (auto& sum : sums) sum = hn::Set(d, x);
  const auto a = hn::Set(d, 1 - x), b = hn::Set(d, x);
  for (std::int64_t i = 0; i < steps; ++i) {
    _Pragma("GCC unroll 12") for (auto& sum : sums) sum = hn::MulAdd(sum, a, b);
  }
  auto total = hn::Zero(d);
  for (const auto& sum : sums) total = hn::Add(total, sum);
  *result = hn::GetLane(total);
  return static_cast<std::int64_t>(kChains * hn::Lanes(d));
}

}  // namespace

// Of a target's namespace, since Highway's tables take their addresses.
void stream_copy_of_target(const std::uint8_t* from, std::size_t bytes, std::uint8_t* to) {
  stream_copy(from, bytes, to);
}
void stream_fill_of_target(std::size_t bytes, std::uint8_t* to) { stream_fill(bytes, to); }
std::int64_t multiply_add_of_target(std::int64_t steps, float x, float* result) {
  return multiply_add(steps, x, result);
}

}  // namespace nibble::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nibble::bench {
namespace {

HWY_EXPORT(stream_copy_of_target);
HWY_EXPORT(stream_fill_of_target);
HWY_EXPORT(multiply_add_of_target);

std::uint8_t* source_memory(std::size_t bytes) {
  static std::vector<std::uint8_t> memory(static_cast<std::size_t>(kStreaming) * 4 + 64, 3);
  if (memory.size() < bytes + 64) return nullptr;
  return memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
}

template <class Copy>
void measure_copy(benchmark::State& state, const Copy& copy) {
  const auto bytes = static_cast<std::size_t>(state.range(0)) * 4;
  const std::int64_t threads = state.range(1);
  const std::size_t part = bytes / static_cast<std::size_t>(threads);
  const std::uint8_t* from = source_memory(bytes);
  std::uint8_t* to = result_memory(bytes);
  for (auto _ : state) {
    on_threads(threads, [&](std::int64_t i) {
      copy(from + static_cast<std::size_t>(i) * part, part, to + static_cast<std::size_t>(i) * part);
    });
    benchmark::ClobberMemory();
  }
  count_values(state, state.range(0), bytes, bytes);
}

void copy(benchmark::State& state) {
  measure_copy(state,
               [](const std::uint8_t* from, std::size_t bytes, std::uint8_t* to) { std::memcpy(to, from, bytes); });
}
BENCHMARK(copy)
    ->ArgNames({"values", "threads"})
    ->Args({kResident, 1})
    ->Args({kStreaming, 1})
    ->Args({kStreaming, 2})
    ->UseRealTime()
    ->MeasureProcessCPUTime();

void streaming_copy(benchmark::State& state) {
  measure_copy(state, [](const std::uint8_t* from, std::size_t bytes, std::uint8_t* to) {
    HWY_DYNAMIC_DISPATCH(stream_copy_of_target)(from, bytes, to);
  });
}
BENCHMARK(streaming_copy)
    ->ArgNames({"values", "threads"})
    ->Args({kStreaming, 1})
    ->Args({kStreaming, 2})
    ->UseRealTime()
    ->MeasureProcessCPUTime();

void streaming_fill(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0)) * 4;
  const std::int64_t threads = state.range(1);
  const std::size_t part = bytes / static_cast<std::size_t>(threads);
  std::uint8_t* to = result_memory(bytes);
  for (auto _ : state) {
    on_threads(threads, [&](std::int64_t i) {
      HWY_DYNAMIC_DISPATCH(stream_fill_of_target)(part, to + static_cast<std::size_t>(i) * part);
    });
    benchmark::ClobberMemory();
  }
  count_values(state, state.range(0), bytes, 0);
}
BENCHMARK(streaming_fill)
    ->ArgNames({"values", "threads"})
    ->Args({kStreaming, 1})
    ->Args({kStreaming, 2})
    ->UseRealTime()
    ->MeasureProcessCPUTime();

void multiply_add_peak(benchmark::State& state) {
  constexpr std::int64_t kSteps = 4'000'000;
  std::int64_t floats = 0;
  for (auto _ : state) {
    on_threads(state.range(0), [&](std::int64_t i) {
      float result;
      const std::int64_t here = HWY_DYNAMIC_DISPATCH(multiply_add_of_target)(kSteps, 0.25f, &result);
      benchmark::DoNotOptimize(result);
      if (i == 0) floats = here;
    });
  }
  count_operations(state, static_cast<double>(floats * kSteps * state.range(0)));
}
BENCHMARK(multiply_add_peak)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime()->MeasureProcessCPUTime();

#if HWY_ARCH_X86
/// Nothing but the shuffles with which a table of 256 floats in registers gives 64 values: eight byte permutations of
/// two registers, eight interleavings and one order of the codes. One port does them all.
__attribute__((target("avx512f,avx512bw,avx512vbmi"))) void shuffle_for_values(std::int64_t values) {
  for (std::int64_t i = 0; i < values; i += 64) {
    asm volatile(
        "vpermd %%zmm1, %%zmm0, %%zmm2\n"
        "vpermt2b %%zmm1, %%zmm0, %%zmm3\nvpermt2b %%zmm1, %%zmm0, %%zmm4\n"
        "vpermt2b %%zmm1, %%zmm0, %%zmm5\nvpermt2b %%zmm1, %%zmm0, %%zmm6\n"
        "vpermt2b %%zmm1, %%zmm0, %%zmm7\nvpermt2b %%zmm1, %%zmm0, %%zmm8\n"
        "vpermt2b %%zmm1, %%zmm0, %%zmm9\nvpermt2b %%zmm1, %%zmm0, %%zmm10\n"
        "vpunpcklbw %%zmm1, %%zmm0, %%zmm11\nvpunpckhbw %%zmm1, %%zmm0, %%zmm12\n"
        "vpunpcklbw %%zmm1, %%zmm0, %%zmm13\nvpunpckhbw %%zmm1, %%zmm0, %%zmm14\n"
        "vpunpcklwd %%zmm1, %%zmm0, %%zmm15\nvpunpckhwd %%zmm1, %%zmm0, %%zmm2\n"
        "vpunpcklwd %%zmm1, %%zmm0, %%zmm11\nvpunpckhwd %%zmm1, %%zmm0, %%zmm12\n"
        :
        :
        : "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
          "xmm15");
  }
}

void table256_shuffles(benchmark::State& state) {
  if ((hwy::SupportedTargets() & HWY_AVX3_DL) == 0) return state.SkipWithError("no byte permutations here");
  for (auto _ : state) shuffle_for_values(kResident);
  count_values(state, kResident, static_cast<std::size_t>(kResident) * sizeof(float), 0);
}
BENCHMARK(table256_shuffles)->UseRealTime()->MeasureProcessCPUTime();
#endif

}  // namespace
}  // namespace nibble::bench
#endif
