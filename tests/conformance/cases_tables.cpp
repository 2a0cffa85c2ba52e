// Exhaustive tables: every scale with every code, against values worked out here from the formats' definition.
// Apart from the other cases because these do not trust the reference decoder, nor core's conversions.
#include "tests/conformance/suite.h"
#include "tests/support/bits.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

namespace nibble::conformance {
namespace {

/// An IEEE half's value, from its definition.
float half_value(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31u), fraction = static_cast<int>(bits & 1023u);
  const float sign = (bits & 0x8000u) != 0 ? -1.0f : 1.0f;
  if (exponent == 31)
    return fraction != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  return sign *
         static_cast<float>(exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

/// x to a binary format of `precision` significant bits and `exponent_bits`, to nearest even: the bits.
std::uint32_t narrow(float x, int precision, int exponent_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1, stored = precision - 1;
  const std::uint32_t sign = std::signbit(x) ? 1u << (stored + exponent_bits) : 0u;
  const std::uint32_t infinity = ((1u << exponent_bits) - 1u) << stored;
  if (std::isnan(x)) return infinity | 1u << (stored - 1);
  const double magnitude = std::abs(static_cast<double>(x));
  if (std::isinf(x)) return sign | infinity;
  if (magnitude < std::ldexp(1.0, 1 - bias)) {  // subnormal; rounding up to the least normal gives its bits
    return sign | static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, bias - 1 + stored)));
  }
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude < 2^exponent
  const auto significand = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, precision - exponent)));
  const std::uint32_t bits =
      (static_cast<std::uint32_t>(exponent - 1 + bias) << stored) + (significand - (1u << stored));
  return sign | std::min(bits, infinity);
}

std::uint32_t to_type(Format type, float x) {
  if (type == NIBBLE_F32) return std::bit_cast<std::uint32_t>(x);
  return type == NIBBLE_F16 ? narrow(x, 11, 5) : narrow(x, 8, 8);
}

/// A table: a weight and its values in binary32, in logical order.
struct Table {
  test::HostWeight weight;
  std::vector<float> values;
};

void put_u16(std::uint8_t* at, std::uint32_t bits) {
  at[0] = static_cast<std::uint8_t>(bits);
  at[1] = static_cast<std::uint8_t>(bits >> 8);
}

Table empty_table(Format format, std::int64_t columns, std::int64_t rows, std::size_t bytes) {
  Table t;
  t.weight.packed.resize(bytes);
  t.weight.weight = make_weight(make_tensor(t.weight.packed.data(), format, {columns, rows}));
  t.values.reserve(static_cast<std::size_t>(columns * rows));
  return t;
}

/// 65536 half scales, each with all 16 codes in low and in high nibbles.
Table q4_0_table() {
  Table t = empty_table(NIBBLE_Q4_0, 32 * 256, 256, 65536 * 18);
  for (std::uint32_t scale = 0; scale < 65536; ++scale) {
    std::uint8_t* block = t.weight.packed.data() + 18 * scale;
    put_u16(block, scale);
    for (std::uint32_t j = 0; j < 16; ++j) block[2 + j] = static_cast<std::uint8_t>(j | (15 - j) << 4);
    for (int j = 0; j < 32; ++j) t.values.push_back(static_cast<float>((j < 16 ? j : 31 - j) - 8) * half_value(scale));
  }
  return t;
}

/// 65536 half scales, with 32 of the 256 codes each, others from scale to scale.
Table q8_0_table() {
  Table t = empty_table(NIBBLE_Q8_0, 32 * 256, 256, 65536 * 34);
  for (std::uint32_t scale = 0; scale < 65536; ++scale) {
    std::uint8_t* block = t.weight.packed.data() + 34 * scale;
    put_u16(block, scale);
    for (std::uint32_t j = 0; j < 32; ++j) {
      const auto code = static_cast<std::uint8_t>(8 * j + scale);
      block[2 + j] = code;
      t.values.push_back(static_cast<float>(code < 128 ? code : code - 256) * half_value(scale));
    }
  }
  return t;
}

/// Twice the value of an E2M1 code.
int twice_e2m1(int code) {
  constexpr int kTwice[] = {0, 1, 2, 3, 4, 6, 8, 12};
  return (code & 8) != 0 ? -kTwice[code & 7] : kTwice[code & 7];
}

/// 256 scale bytes x 16 codes.
Table mxfp4_table() {
  Table t = empty_table(NIBBLE_MXFP4, 32 * 16, 16, 256 * 17);
  for (int scale = 0; scale < 256; ++scale) {
    std::uint8_t* block = t.weight.packed.data() + 17 * scale;
    block[0] = static_cast<std::uint8_t>(scale);
    for (int j = 0; j < 16; ++j) block[1 + j] = static_cast<std::uint8_t>(j | (15 - j) << 4);
    for (int j = 0; j < 32; ++j) {
      t.values.push_back(static_cast<float>(twice_e2m1(j < 16 ? j : 31 - j)) *
                         static_cast<float>(std::ldexp(1.0, scale - 128)));
    }
  }
  return t;
}

float half_of_unsigned_e4m3(int byte) {
  if (byte == 0 || byte == 0x7f) return 0.0f;
  const int exponent = byte >> 3 & 15, mantissa = byte & 7;
  return static_cast<float>(exponent == 0 ? std::ldexp(mantissa, -9 - 1)
                                          : std::ldexp(8 + mantissa, exponent - 7 - 3 - 1));
}

/// 256 scale bytes x 16 codes: a sub-block has 16 values, low nibbles first.
Table nvfp4_table() {
  Table t = empty_table(NIBBLE_NVFP4, 64 * 8, 8, 64 * 36);
  for (int i = 0; i < 64; ++i) {
    std::uint8_t* block = t.weight.packed.data() + 36 * i;
    for (int s = 0; s < 4; ++s) {
      block[s] = static_cast<std::uint8_t>(4 * i + s);
      for (int j = 0; j < 8; ++j) block[4 + 8 * s + j] = static_cast<std::uint8_t>(j | (j + 8) << 4);
      for (int j = 0; j < 16; ++j)
        t.values.push_back(static_cast<float>(twice_e2m1(j)) * half_of_unsigned_e4m3(4 * i + s));
    }
  }
  return t;
}

constexpr float kNf4[] = {-1.0f,
                          -0.6961928009986877f,
                          -0.5250730514526367f,
                          -0.39491748809814453f,
                          -0.28444138169288635f,
                          -0.18477343022823334f,
                          -0.09105003625154495f,
                          0.0f,
                          0.07958029955625534f,
                          0.16093020141124725f,
                          0.24611230194568634f,
                          0.33791524171829224f,
                          0.44070982933044434f,
                          0.5626170039176941f,
                          0.7229568362236023f,
                          1.0f};
constexpr float kFp4[] = {0.0f,  0.005208333333f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
                          -0.0f, -0.005208333333f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};

/// 256 scale codes x 16 codes, compressed statistics: two rounded operations for the scale.
Table nested_table(Format format, float offset, float group = 0.7391f) {
  Table t = empty_table(format, 32 * 256, 1, 16 * 256);
  test::HostWeight& h = t.weight;
  h.absmax.resize(256);
  h.nested_code.resize(256 * 4);
  h.nested_absmax.resize(4);
  std::memcpy(h.nested_absmax.data(), &group, sizeof group);
  for (int c = 0; c < 256; ++c) {
    h.absmax[static_cast<std::size_t>(c)] = static_cast<std::uint8_t>(c);
    const float code = static_cast<float>(c * c * c) / 16581375.0f - (c % 2 == 0 ? 0.0f : 1.0f);
    std::memcpy(h.nested_code.data() + 4 * static_cast<std::ptrdiff_t>(c), &code, sizeof code);
    const float product = code * group;
    const float scale = product + offset;
    for (int j = 0; j < 16; ++j)
      h.packed[static_cast<std::size_t>(16 * c + j)] = static_cast<std::uint8_t>(j << 4 | (15 - j));
    for (int j = 0; j < 32; ++j) {
      const int q = j % 2 == 0 ? j / 2 : 15 - j / 2;
      t.values.push_back((format == NIBBLE_NF4 ? kNf4 : kFp4)[q] * scale);
    }
  }
  Weight& w = h.weight;
  w.block_size = 32;
  w.nested_block_size = 256;
  w.nested_offset = offset;
  w.absmax = make_tensor(h.absmax.data(), NIBBLE_U8, {256});
  w.nested_code = make_tensor(h.nested_code.data(), NIBBLE_F32, {256});
  w.nested_absmax = make_tensor(h.nested_absmax.data(), NIBBLE_F32, {1});
  return t;
}

/// All 65536 bit patterns of a 16-bit type.
Table element_table(Format format) {
  Table t = empty_table(format, 256, 256, 65536 * 2);
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    put_u16(t.weight.packed.data() + 2 * bits, bits);
    t.values.push_back(format == NIBBLE_F16 ? half_value(bits) : std::bit_cast<float>(bits << 16));
  }
  return t;
}

Problem build(Table table, Format to) {
  Problem p;
  p.request = make_request(NIBBLE_OP_DEQUANTIZE);
  set_weight(p, std::move(table.weight));
  const Tensor& w = p.request.weight.packed;
  p.request.dst = make_view(to, {w.shape[0], w.shape[1], 1, 1});
  ExactValues exact;
  for (const float x : table.values) exact.bits.push_back(to_type(to, x));
  p.expected = std::move(exact);
  poison_dst(p);
  return p;
}

const struct {
  const char* format;
  const char* name;
  Table (*make)();
} kTables[] = {
    {"q4_0", "65536_scales", q4_0_table},
    {"q8_0", "65536_scales", q8_0_table},
    {"mxfp4", "256_scales_16_codes", mxfp4_table},
    {"nvfp4", "256_scales_16_codes", nvfp4_table},
    {"f16", "65536_values", [] { return element_table(NIBBLE_F16); }},
    {"bf16", "65536_values", [] { return element_table(NIBBLE_BF16); }},
    {"nf4.nested", "256_scales_16_codes", [] { return nested_table(NIBBLE_NF4, 0.0317f); }},
    {"nf4.nested", "256_scales_16_codes_negative_offset", [] { return nested_table(NIBBLE_NF4, -2.51f); }},
    {"nf4.nested", "256_scales_16_codes_offset_1em6", [] { return nested_table(NIBBLE_NF4, 1e-6f); }},
    {"nf4.nested", "256_scales_16_codes_offset_minus_1em6", [] { return nested_table(NIBBLE_NF4, -1e-6f); }},
    {"nf4.nested", "256_scales_16_codes_offset_1e4", [] { return nested_table(NIBBLE_NF4, 1e4f); }},
    {"nf4.nested", "256_scales_16_codes_offset_minus_1e4", [] { return nested_table(NIBBLE_NF4, -1e4f); }},
    {"nf4.nested", "256_scales_16_codes_subnormal_group", [] { return nested_table(NIBBLE_NF4, 1e-6f, 1e-41f); }},
    {"nf4.nested", "256_scales_16_codes_huge_group", [] { return nested_table(NIBBLE_NF4, -1.0f, 3e38f); }},
    {"fp4.nested", "256_scales_16_codes", [] { return nested_table(NIBBLE_FP4, 0.0317f); }},
    {"fp4.nested", "256_scales_16_codes_negative_offset", [] { return nested_table(NIBBLE_FP4, -2.51f); }},
    {"fp4.nested", "256_scales_16_codes_offset_1em6", [] { return nested_table(NIBBLE_FP4, 1e-6f); }},
    {"fp4.nested", "256_scales_16_codes_offset_minus_1em6", [] { return nested_table(NIBBLE_FP4, -1e-6f); }},
    {"fp4.nested", "256_scales_16_codes_offset_1e4", [] { return nested_table(NIBBLE_FP4, 1e4f); }},
    {"fp4.nested", "256_scales_16_codes_offset_minus_1e4", [] { return nested_table(NIBBLE_FP4, -1e4f); }},
    {"fp4.nested", "256_scales_16_codes_subnormal_group", [] { return nested_table(NIBBLE_FP4, 1e-6f, 1e-41f); }},
    {"fp4.nested", "256_scales_16_codes_huge_group", [] { return nested_table(NIBBLE_FP4, -1.0f, 3e38f); }},
};

}  // namespace

void add_table_cases(Suite& suite) {
  for (const auto& table : kTables) {
    for (const Format to : {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16}) {
      suite.add(NIBBLE_OP_DEQUANTIZE, {"tables", table.format, fmt::format("{}_{}", format_name(to), table.name)},
                [make = table.make, to] { return build(make(), to); });
    }
  }
}

}  // namespace nibble::conformance
