// The whole policy on one page: which kernel serves which request on which device, with and without the SM103 plugin.
// Apart from select_test because here the plugins are the real ones; devices are invented, so any machine can ask.
#include <nibble/nibble.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace nibble {
namespace {

constexpr bool kHasCuda = NIBBLE_TEST_CUDA, kHasSm103 = NIBBLE_TEST_SM103;
constexpr bool kHasWarpgroups = NIBBLE_TEST_WARPGROUPS;
constexpr bool kHasHip = NIBBLE_TEST_HIP, kHasHipBlas = NIBBLE_TEST_HIPBLAS;

struct Line {
  std::string device, op, weight, to, math, shape, kernel, text;
};

std::vector<Line> read_table() {
  std::ifstream file(NIBBLE_TEST_DATA "/selection_table.txt");
  std::vector<Line> lines;
  for (std::string text; std::getline(file, text);) {
    if (text.empty() || text[0] == '#') continue;
    Line line;
    line.text = text;
    std::string bar;
    std::istringstream words(text);
    words >> line.device >> bar >> line.op >> line.weight >> line.to >> line.math >> line.shape >> bar >> line.kernel;
    lines.push_back(line);
  }
  return lines;
}

/// "matrix": 129 tokens; "batch": three such; "t16": so many tokens; "t512.large": with the weight of an output head;
/// "t1.middling": with one of 16 Mi values.
struct Shape {
  explicit Shape(const std::string& word) {
    if (word == "batch") matrices = 3;
    if (word[0] == 't') tokens = std::stol(word.substr(1));
    if (word.find(".large") != std::string::npos) columns = 5120, rows = 152064;
    if (word.find(".middling") != std::string::npos) columns = rows = 4096;
  }
  std::int64_t columns = 512, rows = 128, matrices = 1, tokens = 129;
};

/// "nf4.256": nf4 with statistics nested by 256; "nf4.plain", "q4_k".
Weight weight_of(const std::string& name, Device device, const Shape& shape) {
  const std::string format = name.substr(0, name.find('.'));
  const std::string statistics = name.find('.') == std::string::npos ? "" : name.substr(name.find('.') + 1);
  Weight w =
      make_weight(make_tensor(nullptr, find_format(format)->id, {shape.columns, shape.rows, shape.matrices}, device));
  if (find_format(format)->kind != FormatInfo::Kind::flat) return w;
  const std::int64_t blocks = shape.columns * shape.rows * shape.matrices / 64;
  w.block_size = 64;
  if (w.packed.format == NIBBLE_BLOCKWISE8) w.code = make_tensor(nullptr, NIBBLE_F32, {256}, device);
  if (statistics.empty() || statistics == "plain") {
    w.absmax = make_tensor(nullptr, NIBBLE_F32, {blocks}, device);
    return w;
  }
  w.nested_block_size = std::stol(statistics);
  w.absmax = make_tensor(nullptr, NIBBLE_U8, {blocks}, device);
  w.nested_absmax = make_tensor(nullptr, NIBBLE_F32, {(blocks - 1) / w.nested_block_size + 1}, device);
  w.nested_code = make_tensor(nullptr, NIBBLE_F32, {256}, device);
  return w;
}

nibble_request request_of(const Line& line, Device device) {
  const Shape s(line.shape);
  const Format to = find_format(line.to)->id;
  nibble_request r = make_request(find_op_id(line.op));
  r.math = find_math(line.math);
  r.weight = weight_of(line.weight, device, s);
  if (line.op == "out_prod") {
    r.src1 = make_tensor(nullptr, NIBBLE_F32, {s.tokens, s.rows, s.matrices}, device);
    r.dst = make_tensor(nullptr, to, {s.columns, s.tokens, s.matrices}, device);
  } else if (line.op == "linear") {
    r.src1 = make_tensor(nullptr, NIBBLE_F32, {s.columns, s.tokens}, device);
    r.dst = make_tensor(nullptr, to, {s.rows, s.tokens}, device);
  } else {
    r.dst = make_tensor(nullptr, to, {s.columns, s.rows, s.matrices}, device);
  }
  return r;
}

/// The kernel's name, "none", or "no code" where the build was not asked for that chip.
std::string choice(const Registry& registry, const Line& line) {
  const nibble_caps caps = invent_caps(line.device).value();
  const auto decision = registry.explain(request_of(line, {caps.device_type, 0}), &caps);
  if (!decision) return decision.status().message();
  if (!decision->kernel.empty()) return decision->kernel;
  for (const Candidate& c : decision->candidates) {
    if (c.reason.rfind("no code for ", 0) == 0) return "no code";
  }
  return "none";
}

/// The table's kernel, or what takes its place in this build.
std::string expected(const Line& line) {
  const std::string backend = line.kernel.substr(0, line.kernel.find('.'));
  if (backend == "cuda" && !kHasCuda) return "none";
  if (backend != "hip" || kHasHipBlas) return line.kernel;
  if (!kHasHip) return "none";
  return line.op == "dequantize" ? line.kernel : "hip." + line.op + ".portable";
}

Registry registry_of(bool sm103) {
  Settings settings;
  settings.backends = {"cpu"};
  if (kHasCuda) settings.backends.push_back("cuda");
  if (sm103) settings.backends.push_back("cuda_sm103");
  if (kHasHip) settings.backends.push_back("hip");
  return Registry::create(settings).value();
}

TEST(SelectionTable, HoldsWithTheSm103PluginAndChangesNothingElseWithoutIt) {
  const Registry without = registry_of(false);
  const Registry with = kHasSm103 ? registry_of(true) : without;
  std::size_t specialised = 0, on_cuda = 0, on_hip = 0;
  for (const Line& line : read_table()) {
    SCOPED_TRACE(line.text);
    if (!kHasWarpgroups && line.kernel.ends_with(".warpgroups")) continue;  // no code for 9.0 alone in this build
    const std::string a = choice(without, line), b = choice(with, line);
    const bool by_rule = line.kernel.rfind("cuda_sm103.", 0) == 0;
    if (line.device.rfind("cuda:", 0) == 0) ++on_cuda;
    if (a == "no code") {
      EXPECT_EQ(b, a);
      continue;
    }
    if (line.device.rfind("hip:", 0) == 0) ++on_hip;
    if (!by_rule) {
      EXPECT_EQ(a, expected(line));
      EXPECT_EQ(b, a);
      continue;
    }
    EXPECT_EQ(a.rfind(kHasCuda ? "cuda." : "none", 0), 0u) << a;
    EXPECT_EQ(b, kHasSm103 ? line.kernel : a);
    ++specialised;
  }
  EXPECT_GE(on_cuda, 100u);
  EXPECT_GE(on_hip, 20u) << "this build has no code for any AMD device of the table";
  EXPECT_TRUE(!kHasCuda || specialised >= 5u) << "this build has no code for 10.3, so the rule was never tried";
}

}  // namespace
}  // namespace nibble
