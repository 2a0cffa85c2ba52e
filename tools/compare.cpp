// The comparison, and values from their bits.
// Apart from compare.h so that the loop is compiled once for each width.
#include "tools/compare.h"

#include "tools/common.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace nibble::cli {
namespace {

constexpr std::uint32_t infinity_bits(Format type) {
  return type == NIBBLE_F32 ? 0x7f800000u : type == NIBBLE_F16 ? 0x7c00u : 0x7f80u;
}

template <class Word>
Comparison compare_words(std::uint32_t infinity, std::span<const std::uint8_t> expected,
                         std::span<const std::uint8_t> got) {
  constexpr std::uint32_t kMagnitude = std::numeric_limits<Word>::max() >> 1;
  const auto is_nan = [&](Word bits) { return (bits & kMagnitude) > infinity; };
  Comparison c;
  c.values = expected.size() / sizeof(Word);
  for (std::uint64_t i = 0; i < c.values; ++i) {
    Word e, g;
    std::memcpy(&e, expected.data() + i * sizeof e, sizeof e);
    std::memcpy(&g, got.data() + i * sizeof g, sizeof g);
    c.expects_nan = c.expects_nan || is_nan(e);
    if (e == g || (is_nan(e) && is_nan(g))) continue;
    if (c.different++ == 0) {
      c.first = i;
      c.expected_bits = e;
      c.got_bits = g;
    }
  }
  return c;
}

float half_value(std::uint32_t bits) {
  const int exponent = static_cast<int>((bits >> 10) & 31), fraction = static_cast<int>(bits & 1023);
  float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                  : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  if (exponent == 31) {
    magnitude = fraction == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  }
  return (bits & 0x8000u) != 0 ? -magnitude : magnitude;
}

}  // namespace

Comparison compare_values(Format type, std::span<const std::uint8_t> expected, std::span<const std::uint8_t> got) {
  return type == NIBBLE_F32 ? compare_words<std::uint32_t>(infinity_bits(type), expected, got)
                            : compare_words<std::uint16_t>(infinity_bits(type), expected, got);
}

std::string value_text(Format type, std::uint32_t bits) {
  const float value =
      type == NIBBLE_F16 ? half_value(bits) : std::bit_cast<float>(type == NIBBLE_BF16 ? bits << 16 : bits);
  return fmt::format("{} (0x{:0{}x})", value, bits, type == NIBBLE_F32 ? 8 : 4);
}

}  // namespace nibble::cli
