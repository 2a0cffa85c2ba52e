// Workspaces: the caller's with the least that a plan asks for, the library's own, and a tight limit.
// Apart from the operations' cases because the question is the same for all of them.
#include "tests/conformance/products.h"
#include "tests/conformance/suite.h"

#include <fmt/format.h>

#include <memory>

namespace nibble::conformance {
namespace {

constexpr struct {
  const char* name;
  RunOptions::Workspace workspace;
} kModes[] = {{"minimum", RunOptions::Workspace::minimum},
              {"limited", RunOptions::Workspace::limited},
              {"library", RunOptions::Workspace::library}};

}  // namespace

void add_workspace_cases(Suite& suite) {
  const std::int64_t depth = suite.reduced() ? 270 : 601, tokens = suite.reduced() ? 37 : 70;
  for (const test::WeightKind kind : test::weight_kinds()) {
    for (const auto& mode : kModes) {
      const RunOptions options = {.workspace = mode.workspace};
      OutProdCase o = {.kind = kind, .columns = row_values(kind, 517), .k = depth, .tokens = tokens};
      suite.add(
          NIBBLE_OP_OUT_PROD, {"workspace", test::label(kind), fmt::format("{}_{}", mode.name, name_of(o))},
          [o] { return build_out_prod(o); }, options);
      LinearCase l = {.kind = kind, .in = row_values(kind, 517), .out = depth, .tokens = tokens};
      suite.add(
          NIBBLE_OP_LINEAR, {"workspace", test::label(kind), fmt::format("{}_{}", mode.name, name_of(l))},
          [l] { return build_linear(l); }, options);
    }
  }
}

}  // namespace nibble::conformance
