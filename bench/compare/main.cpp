// nibble-bench compare: two kernels, by turns, with everything that was seen written down.
// Apart from the measuring so that files, flags and tables stay out of it.
#include "bench/compare/measure.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <stdexcept>

namespace nibble::bench {
namespace {

using nlohmann::json;

struct Flags {
  std::vector<std::string> matrices;
  std::string baseline, candidate, op = "dequantize", format = "nf4", to = "f16", src1 = "f32";
  std::string math, shape, out, commit;
  bool plain = false;
  std::int64_t tokens = 1;
  Effort effort;
};

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string output_of(const char* command) {
  std::string text;
  if (FILE* pipe = popen(command, "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, pipe) != nullptr) text += line;
    pclose(pipe);
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? "unknown" : text;
}

/// The shared libraries that this process has mapped, which is what really ran.
std::set<std::string> loaded_libraries() {
  std::set<std::string> names;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto slash = line.find('/');
    if (slash != std::string::npos && line.find(".so") != std::string::npos) {
      const std::string path = line.substr(slash);
      names.insert(path.substr(path.rfind('/') + 1));
    }
  }
  return names;
}

json describe_machine(const std::string& commit) {
  int driver = 0, runtime = 0;
  cudaDeviceProp p{};
  if (const auto error = cudaGetDeviceProperties(&p, 0); error != cudaSuccess)
    throw std::runtime_error(cudaGetErrorString(error));
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  char host[256] = "", date[64] = "";
  gethostname(host, sizeof host - 1);
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%FT%TZ", std::gmtime(&now));
  return {{"date", date},
          {"gpu", p.name},
          {"compute_capability", fmt::format("{}.{}", p.major, p.minor)},
          {"multiprocessors", p.multiProcessorCount},
          {"l2_bytes", p.l2CacheSize},
          {"driver", first_line("/proc/driver/nvidia/version")},
          {"driver_api", driver},
          {"runtime", runtime},
          {"compiler", NIBBLE_BENCH_COMPILERS},
          {"commit", commit.empty() ? output_of("git describe --always --dirty 2>/dev/null") : commit},
          {"libraries", loaded_libraries()}};
}

CellSpec single_cell(const Flags& f) {
  Call c{.op = find_op_id(f.op), .nested = !f.plain, .tokens = f.tokens};
  const FormatInfo *format = find_format(f.format), *to = find_format(f.to), *src1 = find_format(f.src1);
  char x = 0;
  std::istringstream shape(f.shape);
  if (c.op == 0) throw CLI::ValidationError("--op", f.op + ": expected dequantize, out_prod or linear");
  if (format == nullptr) throw CLI::ValidationError("--format", f.format + ": expected a format's name");
  if (to == nullptr) throw CLI::ValidationError("--to", f.to + ": expected f32, f16 or bf16");
  if (src1 == nullptr || (src1->id != NIBBLE_F32 && src1->id != NIBBLE_F16 && src1->id != NIBBLE_BF16))
    throw CLI::ValidationError("--src1", f.src1 + ": expected f32, f16 or bf16");
  if (!(shape >> c.rows >> x >> c.columns) || x != 'x' || c.rows < 1 || c.columns < 1 || !shape.eof())
    throw CLI::ValidationError("--shape", f.shape + ": expected ROWSxCOLUMNS");
  c.math = find_math(f.math);
  if (c.math == NIBBLE_MATH_DEFAULT && !f.math.empty())
    throw CLI::ValidationError("--math", f.math + ": expected f32, tf32 or bf16");
  c.format = format->id;
  c.to = to->id;
  c.activations = src1->id;
  c.nested = c.nested && (c.format == NIBBLE_NF4 || c.format == NIBBLE_FP4);
  return {"single", Kind::standalone, false, false, {c}};
}

json to_json(const Summary& s, const std::vector<double>& samples) {
  return {
      {"median_us", s.median}, {"p10_us", s.p10}, {"p90_us", s.p90}, {"spread", s.spread()}, {"samples_us", samples}};
}

/// Under its name only once it is whole.
void write_whole(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  std::ofstream out(part);
  if (!(out << text << std::flush)) {
    std::remove(part.c_str());
    throw std::runtime_error(part + ": cannot be written");
  }
  out.close();
  if (std::rename(part.c_str(), path.c_str()) != 0) throw std::runtime_error(path + ": cannot be written");
}

int compare(const Flags& flags, const std::string& command_line) {
  const auto& registry = Registry::default_registry();
  if (!registry) throw std::runtime_error(registry.status().message());
  std::vector<CellSpec> cells;
  for (const std::string& m : flags.matrices) {
    const auto some = cells_of(m);
    cells.insert(cells.end(), some.begin(), some.end());
  }
  if (cells.empty()) cells.push_back(single_cell(flags));

  json record = {{"command", command_line}, {"cells", json::array()}};
  record["machine"] = describe_machine(flags.commit);
  if (record["machine"]["compute_capability"] != "10.3")
    fmt::print(
        "corroboration: this is not a 10.3, where a rule would choose the specialised kernels; they are forced\n");
  const double bandwidth = copy_bandwidth(flags.effort.batches);
  record["copy_gb_per_s"] = bandwidth * 1e-3;
  fmt::print("copy {:.0f} GB/s, reads and writes\n\n", bandwidth * 1e-3);
  std::vector<Measured> measured;
  std::size_t left_out = 0;
  fmt::print("{:<66} {:>9} {:>9} {:>6} {:>7} {:>7} {:>6}\n", "cell", "base us", "cand us", "ratio", "spread", "of copy",
             "");
  for (const CellSpec& cell : cells) {
    const std::string name = name_of(cell);
    try {
      const CellTimes t = measure(*registry, cell, flags.baseline, flags.candidate, flags.effort);
      const Measured m{name, cell.kind, cell.large, cell.control, summarize(t.baseline_us), summarize(t.candidate_us)};
      measured.push_back(m);
      fmt::print("{:<66} {:>9.1f} {:>9.1f} {:>6.3f} {:>7.3f} {:>7.3f}\n", name, m.baseline.median, m.candidate.median,
                 m.ratio(), std::max(m.baseline.spread(), m.candidate.spread()),
                 static_cast<double>(t.moved_bytes) / bandwidth / m.candidate.median);
      record["cells"].push_back({{"matrix", cell.matrix},
                                 {"cell", name},
                                 {"kernels", t.kernels},
                                 {"large", cell.large},
                                 {"control", cell.control},
                                 {"calls_in_batch", t.calls_in_batch},
                                 {"slots", t.slots},
                                 {"moved_bytes", t.moved_bytes},
                                 {"baseline_launches", t.baseline_launches},
                                 {"candidate_launches", t.candidate_launches},
                                 {"ratio", m.ratio()},
                                 {"baseline_workspace_bytes", t.baseline_workspace},
                                 {"candidate_workspace_bytes", t.candidate_workspace},
                                 {"baseline", to_json(m.baseline, t.baseline_us)},
                                 {"candidate", to_json(m.candidate, t.candidate_us)}});
    } catch (const std::exception& e) {
      static_cast<void>(cudaGetLastError());
      ++left_out;
      fmt::print("{:<66} left out: {}\n", name, e.what());
      record["cells"].push_back({{"matrix", cell.matrix}, {"cell", name}, {"left_out", e.what()}});
    }
    std::fflush(stdout);
  }
  record["machine"]["libraries"] = loaded_libraries();  // cuBLAS loads its own as it goes
  if (!flags.matrices.empty()) {
    const Verdict v = judge(measured);
    fmt::print("\n{}: geometric mean {:.3f} over the large standalone cells, {} cells, {} left out\n",
               v.go ? "go" : "no-go", v.gain, measured.size(), left_out);
    for (const std::string& failing : v.failings) fmt::print("  {}\n", failing);
    record["verdict"] = {{"go", v.go}, {"gain", v.gain}, {"failings", v.failings}};
  }
  if (!flags.out.empty()) write_whole(flags.out, record.dump(1) + "\n");
  return measured.empty() ? 1 : 0;
}

int run(int argc, char** argv) {
  CLI::App app("Measures nibble's kernels on a CUDA device");
  app.require_subcommand(1);
  Flags flags;
  CLI::App* compare_command = app.add_subcommand(
      "compare",
      "Two kernels by turns: matrices with a verdict, or one request\n"
      "Example: nibble-bench compare --matrix all --out evidence.json\n"
      "Example: nibble-bench compare --format q4_k --shape 8192x28672 --baseline cuda.dequantize.blocks "
      "--candidate cuda.dequantize.blocks");
  std::set<std::string> names{"all"};
  for (const auto name : matrix_names()) names.emplace(name);
  compare_command->add_option("--matrix", flags.matrices, "Built-in matrix, or all")->check(CLI::IsMember(names));
  compare_command->add_option("--baseline", flags.baseline, "Kernel, in place of the usual one");
  compare_command->add_option("--candidate", flags.candidate, "Kernel, in place of the usual one");
  compare_command->add_option("--op", flags.op, "One request: the operation");
  compare_command->add_option("--format", flags.format, "One request: the weight's format");
  compare_command->add_flag("--plain", flags.plain, "One request: nf4 and fp4 with plain statistics");
  compare_command->add_option("--to", flags.to, "One request: the result's type");
  compare_command->add_option("--src1", flags.src1, "One request: the type of a product's gradient or activations");
  compare_command->add_option("--math", flags.math, "One request: the class that is asked");
  auto* shape = compare_command->add_option("--shape", flags.shape, "One request: ROWSxCOLUMNS of the weight");
  compare_command->add_option("--tokens", flags.tokens, "One request: tokens")->check(CLI::PositiveNumber);
  compare_command->add_option("--warmups", flags.effort.warmups, "Calls before the first sample")
      ->check(CLI::Range(20, 1000));
  compare_command->add_option("--batches", flags.effort.batches, "Samples of each kernel")->check(CLI::Range(7, 1000));
  compare_command->add_option("--commit", flags.commit, "What is measured, where git cannot tell");
  compare_command->add_option("--out", flags.out, "JSON with every sample");
  try {
    app.parse(argc, argv);
    if (flags.matrices.empty() == shape->empty()) throw CLI::ValidationError("compare", "expected --matrix or --shape");
    if (flags.matrices == std::vector<std::string>{"all"}) {
      flags.matrices.assign(matrix_names().begin(), matrix_names().end());
    }
    std::string command_line;
    for (int i = 0; i < argc; ++i) command_line += (i == 0 ? "" : " ") + std::string(argv[i]);
    return compare(flags, command_line);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::cerr << "nibble-bench: " << error.what() << "\n";
    return 2;
  }
}

}  // namespace
}  // namespace nibble::bench

int main(int argc, char** argv) {
  try {
    return nibble::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nibble-bench: %s\n", error.what());
    return 1;
  }
}
