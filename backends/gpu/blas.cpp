// Dense products through cuBLAS, in scratch of the caller's and on the caller's stream.
// Apart from the other engines so that this is the one file that cuBLAS's headers reach.
#include "backends/cuda/blas.h"

#include "backends/gpu/text.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <new>

namespace nibble::cuda {
namespace {

using gpu::Gemm;
using gpu::GemmEngine;
using gpu::Operand;
using gpu::Scratch;
using gpu::Stream;

/// What NVIDIA advises for its largest devices, and the least that cuBLAS promises to work with, a few times over.
constexpr std::uint64_t kScratchBytes = std::uint64_t{32} << 20;
constexpr std::uint64_t kLeastScratchBytes = std::uint64_t{64} << 10;

nibble_status failed(nibble_text* why, const char* call, cublasStatus_t status) {
  cudaGetLastError();  // cuBLAS leaves the runtime's error behind; the next caller must not find it
  const bool memory = status == CUBLAS_STATUS_ALLOC_FAILED;
  return gpu::fail(why, memory ? NIBBLE_OUT_OF_MEMORY : NIBBLE_DEVICE_ERROR, "{}: {} ({})", call,
                   cublasGetStatusString(status), cublasGetStatusName(status));
}

/// A handle of one device. Used by one call at a time, since its stream and scratch are set for each.
struct Handle {
  int device = 0;
  cublasHandle_t blas = nullptr;
  std::atomic<bool> busy{true};
  Handle* next = nullptr;
};

/// All handles of the process, newest first. Making one takes milliseconds and allocates, destroying one synchronizes
/// the device: so they are kept for the life of the process, as many as there were calls at one moment. Nodes are never
/// taken out, which lets threads walk the list without a lock.
constinit std::atomic<Handle*> handles{nullptr};

/// Another thread's, or this call's, capture must not be broken by what cublasCreate allocates.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

Handle* free_handle(int device) {
  for (Handle* h = handles.load(std::memory_order_acquire); h != nullptr; h = h->next) {
    if (h->device == device && !h->busy.exchange(true, std::memory_order_acquire)) return h;
  }
  return nullptr;
}

nibble_status new_handle(int device, Handle** out, nibble_text* why) {
  auto* made = new (std::nothrow) Handle;
  if (made == nullptr) return gpu::fail(why, NIBBLE_OUT_OF_MEMORY, "no host memory for a cuBLAS handle");
  made->device = device;
  const RelaxedCapture relaxed;
  cublasStatus_t status = cublasCreate(&made->blas);
  if (status != CUBLAS_STATUS_SUCCESS) {
    delete made;
    // Without room for its context cuBLAS says only that it is not initialized.
    if (status == CUBLAS_STATUS_NOT_INITIALIZED && cudaPeekAtLastError() == cudaErrorMemoryAllocation) {
      status = CUBLAS_STATUS_ALLOC_FAILED;
    }
    return failed(why, "cublasCreate", status);
  }
  const auto mode = static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
  status = cublasSetMathMode(made->blas, mode);
  if (status != CUBLAS_STATUS_SUCCESS) {
    cublasDestroy(made->blas);
    delete made;
    return failed(why, "cublasSetMathMode", status);
  }
  made->next = handles.load(std::memory_order_relaxed);
  while (!handles.compare_exchange_weak(made->next, made, std::memory_order_release, std::memory_order_relaxed)) {
  }
  *out = made;
  return NIBBLE_OK;
}

/// Takes a handle of the current device for one call.
class HeldHandle {
 public:
  explicit HeldHandle(nibble_text* why) {
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess) {
      cudaGetLastError();
      status_ = gpu::fail(why, NIBBLE_DEVICE_ERROR, "cudaGetDevice failed");
      return;
    }
    handle_ = free_handle(device);
    if (handle_ == nullptr) status_ = new_handle(device, &handle_, why);
  }
  ~HeldHandle() {
    if (handle_ != nullptr) handle_->busy.store(false, std::memory_order_release);
  }
  HeldHandle(const HeldHandle&) = delete;
  HeldHandle& operator=(const HeldHandle&) = delete;
  [[nodiscard]] nibble_status status() const { return status_; }
  [[nodiscard]] cublasHandle_t get() const { return handle_->blas; }

 private:
  Handle* handle_ = nullptr;
  nibble_status status_ = NIBBLE_OK;
};

bool neighbours_along_outer(const Operand& o, std::int64_t outer, std::int64_t k) {
  return (o.outer_stride == 1 || outer == 1) && (o.k_stride >= outer || k == 1);
}
bool neighbours_along_k(const Operand& o, std::int64_t outer, std::int64_t k) {
  return (o.k_stride == 1 || k == 1) && (o.outer_stride >= k || outer == 1);
}
bool reads(const Operand& o, std::int64_t outer, std::int64_t k) {
  return neighbours_along_outer(o, outer, k) || neighbours_along_k(o, outer, k);
}

/// An operand in BLAS's words: a column-major [outer, k] matrix, or its transpose.
struct Matrix {
  cublasOperation_t op;  ///< that gives [outer, k]
  std::int64_t leading;
};
Matrix matrix_of(const Operand& o, std::int64_t outer, std::int64_t k) {
  if (neighbours_along_outer(o, outer, k)) return {CUBLAS_OP_N, k == 1 ? outer : o.k_stride};
  return {CUBLAS_OP_T, outer == 1 ? k : o.outer_stride};
}
cublasOperation_t transposed(cublasOperation_t op) { return op == CUBLAS_OP_N ? CUBLAS_OP_T : CUBLAS_OP_N; }

cudaDataType_t data_type(nibble_format type) {
  if (type == NIBBLE_F16) return CUDA_R_16F;
  return type == NIBBLE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

nibble_status run(const GemmEngine& engine, const Gemm& g, Scratch scratch, Stream stream, nibble_text* why) {
  const HeldHandle handle(why);
  if (handle.status() != NIBBLE_OK) return handle.status();
  // Setting the stream takes the scratch away, so in this order.
  cublasStatus_t status = cublasSetStream(handle.get(), static_cast<cudaStream_t>(stream));
  if (status != CUBLAS_STATUS_SUCCESS) return failed(why, "cublasSetStream", status);
  status = cublasSetWorkspace(handle.get(), scratch.data, scratch.bytes);
  if (status != CUBLAS_STATUS_SUCCESS) return failed(why, "cublasSetWorkspace", status);
  const Matrix a = matrix_of(g.a, g.m, g.k), b = matrix_of(g.b, g.n, g.k);
  const std::int64_t c_leading = g.n == 1 ? g.m : g.c_stride;
  const bool fast = engine.math == NIBBLE_MATH_TF32 && g.a.type == NIBBLE_F32;
  const cublasComputeType_t compute = fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  const float one = 1.0f, beta = g.add ? 1.0f : 0.0f;
  if (g.batch == 1) {
    status = cublasGemmEx_64(handle.get(), a.op, transposed(b.op), g.m, g.n, g.k, &one, g.a.data, data_type(g.a.type),
                             a.leading, g.b.data, data_type(g.b.type), b.leading, &beta, g.c, CUDA_R_32F, c_leading,
                             compute, CUBLAS_GEMM_DEFAULT);
  } else {
    status = cublasGemmStridedBatchedEx_64(handle.get(), a.op, transposed(b.op), g.m, g.n, g.k, &one, g.a.data,
                                           data_type(g.a.type), a.leading, g.a.batch_stride, g.b.data,
                                           data_type(g.b.type), b.leading, g.b.batch_stride, &beta, g.c, CUDA_R_32F,
                                           c_leading, g.c_batch_stride, g.batch, compute, CUBLAS_GEMM_DEFAULT);
  }
  return status == CUBLAS_STATUS_SUCCESS ? NIBBLE_OK : failed(why, "cuBLAS product", status);
}

bool both_f32(nibble_format a, nibble_format b) { return a == NIBBLE_F32 && b == NIBBLE_F32; }
bool alike(nibble_format a, nibble_format b) { return a == b; }
bool alike_and_short(nibble_format a, nibble_format b) { return a == b && a != NIBBLE_F32; }

constexpr GemmEngine engine(nibble_math math, nibble_format operand_type,
                            bool (*multiplies)(nibble_format, nibble_format)) {
  return {.math = math,
          .operand_type = operand_type,
          .scratch_bytes = kScratchBytes,
          .least_scratch_bytes = kLeastScratchBytes,
          .reads = reads,
          .multiplies = multiplies,
          .run = run};
}

}  // namespace

const GemmEngine kBlasF32 = engine(NIBBLE_MATH_F32, NIBBLE_F32, both_f32);
const GemmEngine kBlasTf32 = engine(NIBBLE_MATH_TF32, NIBBLE_F32, alike);
const GemmEngine kBlasBf16 = engine(NIBBLE_MATH_BF16, NIBBLE_BF16, alike_and_short);

}  // namespace nibble::cuda
