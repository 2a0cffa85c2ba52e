// A fuzzer's input as numbers and runs of bytes, never at an end: what is missing reads as zeros.
// Apart from the fuzzers because those that build something from their input read it alike, with every compiler.
#ifndef NIBBLE_TESTS_FUZZ_BYTES_H
#define NIBBLE_TESTS_FUZZ_BYTES_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nibble::fuzz {

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : left_(data, size) {}

  [[nodiscard]] bool empty() const { return left_.empty(); }
  std::uint8_t u8() {
    const auto one = take(1);
    return one.empty() ? std::uint8_t{0} : one[0];
  }
  std::uint16_t u16() {
    const unsigned low = u8();
    return static_cast<std::uint16_t>(low | unsigned{u8()} << 8);
  }
  /// The next `count` bytes, or as many as there are.
  std::span<const std::uint8_t> take(std::size_t count) {
    const auto taken = left_.first(std::min(count, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }
  /// `count` bytes in memory of exactly that size, so that a sanitizer sees a read past them. What is left of the input
  /// comes first; then it repeats, so that a small input fills a large tensor.
  std::vector<std::uint8_t> fill(std::size_t count) {
    std::vector<std::uint8_t> out(count);
    for (std::size_t at = 0; at < count && !left_.empty(); at += left_.size()) {
      std::copy_n(left_.begin(), std::min(left_.size(), count - at), out.begin() + static_cast<std::ptrdiff_t>(at));
    }
    left_ = left_.subspan(left_.size() > count ? count : 0);
    return out;
  }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace nibble::fuzz

#endif
