// Timings of the products at the sizes of an output head.
// Apart from the checks, which need no long run.
#ifndef NIBBLE_TESTS_GPU_PRODUCTS_BENCH_H
#define NIBBLE_TESTS_GPU_PRODUCTS_BENCH_H

#include <cstdint>
#include <string>

namespace nibble::gpu_test {

/// "cuBLAS 13.0.2", or that it is absent.
std::string blas_version();
/// Prints a table; answers the number of wrong results, which are checked in a sample of columns.
std::int64_t bench_products();

}  // namespace nibble::gpu_test

#endif
