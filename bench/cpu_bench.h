// What the CPU benchmarks share: the registry, weights and buffers made once, the units of their counters.
// Apart from the benchmarks because decoding, products and limits are measured in one run but read alone.
#ifndef NIBBLE_BENCH_CPU_BENCH_H
#define NIBBLE_BENCH_CPU_BENCH_H

#include <nibble/nibble.hpp>

#include "tests/support/weights.h"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace nibble::bench {

inline constexpr std::int64_t kResident = 16 * 1024;              // values: 64 KiB of f32, within a second-level cache
inline constexpr std::int64_t kStreaming = 64 * 1024 * 1024;      // values: 256 MiB of f32
inline constexpr std::int64_t kEmbed = 2048, kVocabulary = 8192;  // the shape of W in every product but those over K

const Registry& registry();

/// Random codes and moderate scales: zeros can run faster than real data, and subnormal values slower. Large weights
/// repeat their first rows. The last one made is kept, since its benchmarks follow each other.
const test::HostWeight& random_weight(Format format, bool nested, std::int64_t columns, std::int64_t rows);
std::size_t stored_bytes(const test::HostWeight& weight);

std::vector<float> random_floats(std::int64_t count);

/// Memory of a result, at least `bytes`, touched; the same memory in every benchmark, so that pages are not measured.
std::uint8_t* result_memory(std::size_t bytes);

/// Runs the kernel, which must accept the request, in the benchmark's loop.
void run_kernel(benchmark::State& state, const nibble_kernel* kernel, const nibble_request& request);

/// Runs body(worker) on `threads` threads at once, the caller's among them.
void on_threads(std::int64_t threads, const std::function<void(std::int64_t)>& body);

/// Counters: values a second as GB/s of the result, GB/s of all bytes that must move, and ns a value.
void count_values(benchmark::State& state, std::int64_t values, std::size_t result_bytes, std::size_t read_bytes);
void count_operations(benchmark::State& state, double multiply_adds);

/// One benchmark of a row for each format that it takes; the reference is left out, which is not meant to be fast.
void for_each_row(nibble_op op, const std::function<void(const nibble_kernel*, Format)>& visit);

}  // namespace nibble::bench

#endif
