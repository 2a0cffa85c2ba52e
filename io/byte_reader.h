// A cursor over bytes that nobody has vouched for: little-endian numbers and strings, each read checked.
// Apart from the GGUF parser so that no parser computes an address itself.
#ifndef NIBBLE_IO_BYTE_READER_H
#define NIBBLE_IO_BYTE_READER_H

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace nibble::io {

/// Reads move forward only where the bytes are there; a read that returns false leaves the cursor where it was.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  [[nodiscard]] std::uint64_t position() const { return position_; }
  [[nodiscard]] std::uint64_t remaining() const { return bytes_.size() - position_; }

  template <std::unsigned_integral T>
  [[nodiscard]] bool read(T& out) {
    if (remaining() < sizeof(T)) return false;
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      value = static_cast<T>(value | (static_cast<T>(bytes_[position_ + i]) << (8 * i)));
    position_ += sizeof(T);
    out = value;
    return true;
  }

  /// A 64-bit length and that many bytes. The view borrows from the bytes.
  [[nodiscard]] bool read_string(std::string_view& out) {
    const std::size_t start = position_;
    std::uint64_t length = 0;
    if (!read(length) || length > remaining()) {
      position_ = start;
      return false;
    }
    out = {reinterpret_cast<const char*>(bytes_.data() + position_), static_cast<std::size_t>(length)};
    position_ += static_cast<std::size_t>(length);
    return true;
  }

  [[nodiscard]] bool skip(std::uint64_t count) {
    if (count > remaining()) return false;
    position_ += static_cast<std::size_t>(count);
    return true;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t position_ = 0;
};

}  // namespace nibble::io

#endif
