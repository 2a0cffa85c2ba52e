// Weights made for tests: every format with random codes and scales that are random, moderate or special.
// Apart from the cases because every operation's cases need weights.
#ifndef NIBBLE_TESTS_SUPPORT_WEIGHTS_H
#define NIBBLE_TESTS_SUPPORT_WEIGHTS_H

#include <nibble/tensor.hpp>

#include "tests/support/random.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nibble::test {

/// A format, and for bitsandbytes formats whether the statistics are compressed.
struct WeightKind {
  Format format = NIBBLE_F32;
  bool nested = false;
};
/// Every format that can be a weight; 4-bit ones plain and nested.
std::vector<WeightKind> weight_kinds();
/// "q4_k", "nf4.nested"
std::string label(WeightKind kind);

enum class Contents : std::uint8_t {
  random_bits,   ///< every bit pattern, scales included
  moderate,      ///< random codes, finite scales: values of about -16 to 16
  wide,          ///< random codes, scales of blocks that differ by factors of up to 2^20 where their type holds that
  huge,          ///< random codes, scales near the largest that leave every value finite
  tiny,          ///< random codes, scales of about 2^-105 to 2^-117, or the least normal half
  special,       ///< random codes, scales zero, subnormal, largest, infinite and NaN
  one_nan_block  ///< moderate, but for the scale of the second block
};

/// What a weight looks like beside its format.
struct WeightLayout {
  std::array<std::int64_t, 4> shape = {0, 1, 1, 1};
  std::int64_t row_padding_blocks = 0;  ///< block and element formats: left between rows, filled with NaN
  std::int64_t block_size = 64;         ///< bitsandbytes formats
  std::int64_t nested_block_size = 256;
  float nested_offset = 0.0625f;
};

/// A weight with its bytes. The views point into the vectors, which survive a move but not a copy.
struct HostWeight {
  Weight weight{};
  std::vector<std::uint8_t> packed, code, absmax, nested_absmax, nested_code;

  HostWeight() = default;
  HostWeight(HostWeight&&) = default;
  HostWeight& operator=(HostWeight&&) = default;
};

HostWeight make_host_weight(WeightKind kind, const WeightLayout& layout, Contents contents, Random& random);

/// Writes the half `bits` into every half scale of a block (IQ1_M's scattered one included); false where the format
/// has none.
bool set_half_scales(Format format, std::uint8_t* block, std::uint32_t bits);

/// All values, decoded by the reference in logical order.
std::vector<float> decode_all(const Weight& weight);

/// Bit patterns that conversions and products get wrong.
std::span<const std::uint32_t> special_halves();
std::span<const std::uint32_t> special_floats();

}  // namespace nibble::test

#endif
