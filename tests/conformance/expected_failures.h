// The list of known failures: a listed test that fails is counted, one that passes fails the run.
// Apart from the suite because the list is a file that people edit.
#ifndef NIBBLE_TESTS_CONFORMANCE_EXPECTED_FAILURES_H
#define NIBBLE_TESTS_CONFORMANCE_EXPECTED_FAILURES_H

#include <nibble/status.hpp>

#include <string>
#include <vector>

namespace nibble::conformance {

/// Lines "PATTERN: REASON"; '#' begins a comment. A pattern is a full test name, with * and ? as the shell has them.
class ExpectedFailures {
 public:
  static Result<ExpectedFailures> read(const std::string& path);
  /// The reason why this test is known to fail; nullptr: it is not.
  [[nodiscard]] const std::string* reason(const std::string& test) const;

 private:
  struct Line {
    std::string pattern, reason;
  };
  std::vector<Line> lines_;
};

}  // namespace nibble::conformance

#endif
