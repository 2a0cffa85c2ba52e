// cuBLAS or hipBLAS as engines for dense products, one a precision class.
// Apart from the rows so that they are the same where the library is absent, less those that name these.
#ifndef NIBBLE_BACKENDS_GPU_BLAS_H
#define NIBBLE_BACKENDS_GPU_BLAS_H

#include "backends/gpu/gemm.h"

namespace nibble::gpu {

/// Products in binary32, operands widened to f32.
extern const GemmEngine kBlasF32;
/// f32 operands rounded to TF32's 11 significant bits where the library can, else as they are; two of bf16, and on CUDA
/// two of f16, multiplied as they are, exactly.
extern const GemmEngine kBlasTf32;
/// Two of f16, whose values the caller brought into their range.
extern const GemmEngine kBlasHalf;
/// Operands rounded to bf16; on CUDA two of f16 multiplied as they are. Sums in binary32.
extern const GemmEngine kBlasBf16;

}  // namespace nibble::gpu

#endif
