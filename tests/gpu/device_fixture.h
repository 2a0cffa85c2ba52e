// Weights and buffers on a CUDA or HIP device for tests that drive libnibble through its public interface.
// Apart from the tests because sizes, streams and memory are tried on the same operands.
#ifndef NIBBLE_TESTS_GPU_DEVICE_FIXTURE_H
#define NIBBLE_TESTS_GPU_DEVICE_FIXTURE_H

#include <nibble/nibble.hpp>

#include "tests/support/weights.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace nibble::device_test {

/// The back end under test, "cuda" or "hip".
inline constexpr std::string_view kBackend = NIBBLE_TEST_BACKEND;
inline constexpr nibble_device_type kDeviceType = kBackend == "hip" ? NIBBLE_DEVICE_HIP : NIBBLE_DEVICE_CUDA;

/// Throws std::runtime_error with the runtime's words.
void must(int error, const char* what);

/// The registry of all tests, made at its first use; none of them may be the first but the one about forking.
const Registry& registry();

/// Device memory that frees itself.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  explicit Buffer(std::span<const std::uint8_t> bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;

  [[nodiscard]] std::uint8_t* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  /// NaN in every type, and no value that a kernel would store.
  void poison() const;
  void upload(std::span<const std::uint8_t> bytes) const;
  [[nodiscard]] std::vector<std::uint8_t> download(std::size_t offset, std::size_t bytes) const;
  [[nodiscard]] std::vector<std::uint8_t> download() const { return download(0, bytes_); }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t bytes_;
};

/// A stream that does not wait for the default one.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] void* get() const { return stream_; }
  void wait() const;

 private:
  void* stream_ = nullptr;
};

/// A weight on host and device, with the same bytes.
struct PlacedWeight {
  PlacedWeight(test::WeightKind kind, const test::WeightLayout& layout, const char* name);
  test::HostWeight host;
  std::vector<Buffer> memory;
  Weight weight{};  ///< on the device
};

/// `t` with its data on device 0.
Tensor on_device(Tensor t, void* data);
/// Random numbers of deviation 1.
std::vector<float> numbers(std::size_t count, const char* name);
std::span<const std::uint8_t> bytes_of(std::span<const float> values);

}  // namespace nibble::device_test

#endif
