// What stands in for a device in the tests of the GPU products' cut: an engine of plain loops, and the check of sums.
// Apart from gpu_host_device.cpp's decoder and packing because tests name these.
#ifndef NIBBLE_TESTS_UNIT_GPU_HOST_DEVICE_H
#define NIBBLE_TESTS_UNIT_GPU_HOST_DEVICE_H

#include "backends/gpu/gemm.h"
#include "tests/gpu/products_fixture.h"

#include <cstdint>
#include <string>
#include <vector>

namespace nibble::gpu_test {

/// What a BLAS can read: neighbours in one dimension, rows that do not overlap in the other.
bool reads_as_blas(const gpu::Operand& o, std::int64_t outer, std::int64_t k);

/// A GemmEngine's run: sums in binary64, rounded to f32. Overwrites all its scratch.
nibble_status run_plainly(const gpu::GemmEngine& engine, const gpu::Gemm& g, gpu::Scratch scratch, gpu::Stream,
                          nibble_text*);

/// dst's elements are within `relative` of the sums' magnitudes and a rounding of dst's type; its padding is untouched.
void expect_sums(const Fixture& f, const std::vector<Expected>& expected, double relative, const std::string& what);

/// A poisoned workspace of exactly so many bytes, aligned as a call may expect, with a canary behind it.
class Workspace {
 public:
  explicit Workspace(std::uint64_t bytes);
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] bool canary_lives() const;

 private:
  std::vector<std::uint8_t> memory_;
  std::uint8_t* data_;
  std::uint64_t bytes_;
};

}  // namespace nibble::gpu_test

#endif
