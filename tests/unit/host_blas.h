// A GPU runtime and a BLAS on the host, under the names that backends/gpu/blas.cpp uses.
// Apart from the test because that file is compiled against this header in place of cuBLAS's or hipBLAS's.
#ifndef NIBBLE_TESTS_UNIT_HOST_BLAS_H
#define NIBBLE_TESTS_UNIT_HOST_BLAS_H

#include <cstdint>
#include <string>

#define GPU(name) host##name
#define GPU_RUNTIME_NAME "host"
#define BLAS(name) hostblas##name
#define BLAS_CONSTANT(name) HOSTBLAS_##name
#define BLAS_NAME "hostblas"

namespace nibble::gpu {

/// What the library was asked for, call by call, and which call is to fail with what.
struct HostBlas {
  int device = 0;
  int last_error = 0;
  const void* scratch = nullptr;
  const void* stream = nullptr;
  std::string calls;
  std::string failing;
  int failure = 0;
};
inline HostBlas host_blas;

/// Notes the call; the status that it is to answer.
inline int noted(const char* call) {
  host_blas.calls += host_blas.calls.empty() ? call : std::string(" ") + call;
  return host_blas.failing == call ? host_blas.failure : 0;
}

// The runtime.

using hostStream_t = void*;
enum hostStreamCaptureMode : std::uint8_t { hostStreamCaptureModeGlobal, hostStreamCaptureModeRelaxed };
inline constexpr int hostSuccess = 0, kNoMemory = 2;
inline int hostGetDevice(int* out) { return *out = host_blas.device, noted("GetDevice"); }
inline int hostPeekAtLastError() { return host_blas.last_error; }
inline int hostGetLastError() {
  const int error = host_blas.last_error;
  host_blas.last_error = hostSuccess;
  return error;
}
inline int hostThreadExchangeStreamCaptureMode(hostStreamCaptureMode* mode) {
  const bool relaxed = *mode == hostStreamCaptureModeRelaxed;
  *mode = relaxed ? hostStreamCaptureModeGlobal : hostStreamCaptureModeRelaxed;
  return noted(relaxed ? "relax{" : "}");
}

// The library.

using hostblasStatus_t = int;
using hostblasHandle_t = int*;
enum hostblasOperation_t : std::uint8_t { HOSTBLAS_OP_N, HOSTBLAS_OP_T };
enum hostblasComputeType_t : std::uint8_t { HOSTBLAS_COMPUTE_32F, HOSTBLAS_COMPUTE_FAST };
enum class BlasType : std::uint8_t { f32, f16, bf16 };
inline constexpr hostblasStatus_t HOSTBLAS_STATUS_SUCCESS = 0, HOSTBLAS_STATUS_NOT_INITIALIZED = 1,
                                  HOSTBLAS_STATUS_ALLOC_FAILED = 3, HOSTBLAS_GEMM_DEFAULT = 0;
inline constexpr BlasType kTypeF32 = BlasType::f32, kTypeF16 = BlasType::f16, kTypeBf16 = BlasType::bf16;
inline constexpr hostblasComputeType_t kComputeTf32 = HOSTBLAS_COMPUTE_FAST;
inline constexpr bool kMultipliesHalves = false;
inline constexpr std::uint64_t kScratchBytes = 4096, kLeastScratchBytes = 256;
inline constexpr const char* kSettling = "Settle";

inline hostblasStatus_t hostblasCreate(hostblasHandle_t* out) { return *out = &host_blas.device, noted("Create"); }
inline hostblasStatus_t hostblasDestroy(hostblasHandle_t) { return noted("Destroy"); }
inline hostblasStatus_t settle(hostblasHandle_t) { return noted("Settle"); }
inline hostblasStatus_t hostblasSetStream(hostblasHandle_t, hostStream_t stream) {
  return host_blas.stream = stream, noted("SetStream");
}
inline hostblasStatus_t set_scratch(hostblasHandle_t, void* data, std::uint64_t) {
  return host_blas.scratch = data, noted("SetWorkspace");
}
inline const char* blas_words(hostblasStatus_t) { return "in the library's words"; }

/// A matrix as BLAS has it: column-major, or to be read as its transpose.
struct HostMatrix {
  hostblasOperation_t op;
  const void* data;
  BlasType type;
  std::int64_t leading, stride;

  [[nodiscard]] float at(std::int64_t row, std::int64_t column, std::int64_t batch) const;
};
void host_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const HostMatrix& a, const HostMatrix& b, float beta,
               float* c, std::int64_t c_leading, std::int64_t c_stride, std::int64_t batch);

inline hostblasStatus_t hostblasGemmStridedBatchedEx_64(
    hostblasHandle_t, hostblasOperation_t op_a, hostblasOperation_t op_b, std::int64_t m, std::int64_t n,
    std::int64_t k, const float*, const void* a, BlasType a_type, std::int64_t lda, std::int64_t stride_a,
    const void* b, BlasType b_type, std::int64_t ldb, std::int64_t stride_b, const float* beta, float* c, BlasType,
    std::int64_t ldc, std::int64_t stride_c, std::int64_t batch, hostblasComputeType_t compute, int) {
  host_gemm(m, n, k, {op_a, a, a_type, lda, stride_a}, {op_b, b, b_type, ldb, stride_b}, *beta, c, ldc, stride_c,
            batch);
  return noted(compute == HOSTBLAS_COMPUTE_FAST ? "GemmBatchFast" : "GemmBatch");
}
inline hostblasStatus_t hostblasGemmEx_64(hostblasHandle_t, hostblasOperation_t op_a, hostblasOperation_t op_b,
                                          std::int64_t m, std::int64_t n, std::int64_t k, const float*, const void* a,
                                          BlasType a_type, std::int64_t lda, const void* b, BlasType b_type,
                                          std::int64_t ldb, const float* beta, float* c, BlasType, std::int64_t ldc,
                                          hostblasComputeType_t compute, int) {
  host_gemm(m, n, k, {op_a, a, a_type, lda, 0}, {op_b, b, b_type, ldb, 0}, *beta, c, ldc, 0, 1);
  return noted(compute == HOSTBLAS_COMPUTE_FAST ? "GemmFast" : "Gemm");
}

}  // namespace nibble::gpu

#endif
