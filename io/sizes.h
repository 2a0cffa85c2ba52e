// Sizes that files claim, multiplied with a check.
// Apart from the parsers because GGUF, safetensors, states and writers all multiply shapes that nobody has vouched for.
#ifndef NIBBLE_IO_SIZES_H
#define NIBBLE_IO_SIZES_H

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace nibble::io {

/// Sizes stay below 2^63, so that they also fit the signed dimensions and strides of a tensor.
inline constexpr std::uint64_t kMostBytes = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

inline std::optional<std::uint64_t> checked_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > kMostBytes) return std::nullopt;
  return product;
}

/// Product of the dimensions that are not 0, which strides are made of; none where one is negative or the product needs
/// more than 63 bits.
inline std::optional<std::uint64_t> stride_product(std::span<const std::int64_t> shape) {
  std::uint64_t product = 1;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    const auto next = checked_product(product, dimension == 0 ? 1u : static_cast<std::uint64_t>(dimension));
    if (!next) return std::nullopt;
    product = *next;
  }
  return product;
}

/// Product of the dimensions; none where stride_product has none: an empty tensor's strides must fit as well.
inline std::optional<std::uint64_t> element_product(std::span<const std::int64_t> shape) {
  const auto product = stride_product(shape);
  return product && std::find(shape.begin(), shape.end(), 0) != shape.end() ? std::uint64_t{0} : product;
}

inline std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace nibble::io

#endif
