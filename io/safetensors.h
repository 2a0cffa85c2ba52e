// safetensors: the container, and the weights that it holds.
// Apart from WeightFile because it parses bytes, wherever they lie, and knows no other container.
#ifndef NIBBLE_IO_SAFETENSORS_H
#define NIBBLE_IO_SAFETENSORS_H

#include "io/parsed_file.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nibble::io {

/// A tensor as the container has it.
struct StoredTensor {
  std::string name;
  std::string dtype;                ///< as the header writes it, known or not
  std::vector<std::int64_t> shape;  ///< outermost first
  std::span<const std::uint8_t> data;
};

/// True where the bytes can be the begin of a safetensors file: a length, then a JSON object.
bool is_safetensors(std::span<const std::uint8_t> bytes);

/// The stored tensors in the header's order; they borrow from `bytes`. NIBBLE_BAD_FILE where anything breaks the
/// format.
Result<std::vector<StoredTensor>> read_safetensors(std::span<const std::uint8_t> bytes);

/// The same as weights: bitsandbytes states assembled, each other tensor as it stands.
Result<ParsedFile> parse_safetensors(std::span<const std::uint8_t> bytes);

}  // namespace nibble::io

#endif
