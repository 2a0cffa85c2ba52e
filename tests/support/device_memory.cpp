// Allocation, copies and canaries.
// Apart from the header so that tests compile it once.
#include "tests/support/device_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace nibble::test {
namespace {

constexpr std::uint8_t kCanary = 0xc5;
constexpr std::size_t kAlignment = 256;

/// Calls one of the device's functions with a place for its reason.
struct Attempt {
  char why[512] = "";
  nibble_status status;
  template <class Call>
  explicit Attempt(Call&& call) {
    nibble_text text{sizeof text, 0, sizeof why, why};
    status = call(&text);
  }
};
template <class Call>
void must(const char* what, Call&& call) {
  if (const Attempt a(call); a.status != NIBBLE_OK)
    throw std::runtime_error(fmt::format("device memory: {} failed, {}: {}", what, status_name(a.status), a.why));
}
/// Where nothing may be thrown: what fails here fails the run by a line on stderr and the next call's status.
template <class Call>
void should(const char* what, Call&& call) {
  const Attempt a(call);
  if (a.status == NIBBLE_OK) return;
  const std::string_view name = status_name(a.status);
  std::fprintf(stderr, "device memory: %s failed, %.*s: %s\n", what, static_cast<int>(name.size()), name.data(), a.why);
}

}  // namespace

void poison(std::span<std::uint8_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = kPoison[i % 2];
}

DeviceMemory::DeviceMemory(const nibble_memory* functions, std::int32_t device)
    : functions_(functions), device_(device) {
  if (functions_ == nullptr) return;
  must("stream_create", [&](nibble_text* why) { return functions_->stream_create(device_, &stream_, why); });
}

DeviceMemory::~DeviceMemory() {
  if (functions_ == nullptr) return;
  should("stream_destroy", [&](nibble_text* why) { return functions_->stream_destroy(device_, stream_, why); });
}

void* DeviceMemory::allocate(std::size_t bytes) {
  void* data = nullptr;
  if (functions_ == nullptr) {
    if (posix_memalign(&data, kAlignment, std::max<std::size_t>(bytes, 1)) != 0) throw std::bad_alloc();
    return data;
  }
  must("allocate", [&](nibble_text* why) { return functions_->allocate(device_, bytes, stream_, &data, why); });
  return data;
}

void DeviceMemory::release(void* data) {
  if (functions_ == nullptr) {
    std::free(data);
  } else {
    should("release", [&](nibble_text* why) { return functions_->release(device_, data, stream_, why); });
  }
}

void DeviceMemory::to_device(void* to, std::span<const std::uint8_t> from) {
  if (from.empty()) return;
  if (functions_ == nullptr) {
    std::memcpy(to, from.data(), from.size());
  } else {
    must("to_device",
         [&](nibble_text* why) { return functions_->to_device(device_, to, from.data(), from.size(), stream_, why); });
    synchronize();  // the caller's bytes may go
  }
}

void DeviceMemory::to_host(std::span<std::uint8_t> to, const void* from) {
  if (to.empty()) return;
  if (functions_ == nullptr) {
    std::memcpy(to.data(), from, to.size());
  } else {
    must("to_host",
         [&](nibble_text* why) { return functions_->to_host(device_, to.data(), from, to.size(), stream_, why); });
  }
}

void DeviceMemory::synchronize() {
  if (functions_ == nullptr) return;
  must("synchronize", [&](nibble_text* why) { return functions_->synchronize(device_, stream_, why); });
}

GuardedBuffer::GuardedBuffer(DeviceMemory& memory, std::span<const std::uint8_t> content, std::size_t skew,
                             Behind behind)
    : memory_(memory),
      skew_(skew),
      bytes_(content.size()),
      total_(kGuard + skew + content.size() + (behind == Behind::canary ? kGuard : 0)),
      data_(memory.allocate(total_)) {
  std::vector<std::uint8_t> image(total_, kCanary);
  std::copy(content.begin(), content.end(), image.begin() + static_cast<std::ptrdiff_t>(offset()));
  memory_.to_device(data_, image);
}

GuardedBuffer::~GuardedBuffer() { memory_.release(data_); }

std::string GuardedBuffer::fetch(std::vector<std::uint8_t>& content) const {
  std::vector<std::uint8_t> image(total_);
  memory_.to_host(image, data_);
  const auto begin = image.begin() + static_cast<std::ptrdiff_t>(offset()),
             end = begin + static_cast<std::ptrdiff_t>(bytes_);
  content.assign(begin, end);
  const auto broken = [](std::uint8_t byte) { return byte != kCanary; };
  if (std::any_of(image.begin(), begin, broken)) return "was written in front of its first byte";
  if (const auto at = std::find_if(end, image.end(), broken); at != image.end()) {
    return fmt::format("was written {} bytes behind its last byte", at - end + 1);
  }
  return {};
}

bool GuardedBuffer::holds(std::span<const std::uint8_t> content) const {
  if (memory_.on_host()) return content.empty() || std::memcmp(this->content(), content.data(), content.size()) == 0;
  std::vector<std::uint8_t> now(content.size());
  memory_.to_host(now, this->content());
  return std::equal(now.begin(), now.end(), content.begin());
}

}  // namespace nibble::test
