// The matrices.
// Apart from the header so that shapes can be added without a reader of the interface noticing.
#include "bench/compare/cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace nibble::bench {
namespace {

struct Shape {
  std::int64_t rows, columns;
};
constexpr Shape kShapes[] = {{4096, 4096}, {11008, 4096}, {4096, 11008}, {8192, 8192}, {28672, 8192}};
constexpr Format kFourBit[] = {NIBBLE_NF4, NIBBLE_FP4};
constexpr std::array<std::string_view, 4> kNames = {"nested-standalone", "nested-grad", "nested-forward",
                                                    "nested-steady"};
/// From here on a launch's own cost is small beside the work.
constexpr std::int64_t kLargeValues = 40'000'000;

Call dequantize(Format format, Shape s, Format to) {
  return {.op = NIBBLE_OP_DEQUANTIZE, .format = format, .to = to, .rows = s.rows, .columns = s.columns};
}
Call layer(nibble_op op, Format format, Shape s, std::int64_t tokens) {
  return {.op = op, .format = format, .to = NIBBLE_BF16, .rows = s.rows, .columns = s.columns, .tokens = tokens};
}

/// Each once as a kernel in a graph and once as calls; f32 and odd tails are controls.
std::vector<CellSpec> standalone() {
  std::vector<CellSpec> cells;
  for (const Kind kind : {Kind::standalone, Kind::public_path}) {
    for (const Format format : kFourBit) {
      for (const Format to : {NIBBLE_F16, NIBBLE_BF16, NIBBLE_F32}) {
        for (const Shape s : kShapes) {
          cells.push_back({"nested-standalone",
                           kind,
                           s.rows * s.columns >= kLargeValues,
                           to == NIBBLE_F32,
                           {dequantize(format, s, to)}});
        }
      }
    }
    cells.push_back({"nested-standalone", kind, false, true, {dequantize(NIBBLE_NF4, {4099, 4093}, NIBBLE_F16)}});
  }
  return cells;
}

/// Shapes of layers x numbers of tokens in training and in evaluation.
std::vector<CellSpec> layers(std::string_view matrix, nibble_op op, Kind kind) {
  std::vector<CellSpec> cells;
  for (const Shape s : kShapes) {
    for (const std::int64_t tokens : {1, 128, 2048}) {
      cells.push_back({std::string(matrix), kind, false, false, {layer(op, NIBBLE_NF4, s, tokens)}});
    }
  }
  return cells;
}

/// A step's forward and backward through one layer.
std::vector<CellSpec> steady() {
  std::vector<CellSpec> cells;
  for (const Shape s : {Shape{4096, 11008}, Shape{8192, 8192}}) {
    for (const std::int64_t tokens : {128, 2048}) {
      cells.push_back(
          {"nested-steady",
           Kind::public_path,
           false,
           false,
           {layer(NIBBLE_OP_LINEAR, NIBBLE_NF4, s, tokens), layer(NIBBLE_OP_OUT_PROD, NIBBLE_NF4, s, tokens)}});
    }
  }
  return cells;
}

}  // namespace

std::string name_of(const CellSpec& cell) {
  std::string name = cell.kind == Kind::public_path ? "calls: " : "";
  for (const Call& c : cell.calls) {
    if (&c != &cell.calls.front()) name += " + ";
    name += fmt::format("{} {}{} {}x{} to {}", op_name(c.op), format_name(c.format), c.nested ? ".nested" : "", c.rows,
                        c.columns, format_name(c.to));
    if (c.op != NIBBLE_OP_DEQUANTIZE) name += fmt::format(", {} tokens of {}", c.tokens, format_name(c.activations));
  }
  return name;
}

std::span<const std::string_view> matrix_names() { return kNames; }

std::vector<CellSpec> cells_of(std::string_view matrix) {
  if (matrix == kNames[0]) return standalone();
  if (matrix == kNames[1]) return layers(matrix, NIBBLE_OP_OUT_PROD, Kind::backward);
  if (matrix == kNames[2]) return layers(matrix, NIBBLE_OP_LINEAR, Kind::forward);
  if (matrix == kNames[3]) return steady();
  return {};
}

std::string_view baseline_of(nibble_op op) {
  return op == NIBBLE_OP_DEQUANTIZE ? "cuda.dequantize.codebook"
         : op == NIBBLE_OP_OUT_PROD ? "cuda.out_prod.row_blocks"
                                    : "cuda.linear.row_blocks";
}
std::string_view candidate_of(nibble_op op) {
  return op == NIBBLE_OP_DEQUANTIZE ? "cuda_sm103.dequantize.nested"
         : op == NIBBLE_OP_OUT_PROD ? "cuda_sm103.out_prod.row_blocks"
                                    : "cuda_sm103.linear.row_blocks";
}

}  // namespace nibble::bench
