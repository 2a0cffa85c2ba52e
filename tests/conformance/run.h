// Running one problem on one row of one device, with everything checked that a call may break.
// Apart from the suite so that it knows nothing of test names, counts and expected failures.
#ifndef NIBBLE_TESTS_CONFORMANCE_RUN_H
#define NIBBLE_TESTS_CONFORMANCE_RUN_H

#include <nibble/nibble.hpp>

#include "tests/conformance/problem.h"
#include "tests/support/device_memory.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::conformance {

/// A kernel's row on a device.
struct RowOnDevice {
  const Registry* registry = nullptr;
  const nibble_kernel* kernel = nullptr;
  std::string backend;
  Device device;
  test::DeviceMemory* memory = nullptr;
  std::string label;  ///< the kernel's name; with "@1" on the second device
};

struct RunOptions {
  enum class Workspace : std::uint8_t {
    best,     ///< the caller's, as large as the plan would like it
    minimum,  ///< the caller's, exactly minimum_bytes
    limited,  ///< the library's, with a limit of minimum_bytes
    library   ///< the library's
  };
  Workspace workspace = Workspace::best;
  std::uint64_t limit_bytes = std::uint64_t{64} << 20;  ///< the request's; small, since it is poisoned before each run
  std::uint32_t threads = 0;
  int runs = 1;  ///< each must give the first one's bits
};

/// What became of a case.
struct Verdict {
  enum class Kind : std::uint8_t { executed, unsupported, failed };
  Kind kind = Kind::executed;
  std::string text;                 ///< the reason of a refusal, or what is wrong
  std::vector<std::uint8_t> dst{};  ///< the image after the call
  nibble_request refused{};         ///< what was refused: to ask about, not to run
};

/// Plans, places inputs and output between canaries, runs, and checks: the values, dst's padding, the canaries, the
/// caller's workspace's end, and that no input changed.
Verdict run_problem(const RowOnDevice& row, const Problem& problem, const RunOptions& options = {});

}  // namespace nibble::conformance

#endif
