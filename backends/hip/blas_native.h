// hipBLAS under the names that backends/gpu/blas.cpp uses.
// Apart from native.h because only that file knows a BLAS, and a build may have none.
#ifndef NIBBLE_BACKENDS_HIP_BLAS_NATIVE_H
#define NIBBLE_BACKENDS_HIP_BLAS_NATIVE_H

// Before 3.0, HIP's own data types and a compute type must be asked for.
#ifndef HIPBLAS_V2
#define HIPBLAS_V2
#endif
#include <hipblas/hipblas.h>
#if hipblasVersionMajor < 3
#include <rocblas/rocblas.h>
#endif

#include <cstdint>

#define BLAS(name) hipblas##name
#define BLAS_CONSTANT(name) HIPBLAS_##name
#define BLAS_NAME "hipblas"

namespace nibble::gpu {

using BlasType = hipDataType;
inline constexpr BlasType kTypeF32 = HIP_R_32F, kTypeF16 = HIP_R_16F, kTypeBf16 = HIP_R_16BF;
/// rocBLAS refuses HIPBLAS_COMPUTE_32F_FAST_TF32: f32 serves the class.
inline constexpr hipblasComputeType_t kComputeTf32 = HIPBLAS_COMPUTE_32F;
/// A gfx90a takes subnormals of f16, which gradients have many of, for zeros. Its bf16 has the exponents of f32.
inline constexpr bool kMultipliesHalves = false;

/// As much as a handle of rocBLAS allocates unless it is given some; less is nowhere promised to do.
inline constexpr std::uint64_t kScratchBytes = std::uint64_t{32} << 20;
inline constexpr std::uint64_t kLeastScratchBytes = kScratchBytes;
inline hipblasStatus_t set_scratch(hipblasHandle_t handle, void* data, std::uint64_t bytes) {
#if hipblasVersionMajor >= 3
  return hipblasSetWorkspace(handle, data, bytes);
#else
  // A handle of hipBLAS is one of rocBLAS, which could do this before.
  const rocblas_status status = rocblas_set_workspace(static_cast<rocblas_handle>(handle), data, bytes);
  return status == rocblas_status_success ? HIPBLAS_STATUS_SUCCESS : HIPBLAS_STATUS_INTERNAL_ERROR;
#endif
}

/// Sums that race would come out otherwise each time.
inline constexpr const char* kSettling = "SetAtomicsMode";
inline hipblasStatus_t settle(hipblasHandle_t handle) {
  return hipblasSetAtomicsMode(handle, HIPBLAS_ATOMICS_NOT_ALLOWED);
}

inline const char* blas_words(hipblasStatus_t status) { return hipblasStatusToString(status); }

}  // namespace nibble::gpu

#endif
