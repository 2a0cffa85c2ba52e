// A case run on every row that takes it, held against sums in binary64, and the tally of it all.
// Apart from the cases so that their lists read without the arithmetic of bounds.
#ifndef NIBBLE_TESTS_GPU_PRODUCTS_COMPARE_H
#define NIBBLE_TESTS_GPU_PRODUCTS_COMPARE_H

#include "tests/gpu/products_device.h"
#include "tests/gpu/products_fixture.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace nibble::gpu_test {

struct Tally {
  std::int64_t calls = 0, failures = 0;
  std::map<std::string, double> worst_bound, worst_nmse;  ///< by row
};
/// Of this process.
extern Tally tally;

/// Counts a failure and prints the first few.
void report(const Case& c, const char* row, const std::string& what);
/// Reports a status, a broken canary, a written padding byte, an element beyond its bound, or an NMSE beyond its class.
void compare(const Case& c, const nibble_kernel& row, const Fixture& f, const std::vector<Expected>& expected,
             const Outcome& got);
/// Every row that takes the case.
void run(OnDevice& device, const Case& c);

}  // namespace nibble::gpu_test

#endif
