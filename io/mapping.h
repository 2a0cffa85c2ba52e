// A file mapped for reading.
// Apart from the parsers because they work on bytes, wherever those lie.
#ifndef NIBBLE_IO_MAPPING_H
#define NIBBLE_IO_MAPPING_H

#include <nibble/status.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace nibble::io {

/// Move-only. The bytes stay valid while the mapping lives, even where the file is replaced or removed meanwhile; a
/// file that someone shortens in place while it is mapped ends the process with SIGBUS, as with every mapping.
class Mapping {
 public:
  /// Refuses what is missing, unreadable, not a regular file or empty, with one line that names the path.
  static Result<Mapping> open(const std::string& path);

  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  [[nodiscard]] std::span<const std::uint8_t> bytes() const { return {data_, size_}; }

 private:
  Mapping(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace nibble::io

#endif
