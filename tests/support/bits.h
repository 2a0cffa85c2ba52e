// Elements as bit patterns, and tensors' places in memory: what comparisons are made of.
// Apart from the cases because every operation's check asks these questions.
#ifndef NIBBLE_TESTS_SUPPORT_BITS_H
#define NIBBLE_TESTS_SUPPORT_BITS_H

#include <nibble/tensor.hpp>

#include <cstdint>
#include <string>

namespace nibble::test {

/// The 32 or 16 bits of an f32, f16 or bf16 element.
std::uint32_t element_bits(Format type, const std::uint8_t* at);
void put_element_bits(Format type, std::uint8_t* at, std::uint32_t bits);
/// The bits of x rounded once to `type`.
std::uint32_t rounded_bits(Format type, float x);
bool is_nan(Format type, std::uint32_t bits);
/// Equal, or both NaN. +0 and -0 differ.
bool same_bits(Format type, std::uint32_t a, std::uint32_t b);
/// "0x3c00 (1)"
std::string show(Format type, std::uint32_t bits);

std::int64_t element_bytes(Format type);
/// Byte of element (i0, i1, i2, i3) from the first one.
std::int64_t element_offset(const Tensor& t, const std::int64_t (&i)[4]);
/// Bytes from the first element to past the last one; of a flat format, all its bytes.
std::size_t extent_bytes(const Tensor& t);

/// Calls f(logical index, byte offset) for every element in logical order, innermost first.
template <class F>
void for_each_element(const Tensor& t, F&& f) {
  std::int64_t index = 0, i[4];
  for (i[3] = 0; i[3] < t.shape[3]; ++i[3]) {
    for (i[2] = 0; i[2] < t.shape[2]; ++i[2]) {
      for (i[1] = 0; i[1] < t.shape[1]; ++i[1]) {
        i[0] = 0;
        std::int64_t at = element_offset(t, i);
        for (; i[0] < t.shape[0]; ++i[0], at += t.byte_stride[0]) f(static_cast<std::size_t>(index++), at);
      }
    }
  }
}

/// "[3, 2, 0, 0]" for a logical index.
std::string place_text(const Tensor& t, std::size_t index);

}  // namespace nibble::test

#endif
