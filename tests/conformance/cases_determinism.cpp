// Equal bits from run to run and for any number of threads.
// Apart from the operations' cases because the question is the same for all of them.
#include "tests/conformance/products.h"
#include "tests/conformance/suite.h"

#include <fmt/format.h>

#include <memory>

namespace nibble::conformance {
namespace {

constexpr test::WeightKind kSome[] = {{NIBBLE_Q4_K, false}, {NIBBLE_NF4, true}, {NIBBLE_F16, false}};

/// The same problem on 1, 2 and 3 threads. A GPU's kernels do not read the number and must give equal bits all the
/// same.
Verdict run_on_threads(const RowOnDevice& row, const Problem& problem) {
  Verdict one = run_problem(row, problem, {.threads = 1});
  for (const std::uint32_t threads : {2u, 3u}) {
    if (one.kind != Verdict::Kind::executed) return one;
    Verdict more = run_problem(row, problem, {.threads = threads});
    if (more.kind != Verdict::Kind::executed) return more;
    if (more.dst != one.dst)
      return {Verdict::Kind::failed, fmt::format("{} threads gave other bits than one: expected the same", threads)};
  }
  return one;
}

void add(Suite& suite, nibble_op op, test::WeightKind kind, const std::string& name, const Build& build) {
  const int runs = suite.reduced() ? 5 : 50;
  suite.add(op, {"determinism", test::label(kind), fmt::format("{}_runs_{}", runs, name)}, build, {.runs = runs});
  const auto shared = std::make_shared<const Build>(build);
  suite.add_body(op, {"determinism", test::label(kind), "threads_" + name}, [&suite, shared](const RowOnDevice& row) {
    return run_on_threads(row, suite.problem(shared.get(), *shared));
  });
}

}  // namespace

void add_determinism_cases(Suite& suite) {
  for (const test::WeightKind kind : kSome) {
    // Wide: many panels for threads to share. Deep: few panels and a long sum, which threads may share only in a fixed
    // order.
    const OutProdCase wide = {.kind = kind, .columns = row_values(kind, 1500), .k = 300, .tokens = 5};
    const OutProdCase deep = {.kind = kind,
                              .columns = row_values(kind, 75),
                              .k = suite.reduced() ? 9000 : 20000,
                              .tokens = 3,
                              .transposed = true};
    for (const OutProdCase& c : {wide, deep})
      add(suite, NIBBLE_OP_OUT_PROD, kind, name_of(c), [c] { return build_out_prod(c); });
    const LinearCase many = {.kind = kind, .in = row_values(kind, 300), .out = 1500, .tokens = 5, .has_bias = true};
    const LinearCase long_rows = {.kind = kind, .in = row_values(kind, 20000), .out = 40, .tokens = 3};
    for (const LinearCase& c : {many, long_rows})
      add(suite, NIBBLE_OP_LINEAR, kind, name_of(c), [c] { return build_linear(c); });
  }
}

}  // namespace nibble::conformance
