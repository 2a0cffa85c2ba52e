// What a parser hands out: the tensors of a file, as views into its bytes.
// Apart from the parsers because both fill it, and from WeightFile because fuzzers and tests parse bytes without a
// file.
#ifndef NIBBLE_IO_PARSED_FILE_H
#define NIBBLE_IO_PARSED_FILE_H

#include <nibble/io.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::io {

struct ParsedFile {
  std::string kind;  ///< "GGUF v3", "safetensors"
  std::vector<FileTensor> tensors;
  /// Copies of what lies unaligned in the file; tensors refer to them.
  std::vector<std::unique_ptr<float[]>> copies;
};

/// A view of `bytes` as a contiguous tensor of `shape`, outermost first. A scalar becomes one value; of more than four
/// dimensions the outer ones become one. The shape has passed element_product.
Tensor view_of(std::span<const std::uint8_t> bytes, Format format, std::span<const std::int64_t> shape);

/// The refusal to dequantize tensor `name`, whose elements of type `type` are no weights.
Status not_a_weight(std::string_view name, std::string_view type);

}  // namespace nibble::io

#endif
