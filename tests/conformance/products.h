// Problems of the multiplying operations, with their exact results.
// Apart from the cases because several tables of cases build the same kind.
#ifndef NIBBLE_TESTS_CONFORMANCE_PRODUCTS_H
#define NIBBLE_TESTS_CONFORMANCE_PRODUCTS_H

#include "tests/conformance/problem.h"

#include <cstdint>
#include <string>

namespace nibble::conformance {

/// What src1 holds.
enum class Activations : std::uint8_t {
  normal,
  large,         ///< normal, times 1e6
  small,         ///< normal, times 1e-9
  huge,          ///< normal, times 1e35
  tiny,          ///< normal, times 1e-30
  expanded_one,  ///< one 1 with all strides 0, as a framework expands the gradient of a sum
  one_per_k,     ///< stride 0 along the tokens
  zeros,
  one_huge,      ///< normal, but for the second token (or the only one), times 1e6
  falling,       ///< normal, times powers of two from 1 to 2^-20 along k
  one_infinity,  ///< normal, but for an infinity in the second token (or the only one)
  one_nan        ///< normal, but for a NaN there
};

struct OutProdCase {
  test::WeightKind kind{};
  std::int64_t columns = 0, k = 0, tokens = 1;
  std::int64_t batch2 = 1, batch3 = 1, repeat2 = 1, repeat3 = 1;
  Format src1 = NIBBLE_F32, dst = NIBBLE_F32;
  bool transposed = false;  ///< src1 contiguous along k
  Activations activations = Activations::normal;
  test::Contents contents = test::Contents::moderate;
  std::int64_t weight_padding_blocks = 0, src1_padding = 0, dst_padding = 0;
  bool swap_dst_outer = false, accumulate = false, off_alignment = false;
};
/// "t16_k1_f16_transposed_b3x1_r1x2"
std::string name_of(const OutProdCase& c);
Problem build_out_prod(const OutProdCase& c);

struct LinearCase {
  test::WeightKind kind{};
  std::int64_t in = 0, out = 0, tokens = 1;
  Format src1 = NIBBLE_F32, dst = NIBBLE_F32;
  bool has_bias = false;
  Format bias = NIBBLE_F32;
  bool transposed = false;  ///< src1 contiguous along the tokens
  Activations activations = Activations::normal;
  test::Contents contents = test::Contents::moderate;
  std::int64_t weight_padding_blocks = 0, src1_padding = 0, dst_padding = 0;
  bool off_alignment = false;
};
std::string name_of(const LinearCase& c);
Problem build_linear(const LinearCase& c);

/// A row's length that is whole blocks of the format and no rounder than it must be: `least` values at least.
std::int64_t row_values(test::WeightKind kind, std::int64_t least);

}  // namespace nibble::conformance

#endif
