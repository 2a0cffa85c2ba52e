// dequantize on the CPU, every kernel row by name and, where the user names its libraries, ggml's decoders.
// Apart from the products, whose unit is the multiplication.
#include "bench/bitsandbytes.h"
#include "bench/cpu_bench.h"
#include "bench/ggml.h"

#include <fmt/format.h>

#include <cstdlib>

namespace nibble::bench {
namespace {

constexpr std::int64_t kColumns = 4096;

void dequantize(benchmark::State& state, const nibble_kernel* kernel, Format format, bool nested, Format to) {
  const std::int64_t values = state.range(0);
  const test::HostWeight& w = random_weight(format, nested, kColumns, values / kColumns);
  const std::size_t bytes = storage_bytes(to, std::array{values}).value();
  nibble_request r = make_request(NIBBLE_OP_DEQUANTIZE);
  r.weight = w.weight;
  r.dst = make_tensor(result_memory(bytes), to, {kColumns, values / kColumns});
  r.threads = static_cast<std::uint32_t>(state.range(1));
  run_kernel(state, kernel, r);
  count_values(state, values, bytes, stored_bytes(w));
}

void ggml_dequantize(benchmark::State& state, Ggml::Decode decode, Format format) {
  const std::int64_t values = state.range(0);
  const test::HostWeight& w = random_weight(format, false, kColumns, values / kColumns);
  const std::size_t bytes = static_cast<std::size_t>(values) * sizeof(float);
  auto* out = reinterpret_cast<float*>(result_memory(bytes));
  for (auto _ : state) {
    decode(w.packed.data(), out, values);
    benchmark::ClobberMemory();
  }
  count_values(state, values, bytes, stored_bytes(w));
}

void bitsandbytes_dequantize(benchmark::State& state, const BitsAndBytes* rival, Format format, Format to) {
  const std::int64_t values = state.range(0);
  const test::HostWeight& w = random_weight(format, false, kColumns, values / kColumns);
  const std::size_t bytes = storage_bytes(to, std::array{values}).value();
  const auto decode = rival->decoder(w.weight, to, result_memory(bytes));
  if (!decode) return state.SkipWithError("bitsandbytes has not the function that this needs");
  for (auto _ : state) {
    decode();
    benchmark::ClobberMemory();
  }
  count_values(state, values, bytes, stored_bytes(w));
}

void register_format(const nibble_kernel* k, Format format, bool nested) {
  for (const Format to : {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16}) {
    const std::string name =
        fmt::format("{}/{}{}/to_{}", k->name, format_name(format), nested ? "_nested" : "", format_name(to));
    auto* b = benchmark::RegisterBenchmark(name.c_str(), dequantize, k, format, nested, to);
    b->ArgNames({"values", "threads"})->UseRealTime()->MeasureProcessCPUTime();
    b->Args({kResident, 1})->Args({kStreaming, 1})->Args({kStreaming, 2});
  }
}

/// A rival that the user names must load: else its absence would go unnoticed.
template <class Rival>
const Rival* load_rival() {
  const Result<const Rival*> loaded = Rival::load();
  if (!loaded) {
    fmt::print(stderr, "nibble_bench: {}\n", loaded.status().message());
    std::exit(2);
  }
  return *loaded;
}

bool register_rivals() {
  const auto* ggml = load_rival<Ggml>();
  for (const FormatInfo& info : formats()) {
    const Ggml::Decode decode = ggml == nullptr ? nullptr : ggml->decoder(info.id);
    if (decode == nullptr) continue;
    benchmark::RegisterBenchmark(fmt::format("ggml.dequantize/{}", info.name).c_str(), ggml_dequantize, decode, info.id)
        ->ArgName("values")
        ->Arg(kResident)
        ->Arg(kStreaming)
        ->UseRealTime();
  }
  const auto* bitsandbytes = load_rival<BitsAndBytes>();
  if (bitsandbytes == nullptr) return true;
  for (const Format format : {NIBBLE_NF4, NIBBLE_FP4, NIBBLE_BLOCKWISE8}) {
    for (const Format to : {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16}) {
      const std::string name = fmt::format("bitsandbytes.dequantize/{}/to_{}", format_name(format), format_name(to));
      benchmark::RegisterBenchmark(name.c_str(), bitsandbytes_dequantize, bitsandbytes, format, to)
          ->ArgName("values")
          ->Arg(kResident)
          ->Arg(kStreaming)
          ->UseRealTime();
    }
  }
  return true;
}

bool register_rows() {
  for_each_row(NIBBLE_OP_DEQUANTIZE, [](const nibble_kernel* k, Format f) {
    register_format(k, f, false);
    if (f == NIBBLE_NF4 || f == NIBBLE_FP4) register_format(k, f, true);
  });
  return true;
}

const bool kRegistered = register_rivals() | register_rows();

}  // namespace
}  // namespace nibble::bench
