// Memory of a device as tests need it: images with canaries, copied there and back.
// Apart from the runner because any test that drives a device starts here.
#ifndef NIBBLE_TESTS_SUPPORT_DEVICE_MEMORY_H
#define NIBBLE_TESTS_SUPPORT_DEVICE_MEMORY_H

#include <nibble/nibble.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nibble::test {

/// Bytes that outputs hold before a call: NaN in f32, f16 and bf16, and no value that a kernel would store.
inline constexpr std::uint8_t kPoison[2] = {0xa5, 0xff};
void poison(std::span<std::uint8_t> bytes);

/// A device's memory functions, or the host's own, with a stream of its own (not the default one) where there are
/// streams. Failures throw std::runtime_error: without memory there is no test.
class DeviceMemory {
 public:
  DeviceMemory(const nibble_memory* functions, std::int32_t device);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  [[nodiscard]] void* stream() const { return stream_; }
  [[nodiscard]] bool on_host() const { return functions_ == nullptr; }
  void* allocate(std::size_t bytes);
  void release(void* data);
  void to_device(void* to, std::span<const std::uint8_t> from);
  /// Done when it returns.
  void to_host(std::span<std::uint8_t> to, const void* from);
  void synchronize();

 private:
  const nibble_memory* functions_;
  std::int32_t device_;
  void* stream_ = nullptr;
};

/// Bytes on a device between canaries. The canary in front is always there. The one behind is left out of inputs, so
/// that on a CPU they end where their allocation ends and a sanitizer sees a read beyond.
class GuardedBuffer {
 public:
  static constexpr std::size_t kGuard = 256;
  enum class Behind : std::uint8_t { canary, nothing };

  /// A copy of `content`, `skew` bytes off alignment.
  GuardedBuffer(DeviceMemory& memory, std::span<const std::uint8_t> content, std::size_t skew, Behind behind);
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer();

  /// The start of the allocation; the content begins `offset()` bytes later.
  [[nodiscard]] void* base() const { return data_; }
  [[nodiscard]] std::size_t offset() const { return kGuard + skew_; }
  [[nodiscard]] void* content() const { return static_cast<std::uint8_t*>(data_) + offset(); }
  /// Brings everything back. Empty where canaries stand as they were, else which one is broken.
  [[nodiscard]] std::string fetch(std::vector<std::uint8_t>& content) const;
  /// Whether it still holds exactly these bytes.
  [[nodiscard]] bool holds(std::span<const std::uint8_t> content) const;

 private:
  DeviceMemory& memory_;
  std::size_t skew_, bytes_, total_;
  void* data_;
};

}  // namespace nibble::test

#endif
