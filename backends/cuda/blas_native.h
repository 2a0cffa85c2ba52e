// cuBLAS under the names that backends/gpu/blas.cpp uses.
// Apart from native.h because only that file knows a BLAS, and a build may have none.
#ifndef NIBBLE_BACKENDS_CUDA_BLAS_NATIVE_H
#define NIBBLE_BACKENDS_CUDA_BLAS_NATIVE_H

#include <cublas_v2.h>

#include <cstdint>

#define BLAS(name) cublas##name
#define BLAS_CONSTANT(name) CUBLAS_##name
#define BLAS_NAME "cublas"

namespace nibble::gpu {

using BlasType = cudaDataType_t;
inline constexpr BlasType kTypeF32 = CUDA_R_32F, kTypeF16 = CUDA_R_16F, kTypeBf16 = CUDA_R_16BF;
inline constexpr cublasComputeType_t kComputeTf32 = CUBLAS_COMPUTE_32F_FAST_TF32;
inline constexpr bool kMultipliesHalves = true;

/// What NVIDIA advises for its largest devices, and the least that cuBLAS promises to work with, a few times over.
inline constexpr std::uint64_t kScratchBytes = std::uint64_t{32} << 20;
inline constexpr std::uint64_t kLeastScratchBytes = std::uint64_t{64} << 10;
/// Setting the stream takes the scratch away, so after that.
inline cublasStatus_t set_scratch(cublasHandle_t handle, void* data, std::uint64_t bytes) {
  return cublasSetWorkspace(handle, data, bytes);
}

/// Sums stay in binary32 to their end.
inline constexpr const char* kSettling = "SetMathMode";
inline cublasStatus_t settle(cublasHandle_t handle) {
  const int mode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  return cublasSetMathMode(handle, static_cast<cublasMath_t>(mode));
}

inline const char* blas_words(cublasStatus_t status) { return cublasGetStatusString(status); }

}  // namespace nibble::gpu

#endif
