// Tensors, weights, formats and devices as C++ sees them: the C structs of abi.h with a few helpers.
// Apart from nibble.hpp because io hands out weights and knows no registry.
#ifndef NIBBLE_TENSOR_HPP
#define NIBBLE_TENSOR_HPP

#include <nibble/abi.h>
#include <nibble/status.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace nibble {

using Tensor = nibble_tensor;
using Weight = nibble_weight;
using Format = nibble_format;

/// Where memory lives. `{NIBBLE_DEVICE_CUDA, 1}` is the second CUDA device.
struct Device {
  nibble_device_type type = NIBBLE_DEVICE_CPU;
  std::int32_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

/// What a stored format is made of.
struct FormatInfo {
  enum class Kind : std::uint8_t {
    element,      ///< one value an element, can be a result: f32, f16, bf16
    block,        ///< GGUF blocks, rows of whole blocks
    flat,         ///< bitsandbytes: codes over the whole tensor, statistics beside it
    not_a_weight  ///< i8, i16, i32, i64, f64, u8: may lie in a file, cannot be dequantized
  };
  Format id = 0;
  std::string_view name;           ///< lower case: "q4_k", "nf4"
  std::uint32_t block_values = 1;  ///< values in a block
  std::uint32_t block_bytes = 0;   ///< bytes of a block; for nf4 and fp4 a block is two values in a byte
  Kind kind = Kind::element;
};

/// Every format that nibble knows, weights first. Static data.
NIBBLE_EXPORT std::span<const FormatInfo> formats();
/// By number or by name (any case); nullptr if unknown. Static data.
NIBBLE_EXPORT const FormatInfo* find_format(Format id);
NIBBLE_EXPORT const FormatInfo* find_format(std::string_view name);
/// The same memory with dimensions 0 and 1 exchanged: what lies as [out, tokens] seen as [tokens, out].
inline Tensor transposed(Tensor t) {
  std::swap(t.shape[0], t.shape[1]);
  std::swap(t.byte_stride[0], t.byte_stride[1]);
  if (t.rank < 2) t.rank = 2;
  return t;
}
/// "q4_k"; "format 99" for a number that is not known.
NIBBLE_EXPORT std::string format_name(Format id);

/// "cpu", "cuda:0", "hip:1".
NIBBLE_EXPORT std::string device_name(Device device);

/// A contiguous view of `shape` (innermost first, 1 to 4 dimensions) at `data`. The strides follow from the format:
/// for a block format a row is shape[0] / block_values blocks. Borrows `data`. A rank beyond 4
/// gives an absent tensor (rank 0); an unknown format, a dimension below 0, a row that is not whole blocks and bytes
/// beyond 63 bits give strides of -1: every operation refuses either and names the cause.
NIBBLE_EXPORT Tensor make_tensor(void* data, Format format, std::span<const std::int64_t> shape, Device device = {});
NIBBLE_EXPORT Tensor make_tensor(void* data, Format format, std::initializer_list<std::int64_t> shape,
                                 Device device = {});

/// Number of values, the product of the dimensions. The shape must have passed validation or be known to be small.
inline std::int64_t element_count(const Tensor& t) { return t.shape[0] * t.shape[1] * t.shape[2] * t.shape[3]; }

/// Bytes that a contiguous tensor of `format` and `shape` takes, or a status where that does not fit 63 bits, a
/// dimension is negative, or a row is not whole blocks.
NIBBLE_EXPORT Result<std::uint64_t> storage_bytes(Format format, std::span<const std::int64_t> shape);

inline bool present(const Tensor& t) { return t.rank != 0; }
inline Device device_of(const Tensor& t) { return {t.device_type, t.device_index}; }
inline std::uint8_t* bytes_of(const Tensor& t) { return static_cast<std::uint8_t*>(t.data) + t.byte_offset; }

/// A GGUF weight, or a plain f32, f16 or bf16 matrix used as one.
inline Weight make_weight(const Tensor& packed) {
  Weight w{};
  w.packed = packed;
  return w;
}
/// True where the weight's statistics are compressed themselves.
inline bool nested(const Weight& w) { return present(w.nested_absmax); }

}  // namespace nibble

#endif
