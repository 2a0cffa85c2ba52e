// out_prod and linear on the CPU, every kernel row by name, beside OpenBLAS's sgemm on expanded weights and ggml's
// out_prod where they are at hand. Apart from decoding, whose unit is the byte.
#include "bench/blas.h"
#include "bench/cpu_bench.h"
#include "bench/ggml.h"

#include <fmt/format.h>

namespace nibble::bench {
namespace {

/// W is [columns, rows]: out_prod sums over its rows, linear over its columns.
struct Shape {
  std::int64_t tokens, threads, columns = kEmbed, rows = kVocabulary;
  explicit Shape(const benchmark::State& state) : tokens(state.range(0)), threads(state.range(1)) {}
  [[nodiscard]] double multiply_adds() const { return static_cast<double>(columns * rows * tokens); }
};

/// `transposed`: the gradient lies token after token, as activations do, not row after row of the weight.
void out_prod(benchmark::State& state, const nibble_kernel* kernel, Format format, bool transposed) {
  Shape s(state);
  if (state.range(2) != 0) s.rows = state.range(2);
  const test::HostWeight& w = random_weight(format, false, s.columns, s.rows);
  std::vector<float> grad = random_floats(s.tokens * s.rows);
  nibble_request r = make_request(NIBBLE_OP_OUT_PROD);
  r.weight = w.weight;
  r.src1 = make_tensor(grad.data(), NIBBLE_F32, {s.tokens, s.rows});
  if (transposed) {
    r.src1.byte_stride[0] = s.rows * 4;
    r.src1.byte_stride[1] = 4;
  }
  r.dst =
      make_tensor(result_memory(static_cast<std::size_t>(s.tokens * s.columns) * 4), NIBBLE_F32, {s.columns, s.tokens});
  r.threads = static_cast<std::uint32_t>(s.threads);
  run_kernel(state, kernel, r);
  count_operations(state, s.multiply_adds());
}

void linear(benchmark::State& state, const nibble_kernel* kernel, Format format) {
  const Shape s(state);
  const test::HostWeight& w = random_weight(format, false, s.columns, s.rows);
  std::vector<float> x = random_floats(s.tokens * s.columns);
  nibble_request r = make_request(NIBBLE_OP_LINEAR);
  r.weight = w.weight;
  r.src1 = make_tensor(x.data(), NIBBLE_F32, {s.columns, s.tokens});
  r.dst = make_tensor(result_memory(static_cast<std::size_t>(s.tokens * s.rows) * 4), NIBBLE_F32, {s.rows, s.tokens});
  r.threads = static_cast<std::uint32_t>(s.threads);
  run_kernel(state, kernel, r);
  count_operations(state, s.multiply_adds());
}

void sgemm_out_prod(benchmark::State& state, Sgemm sgemm) {
  const Shape s(state);
  const std::vector<float> w = random_floats(s.columns * s.rows), grad = random_floats(s.tokens * s.rows);
  auto* out = reinterpret_cast<float*>(result_memory(static_cast<std::size_t>(s.tokens * s.columns) * 4));
  for (auto _ : state) {
    sgemm({.m = s.tokens, .n = s.columns, .k = s.rows, .threads = s.threads}, grad.data(), w.data(), out);
    benchmark::ClobberMemory();
  }
  count_operations(state, s.multiply_adds());
}

void ggml_out_prod(benchmark::State& state, const Ggml* ggml, Format format) {
  const Shape s(state);
  const test::HostWeight& w = random_weight(format, false, s.columns, s.rows);
  const auto graph = ggml->out_prod(format, s.columns, s.rows, s.tokens, w.packed, random_floats(s.tokens * s.rows));
  if (!graph) return state.SkipWithError("ggml has not every function that its out_prod needs");
  for (auto _ : state) {
    if (!graph->run(static_cast<int>(s.threads))) return state.SkipWithError("ggml could not compute the graph");
    benchmark::ClobberMemory();
  }
  count_operations(state, s.multiply_adds());
}

/// Formats that are measured over all counts of tokens, and rivals with them; of the others few tokens, which decoding
/// decides.
bool multiplied(Format f) { return f == NIBBLE_Q4_K || f == NIBBLE_Q8_0 || f == NIBBLE_F32 || f == NIBBLE_NF4; }

void register_out_prod(const nibble_kernel* k, Format f) {
  const std::string name = fmt::format("{}/{}", k->name, format_name(f));
  if (!multiplied(f)) {
    benchmark::RegisterBenchmark(name.c_str(), out_prod, k, f, false)
        ->ArgNames({"tokens", "threads", "k"})
        ->ArgsProduct({{1, 2, 4, 8}, {1, 2}, {0}})
        ->UseRealTime()
        ->MeasureProcessCPUTime();
    return;
  }
  benchmark::RegisterBenchmark(name.c_str(), out_prod, k, f, false)
      ->ArgNames({"tokens", "threads", "k"})
      ->ArgsProduct({{1, 2, 4, 8, 16, 32, 64, 128, 512, 2048}, {1, 2}, {0}})
      ->ArgsProduct({{128}, {2}, {512, 2048, 32768}})
      ->UseRealTime()
      ->MeasureProcessCPUTime();
  benchmark::RegisterBenchmark((name + "/transposed").c_str(), out_prod, k, f, true)
      ->ArgNames({"tokens", "threads", "k"})
      ->ArgsProduct({{1, 8, 128}, {2}, {0}})
      ->UseRealTime()
      ->MeasureProcessCPUTime();
}

bool register_rivals() {
  if (const Sgemm sgemm = find_sgemm(); sgemm != nullptr) {
    benchmark::RegisterBenchmark("sgemm.out_prod/f32", sgemm_out_prod, sgemm)
        ->ArgNames({"tokens", "threads"})
        ->ArgsProduct({{1, 16, 128, 512, 2048}, {1, 2}})
        ->UseRealTime()
        ->MeasureProcessCPUTime();
  }
  const Result<const Ggml*> ggml = Ggml::load();
  if (!ggml || *ggml == nullptr) return false;  // the decoders' benchmark has said why
  for (const FormatInfo& info : formats()) {
    if (!multiplied(info.id) || (*ggml)->decoder(info.id) == nullptr) continue;
    benchmark::RegisterBenchmark(fmt::format("ggml.out_prod/{}", info.name).c_str(), ggml_out_prod, *ggml, info.id)
        ->ArgNames({"tokens", "threads"})
        ->ArgsProduct({{1, 16, 128}, {2}})
        ->UseRealTime()
        ->MeasureProcessCPUTime();
  }
  return true;
}

bool register_rows() {
  for_each_row(NIBBLE_OP_OUT_PROD, register_out_prod);
  for_each_row(NIBBLE_OP_LINEAR, [](const nibble_kernel* k, Format f) {
    if (!multiplied(f)) return;
    benchmark::RegisterBenchmark(fmt::format("{}/{}", k->name, format_name(f)).c_str(), linear, k, f)
        ->ArgNames({"tokens", "threads"})
        ->ArgsProduct({{1, 8, 16, 128, 512}, {1, 2}})
        ->UseRealTime()
        ->MeasureProcessCPUTime();
  });
  return true;
}

const bool kRegistered = register_rivals() | register_rows();

}  // namespace
}  // namespace nibble::bench
