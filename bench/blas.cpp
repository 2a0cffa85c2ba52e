// OpenBLAS, if there was one.
// Apart from the header so that its macros and types stay in one file.
#include "bench/blas.h"

#if NIBBLE_BENCH_OPENBLAS
#include <cblas.h>
#endif

namespace nibble::bench {

#if NIBBLE_BENCH_OPENBLAS
namespace {

void sgemm(const GemmShape& s, const float* a, const float* b, float* c) {
  const auto m = static_cast<blasint>(s.m), n = static_cast<blasint>(s.n), k = static_cast<blasint>(s.k);
  openblas_set_num_threads(static_cast<int>(s.threads));
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, m, n, k, 1.0f, a, m, b, n, 0.0f, c, n);
}

}  // namespace

Sgemm find_sgemm() { return sgemm; }
#else
Sgemm find_sgemm() { return nullptr; }
#endif

}  // namespace nibble::bench
