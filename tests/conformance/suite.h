// The suite: rows x cases, each a GoogleTest test of its own, with counts for each back end.
// Apart from the cases because they only say what is to be tried.
#ifndef NIBBLE_TESTS_CONFORMANCE_SUITE_H
#define NIBBLE_TESTS_CONFORMANCE_SUITE_H

#include "tests/conformance/expected_failures.h"
#include "tests/conformance/run.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nibble::conformance {

/// What became of a back end's cases.
struct Counts {
  std::size_t executed = 0, failed = 0, failed_as_expected = 0;
  std::map<std::string, std::size_t> unsupported, skipped;  ///< by reason
};

/// What became of a row's cases.
struct RowCounts {
  std::map<std::string, std::size_t> executed;   ///< by format
  std::map<std::string, std::string> elsewhere;  ///< formats that it serves on other devices alone: why not here
};

/// Every count-th case from `index` on, with all of its rows: GoogleTest's own shards would each build every problem.
struct Shard {
  std::size_t index = 0, count = 1;
};

/// Which of the cases were run.
enum class Part : std::uint8_t { all, shard, chosen };

/// Names a case: `format/case` of an operation. Names hold no ':' and no '-', which GoogleTest's filter would read.
struct CaseName {
  std::string suite;   ///< "out_prod"
  std::string format;  ///< "q4_k", "nf4.nested"
  std::string name;    ///< "f16_transposed_k16_t1"
};

using Build = std::function<Problem()>;
using Body = std::function<Verdict(const RowOnDevice&)>;

class Suite {
 public:
  /// Asks the registry for its devices and puts together the rows that can be run.
  Suite(const Registry& registry, ExpectedFailures expected, bool reduced, Shard shard, std::string program);

  /// NIBBLE_CONFORMANCE=reduced: what finds memory and race faults, not every combination of values.
  [[nodiscard]] bool reduced() const { return reduced_; }

  /// Registers a test for every row of `op`. The problem is built when its first test runs and kept while the tests
  /// that follow want the same one.
  void add(nibble_op op, const CaseName& name, Build build, const RunOptions& options = {});
  /// The same with a body of its own; Suite::problem builds and keeps.
  void add_body(nibble_op op, const CaseName& name, Body body);
  /// A test without a row. `check` answers what is wrong, or nothing.
  void add_check(const std::string& suite, const std::string& name, std::function<std::string()> check);
  /// Notes that cases are left out, for every back end.
  void leave_out(const std::string& reason, std::size_t cases = 1);

  /// The problem of a key, built if another was wanted last.
  const Problem& problem(const void* key, const Build& build);

  /// Prints the counts, a row's too where the cases were not chosen by a filter. Answers whether the run holds:
  /// something was executed, for each of `required` (back ends) too, and, where all was run, with every format that a
  /// required back end's row claims, but those that it serves on other devices alone (AVX-512's on a processor
  /// without it).
  bool summarize(const std::vector<std::string>& required, Part part) const;

 private:
  void run_test(const std::string& full_name, const RowOnDevice& row, const CaseName& name, const Body& body);
  /// Answers the formats that it claims and never ran with, nor serves elsewhere alone.
  std::string print_row(const RowOnDevice& row) const;
  [[nodiscard]] std::string rerun(const std::string& full_name) const;
  /// Counts a case; answers whether the shard has it.
  bool takes_next_case() { return cases_++ % shard_.count == shard_.index; }

  std::vector<RowOnDevice> rows_;
  std::vector<std::unique_ptr<test::DeviceMemory>> memories_;
  ExpectedFailures expected_;
  bool reduced_;
  Shard shard_;
  std::size_t cases_ = 0;
  std::string program_;
  std::map<std::string, Counts> counts_;         ///< by back end
  std::map<std::string, RowCounts> row_counts_;  ///< by label
  const void* kept_key_ = nullptr;
  Problem kept_;
};

/// Each adds its cases.
void add_dequantize_cases(Suite& suite);
void add_table_cases(Suite& suite);
void add_golden_cases(Suite& suite, const std::string& data);
void add_out_prod_cases(Suite& suite);
void add_linear_cases(Suite& suite);
void add_determinism_cases(Suite& suite);
void add_workspace_cases(Suite& suite);

}  // namespace nibble::conformance

#endif
