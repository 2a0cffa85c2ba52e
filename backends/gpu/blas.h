// cuBLAS as engines for dense products, one a precision class.
// Apart from the rows so that they are the same where cuBLAS is absent, less those that name these.
#ifndef NIBBLE_BACKENDS_CUDA_BLAS_H
#define NIBBLE_BACKENDS_CUDA_BLAS_H

#include "backends/gpu/gemm.h"

namespace nibble::cuda {

/// Products in binary32, operands widened to f32.
extern const gpu::GemmEngine kBlasF32;
/// f32 operands rounded to TF32's 11 significant bits; two of f16 or two of bf16 multiplied as they are, exactly.
extern const gpu::GemmEngine kBlasTf32;
/// Operands rounded to bf16; two of f16 multiplied as they are. Sums in binary32.
extern const gpu::GemmEngine kBlasBf16;

}  // namespace nibble::cuda

#endif
