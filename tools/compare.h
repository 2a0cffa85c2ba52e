// Comparing decoded values by bits, where one NaN is as good as another.
// Apart from verify so that what counts as equal can be read, and tested, alone.
#ifndef NIBBLE_TOOLS_COMPARE_H
#define NIBBLE_TOOLS_COMPARE_H

#include <nibble/tensor.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace nibble::cli {

/// What two runs of values of one type have in common.
struct Comparison {
  std::uint64_t values = 0;
  std::uint64_t different = 0;
  std::uint64_t first = 0;                        ///< place of the first difference
  std::uint32_t expected_bits = 0, got_bits = 0;  ///< there
  bool expects_nan = false;                       ///< some expected value is a NaN
};

/// `type` is f32, f16 or bf16; both spans hold as many bytes.
Comparison compare_values(Format type, std::span<const std::uint8_t> expected, std::span<const std::uint8_t> got);

/// "1.5 (0x3fc00000)"
std::string value_text(Format type, std::uint32_t bits);

}  // namespace nibble::cli

#endif
