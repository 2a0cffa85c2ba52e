// What a parser hands out: the view of a tensor's bytes.
// Apart from the parsers because both make the same views.
#include "io/parsed_file.h"

#include "io/text.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace nibble::io {

Tensor view_of(std::span<const std::uint8_t> bytes, Format format, std::span<const std::int64_t> shape) {
  constexpr std::size_t kMostDimensions = 4;
  std::array<std::int64_t, kMostDimensions> inner_first{1, 1, 1, 1};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    inner_first[std::min(i, kMostDimensions - 1)] *= shape[shape.size() - 1 - i];
  }
  const std::size_t rank = std::min(std::max<std::size_t>(shape.size(), 1), kMostDimensions);
  // The mapping is read-only and the views are inputs; nibble_tensor has one pointer type for inputs and outputs.
  void* data = const_cast<std::uint8_t*>(bytes.data());
  return make_tensor(data, format, std::span<const std::int64_t>(inner_first).first(rank));
}

Status not_a_weight(std::string_view name, std::string_view type) {
  return failure(NIBBLE_UNSUPPORTED, "tensor {} has type {}, which is not a weight format and cannot be dequantized",
                 quote(name), type);
}

}  // namespace nibble::io
