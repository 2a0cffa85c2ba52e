// What is compared: requests, and the built-in matrices of them.
// Apart from the measuring so that a matrix reads as a table.
#ifndef NIBBLE_BENCH_COMPARE_CELLS_H
#define NIBBLE_BENCH_COMPARE_CELLS_H

#include <nibble/nibble.hpp>

#include "bench/compare/verdict.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::bench {

/// One call on a weight of `rows` x `columns` values (out features x in features of a layer).
struct Call {
  nibble_op op = NIBBLE_OP_DEQUANTIZE;
  Format format = NIBBLE_NF4;
  bool nested = true;
  Format to = NIBBLE_F16;
  std::int64_t rows = 0, columns = 0;
  std::int64_t tokens = 1;           ///< products
  Format activations = NIBBLE_BF16;  ///< products
  nibble_math math = NIBBLE_MATH_DEFAULT;
};

/// Calls that are timed together, one after the other.
struct CellSpec {
  std::string matrix;
  Kind kind = Kind::standalone;
  bool large = false, control = false;
  std::vector<Call> calls;
};

/// "dequantize nf4.nested 8192x8192 to f16", joined by " + ".
std::string name_of(const CellSpec& cell);

std::span<const std::string_view> matrix_names();
/// The cells of a matrix; none for an unknown name.
std::vector<CellSpec> cells_of(std::string_view matrix);

/// The kernels that the matrices compare, for an operation on one matrix.
std::string_view baseline_of(nibble_op op);
std::string_view candidate_of(nibble_op op);

}  // namespace nibble::bench

#endif
