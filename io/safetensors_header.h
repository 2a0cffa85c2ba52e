// The JSON header of safetensors as a list of entries.
// Apart from safetensors.h because this half knows JSON and no offsets, and the other half the reverse.
#ifndef NIBBLE_IO_SAFETENSORS_HEADER_H
#define NIBBLE_IO_SAFETENSORS_HEADER_H

#include <nibble/status.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::io {

/// What the header says of one tensor. Types and presence are checked, the numbers are not.
struct HeaderEntry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::uint64_t> offsets;  ///< two
};

/// The key of the header that holds no tensor.
inline constexpr std::string_view kMetadataKey = "__metadata__";

/// Reads the header event by event: memory is a small multiple of the text, whatever the text is.
Result<std::vector<HeaderEntry>> parse_safetensors_header(std::string_view text);

}  // namespace nibble::io

#endif
