// GGUF, versions 2 and 3, little-endian.
// Apart from WeightFile because it parses bytes, wherever they lie, and knows no other container.
#ifndef NIBBLE_IO_GGUF_H
#define NIBBLE_IO_GGUF_H

#include "io/parsed_file.h"

#include <cstdint>
#include <span>

namespace nibble::io {

/// True where the bytes begin as a GGUF file of either byte order does.
bool is_gguf(std::span<const std::uint8_t> bytes);

/// The tensors, in the file's order. They borrow from `bytes`. NIBBLE_BAD_FILE where anything breaks the format; a
/// tensor of a type that is not known, or is no weight, is listed with the reason in `usable`.
Result<ParsedFile> parse_gguf(std::span<const std::uint8_t> bytes);

}  // namespace nibble::io

#endif
