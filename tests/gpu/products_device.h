// A fixture's operands on a device, and one call of one row there with poison and canaries around it.
// Apart from the checks because the timings use the same buffers.
#ifndef NIBBLE_TESTS_GPU_PRODUCTS_DEVICE_H
#define NIBBLE_TESTS_GPU_PRODUCTS_DEVICE_H

#include "tests/gpu/products_fixture.h"

#include <nibble/abi.h>

#include <cstdint>
#include <string>
#include <vector>

namespace nibble::gpu_test {

/// Ends the program with the runtime's words: a check cannot go on without its memory.
void must(int cuda_error, const char* what);

/// Device memory that only grows.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  std::uint8_t* at_least(std::uint64_t bytes);
  [[nodiscard]] std::uint8_t* data() const { return data_; }

 private:
  std::uint8_t* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// The outcome of a call: a status with its line, and what dst's memory holds.
struct Outcome {
  nibble_status status = NIBBLE_OK;
  std::string why;
  std::vector<std::uint8_t> dst;
  std::string broken;  ///< which canary; empty: none
  std::uint64_t workspace_bytes = 0;
};

/// Operands of one request on one device.
class OnDevice {
 public:
  explicit OnDevice(int device = 0);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  void upload(const Fixture& fixture);
  void upload_dst(const Fixture& fixture);
  /// With device pointers, after upload.
  nibble_request request{};
  void* stream = nullptr;
  const nibble_caps& caps() const { return caps_; }

  /// Makes the workspace's memory at least this large now.
  void reserve_workspace(std::uint64_t bytes) { workspace_.at_least(bytes); }
  /// Whether the row takes the request.
  bool supports(const nibble_kernel& row) const;
  /// Poisons the workspace, runs, and reads dst back. `least`: in minimum_bytes.
  Outcome call(const nibble_kernel& row, const Fixture& fixture, bool least);
  /// The same through a captured graph that is replayed twice; dst is set anew between the replays.
  Outcome captured(const nibble_kernel& row, const Fixture& fixture);

 private:
  /// query, poison and canaries.
  Outcome prepare(const nibble_kernel& row, const Fixture& fixture, bool least);
  /// With device 0 current, whichever device the tensors are on.
  void execute(const nibble_kernel& row, Outcome& out);
  void read_back(Outcome& out, std::size_t dst_bytes);
  Tensor placed(const Tensor& t, const std::vector<std::uint8_t>& bytes, DeviceBuffer& buffer);

  int device_;
  nibble_caps caps_{};
  DeviceBuffer packed_, absmax_, nested_absmax_, nested_code_, code_, src1_, bias_, dst_, workspace_;
};

}  // namespace nibble::gpu_test

#endif
