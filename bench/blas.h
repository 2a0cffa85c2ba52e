// A BLAS's sgemm as a rival on expanded weights, where CMake found one.
// Apart from the benchmarks because they build without it.
#ifndef NIBBLE_BENCH_BLAS_H
#define NIBBLE_BENCH_BLAS_H

#include <cstdint>

namespace nibble::bench {

struct GemmShape {
  std::int64_t m, n, k, threads;
};

/// c[m][n] = sum over k of a[k][m] * b[k][n], all dense: out_prod's product as a BLAS takes it.
using Sgemm = void (*)(const GemmShape& shape, const float* a, const float* b, float* c);

/// Null where the benchmarks were built without a BLAS.
Sgemm find_sgemm();

}  // namespace nibble::bench

#endif
