// The inner product loop: a register tile of the result over one chunk of k.
// Apart from the product's driver so that only this part compiles once a target.
#ifndef NIBBLE_BACKENDS_CPU_MICROKERNEL_H
#define NIBBLE_BACKENDS_CPU_MICROKERNEL_H

#include "backends/cpu/targets.h"

#include <cstdint>

namespace nibble::cpu {

/// Columns of a panel that the kernels handle together at most; a panel is padded to a multiple of it.
inline constexpr std::int64_t kColumnStep = 32;

/// c[m][n] = (first ? 0 : c[m][n]) + sum over k of a[m][k] * b[k][n], the sum alone in registers from zero on, which
/// keeps the error of a long k small.
///   a: `tile_rows` rows side by side for each k, tile after tile, the last one padded
///   b: [k][columns], rows ldb apart; columns a multiple of kColumnStep
///   c: [rows][columns], rows ldc apart
using MultiplyFn = void (*)(const float* a, std::int64_t rows, const float* b, std::int64_t ldb, std::int64_t k,
                            std::int64_t columns, float* c, std::int64_t ldc, bool first);

struct Microkernel {
  MultiplyFn multiply;
  std::int64_t tile_rows;
};

const Microkernel& microkernel(Target target);

}  // namespace nibble::cpu

#endif
