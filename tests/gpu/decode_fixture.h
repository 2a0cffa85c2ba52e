// Random weights on host and device, and device memory that frees itself, for the checks and timings of the decoders.
// Apart from both because they decode the same weights.
#ifndef NIBBLE_TESTS_GPU_DECODE_FIXTURE_H
#define NIBBLE_TESTS_GPU_DECODE_FIXTURE_H

#include <nibble/tensor.hpp>

#include <array>
#include <cstdint>
#include <vector>

namespace nibble::decode_check {

/// Prints the error and ends the program where a runtime call fails: nothing after it would mean anything.
void require(int cuda_error, const char* what);
void require_ok(nibble_status status, const char* why, const char* what);

class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::uint64_t bytes);
  DeviceMemory(const void* host, std::uint64_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept : data_(other.data_) { other.data_ = nullptr; }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  [[nodiscard]] std::uint8_t* data() const { return static_cast<std::uint8_t*>(data_); }

 private:
  void* data_ = nullptr;
};

/// What a weight is.
struct Spec {
  Format format = NIBBLE_F32;
  std::array<std::int64_t, 4> shape = {1, 1, 1, 1};
  std::int64_t block_size = 64;   ///< flat formats
  std::int64_t nested_group = 0;  ///< blocks a group; 0: plain
  float nested_offset = 0.013f;
  std::int64_t src_offset = 0;       ///< bytes from a 256-byte boundary
  std::int64_t src_row_padding = 0;  ///< bytes between rows, block and element formats
};

/// Random bits on both sides. Each device tensor ends where its allocation ends, so that a checker sees overruns.
struct TestWeight {
  explicit TestWeight(const Spec& spec, unsigned seed = 1);

  std::vector<std::uint8_t> packed, codes;  // codes: nested statistics' bytes
  std::vector<float> absmax, code, groups;
  std::vector<DeviceMemory> memory;
  Weight host{}, device{};
};

/// Bytes that decoding reads.
std::uint64_t stored_bytes(const Weight& w);

}  // namespace nibble::decode_check

#endif
