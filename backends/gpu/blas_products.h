// What a row that multiplies through a BLAS runs: each precision class, for one matrix or a batch.
// Apart from the plugins' lists because each of them names the same six with a decoder of its own.
#ifndef NIBBLE_BACKENDS_GPU_BLAS_PRODUCTS_H
#define NIBBLE_BACKENDS_GPU_BLAS_PRODUCTS_H

#include "backends/gpu/blas.h"
#include "backends/gpu/product_rows.h"

namespace nibble::gpu {

/// Static, since rows keep their addresses.
template <const WeightDecoder& decoder, bool nested_alone = false>
struct BlasProducts {
  using Shape = Product::Shape;
  static constexpr Product kMatrixF32{{&kBlasF32, &decoder}, Shape::matrix, nested_alone};
  static constexpr Product kMatrixTf32{{&kBlasTf32, &decoder}, Shape::matrix, nested_alone};
  static constexpr Product kMatrixBf16{{&kBlasBf16, &decoder}, Shape::matrix, nested_alone};
  static constexpr Product kBatchF32{{&kBlasF32, &decoder}, Shape::batch, nested_alone};
  static constexpr Product kBatchTf32{{&kBlasTf32, &decoder}, Shape::batch, nested_alone};
  static constexpr Product kBatchBf16{{&kBlasBf16, &decoder}, Shape::batch, nested_alone};
};

}  // namespace nibble::gpu

#endif
