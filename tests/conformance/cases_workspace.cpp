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

/// An output head's sum in the smallest pieces: a wrong offset of a block, or a block that overwrites, cannot hide.
void add_deep(Suite& suite) {
  struct Budget {
    const char* name;
    RunOptions options;
    std::int64_t k;
  };
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  const Budget budgets[] = {
      {"1mib", {.workspace = RunOptions::Workspace::best, .limit_bytes = kMiB}, suite.reduced() ? 6000 : 600000},
      {"minimum", {.workspace = RunOptions::Workspace::minimum}, suite.reduced() ? 600 : 20000}};
  for (const Budget& budget : budgets) {
    for (const Format format : {NIBBLE_Q4_K, NIBBLE_Q8_0}) {
      for (const bool transposed : {false, true}) {
        const OutProdCase c = {
            .kind = {format, false}, .columns = 256, .k = budget.k, .tokens = 3, .transposed = transposed};
        suite.add(
            NIBBLE_OP_OUT_PROD, {"workspace", test::label(c.kind), fmt::format("{}_{}", budget.name, name_of(c))},
            [c] { return build_out_prod(c); }, budget.options);
      }
    }
  }
}

}  // namespace

void add_workspace_cases(Suite& suite) {
  for (const test::WeightKind kind : test::weight_kinds()) {
    for (const auto& mode : kModes) {
      // With the least, a kernel may go a row and a token at a time.
      const bool few = suite.reduced() || mode.workspace != RunOptions::Workspace::library;
      const std::int64_t depth = few ? 270 : 601, tokens = few ? 37 : 70;
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
  add_deep(suite);
}

}  // namespace nibble::conformance
