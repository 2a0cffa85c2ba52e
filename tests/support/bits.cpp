// The questions of bits.h answered.
// Apart from the header so that tests compile it once.
#include "tests/support/bits.h"

#include "core/decode.h"

#include <fmt/format.h>

#include <cstring>

namespace nibble::test {

std::uint32_t element_bits(Format type, const std::uint8_t* at) {
  return type == NIBBLE_F32 ? load_u32(at) : load_u16(at);
}

void put_element_bits(Format type, std::uint8_t* at, std::uint32_t bits) {
  for (std::int64_t i = 0; i < element_bytes(type); ++i) at[i] = static_cast<std::uint8_t>(bits >> 8 * i);
}

std::uint32_t rounded_bits(Format type, float x) {
  std::uint8_t bytes[4];
  store_element(type, bytes, x);
  return element_bits(type, bytes);
}

bool is_nan(Format type, std::uint32_t bits) {
  if (type == NIBBLE_F32) return (bits & 0x7fffffffu) > 0x7f800000u;
  return (bits & 0x7fffu) > (type == NIBBLE_F16 ? 0x7c00u : 0x7f80u);
}

bool same_bits(Format type, std::uint32_t a, std::uint32_t b) { return a == b || (is_nan(type, a) && is_nan(type, b)); }

std::string show(Format type, std::uint32_t bits) {
  std::uint8_t bytes[4];
  put_element_bits(type, bytes, bits);
  return fmt::format("0x{:0{}x} ({})", bits, type == NIBBLE_F32 ? 8 : 4, load_element(type, bytes));
}

std::int64_t element_bytes(Format type) { return type == NIBBLE_F32 ? 4 : 2; }

std::int64_t element_offset(const Tensor& t, const std::int64_t (&i)[4]) {
  std::int64_t at = 0;
  for (int d = 0; d < 4; ++d) at += i[d] * t.byte_stride[d];
  return at;
}

std::size_t extent_bytes(const Tensor& t) {
  const FormatInfo& info = *find_format(t.format);
  if (info.kind == FormatInfo::Kind::flat) return storage_bytes(t.format, t.shape).value();
  if (element_count(t) == 0) return 0;
  const std::int64_t last[4] = {t.shape[0] / info.block_values - 1, t.shape[1] - 1, t.shape[2] - 1, t.shape[3] - 1};
  return static_cast<std::size_t>(element_offset(t, last) + info.block_bytes);
}

std::string place_text(const Tensor& t, std::size_t index) {
  auto rest = static_cast<std::int64_t>(index);
  std::int64_t i[4];
  for (int d = 0; d < 4; ++d) {
    i[d] = rest % t.shape[d];
    rest /= t.shape[d];
  }
  return fmt::format("[{}, {}, {}, {}]", i[0], i[1], i[2], i[3]);
}

}  // namespace nibble::test
