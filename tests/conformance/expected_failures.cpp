// Reading the list.
// Apart from the header so that it stays an interface.
#include "tests/conformance/expected_failures.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <fstream>

namespace nibble::conformance {

Result<ExpectedFailures> ExpectedFailures::read(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    return Status{NIBBLE_IO_ERROR, fmt::format("{}: cannot be read: expected the list of expected failures", path)};
  ExpectedFailures all;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line.front() == '#') continue;
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos || colon == 0 || colon + 2 == line.size()) {
      return Status{NIBBLE_BAD_FILE, fmt::format("{}:{}: '{}': expected 'PATTERN: REASON'", path, number, line)};
    }
    all.lines_.push_back({line.substr(0, colon), line.substr(colon + 2)});
  }
  return all;
}

const std::string* ExpectedFailures::reason(const std::string& test) const {
  const auto found = std::find_if(lines_.begin(), lines_.end(),
                                  [&](const Line& l) { return fnmatch(l.pattern.c_str(), test.c_str(), 0) == 0; });
  return found == lines_.end() ? nullptr : &found->reason;
}

}  // namespace nibble::conformance
