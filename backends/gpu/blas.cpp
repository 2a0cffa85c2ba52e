// Dense products through cuBLAS or hipBLAS, in scratch of the caller's and on the caller's stream: BLAS(Create) is one
// of their functions and BLAS_CONSTANT(OP_N) one of their constants, as the back end's blas_native.h says, with what
// does differ. Apart from the other engines so that this is the one file that a BLAS's headers reach.
#include "backends/gpu/blas.h"

#include "backends/gpu/text.h"

#include NIBBLE_GPU_NATIVE
#include NIBBLE_GPU_BLAS_NATIVE

#include <atomic>
#include <new>

namespace nibble::gpu {
namespace {

using BlasStatus = BLAS(Status_t);
constexpr BlasStatus kDone = BLAS_CONSTANT(STATUS_SUCCESS);

nibble_status failed(nibble_text* why, const char* call, BlasStatus status) {
  static_cast<void>(GPU(GetLastError)());  // the library leaves the runtime's error behind; no caller must find it
  const bool memory = status == BLAS_CONSTANT(STATUS_ALLOC_FAILED);
  return fail(why, memory ? NIBBLE_OUT_OF_MEMORY : NIBBLE_DEVICE_ERROR, BLAS_NAME "{}: {} ({})", call,
              blas_words(status), static_cast<int>(status));
}

/// A handle of one device. Used by one call at a time, since its stream and scratch are set for each.
struct Handle {
  int device = 0;
  BLAS(Handle_t) blas = nullptr;
  std::atomic<bool> busy{true};
  Handle* next = nullptr;
};

/// All handles of the process, newest first. Making one takes milliseconds and allocates, destroying one synchronizes
/// the device: so they are kept for the life of the process, as many as there were calls at one moment. Nodes are never
/// taken out, which lets threads walk the list without a lock.
constinit std::atomic<Handle*> handles{nullptr};

/// Another thread's, or this call's, capture must not be broken by what the library allocates.
class RelaxedCapture {
 public:
  RelaxedCapture() { static_cast<void>(GPU(ThreadExchangeStreamCaptureMode)(&mode_)); }
  ~RelaxedCapture() { static_cast<void>(GPU(ThreadExchangeStreamCaptureMode)(&mode_)); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  GPU(StreamCaptureMode) mode_ = GPU(StreamCaptureModeRelaxed);
};

Handle* free_handle(int device) {
  for (Handle* h = handles.load(std::memory_order_acquire); h != nullptr; h = h->next) {
    if (h->device == device && !h->busy.exchange(true, std::memory_order_acquire)) return h;
  }
  return nullptr;
}

/// Makes the library's part of a handle; the name of the call that failed, or null.
const char* make(BLAS(Handle_t) * out, Scratch scratch, BlasStatus* status) {
  const RelaxedCapture relaxed;
  *status = BLAS(Create)(out);
  if (*status != kDone) {
    // Without room for its context cuBLAS says only that it is not initialized.
    if (*status == BLAS_CONSTANT(STATUS_NOT_INITIALIZED) && GPU(PeekAtLastError)() == kNoMemory) {
      *status = BLAS_CONSTANT(STATUS_ALLOC_FAILED);
    }
    return "Create";
  }
  *status = settle(*out);
  const char* call = kSettling;
  if (*status == kDone) {
    // Here too, since a library that has allocated some of its own gives that back now.
    *status = set_scratch(*out, scratch.data, scratch.bytes);
    call = "SetWorkspace";
  }
  if (*status == kDone) return nullptr;
  static_cast<void>(BLAS(Destroy)(*out));
  return call;
}

nibble_status new_handle(int device, Scratch scratch, Handle** out, nibble_text* why) {
  auto* made = new (std::nothrow) Handle;
  if (made == nullptr) return fail(why, NIBBLE_OUT_OF_MEMORY, "no host memory for a " BLAS_NAME " handle");
  made->device = device;
  BlasStatus status = kDone;
  if (const char* call = make(&made->blas, scratch, &status); call != nullptr) {
    delete made;
    return failed(why, call, status);
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
  HeldHandle(Scratch scratch, nibble_text* why) {
    int device = 0;
    if (GPU(GetDevice)(&device) != GPU(Success)) {
      static_cast<void>(GPU(GetLastError)());
      status_ = fail(why, NIBBLE_DEVICE_ERROR, "the current " GPU_RUNTIME_NAME " device could not be told");
      return;
    }
    handle_ = free_handle(device);
    if (handle_ == nullptr) status_ = new_handle(device, scratch, &handle_, why);
  }
  ~HeldHandle() {
    if (handle_ != nullptr) handle_->busy.store(false, std::memory_order_release);
  }
  HeldHandle(const HeldHandle&) = delete;
  HeldHandle& operator=(const HeldHandle&) = delete;
  [[nodiscard]] nibble_status status() const { return status_; }
  [[nodiscard]] BLAS(Handle_t) get() const { return handle_->blas; }

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

constexpr BLAS(Operation_t) kPlain = BLAS_CONSTANT(OP_N), kTransposed = BLAS_CONSTANT(OP_T);

/// An operand in BLAS's words: a column-major [outer, k] matrix, or its transpose.
struct Matrix {
  BLAS(Operation_t) op;  ///< that gives [outer, k]
  std::int64_t leading;
};
Matrix matrix_of(const Operand& o, std::int64_t outer, std::int64_t k) {
  if (neighbours_along_outer(o, outer, k)) return {kPlain, k == 1 ? outer : o.k_stride};
  return {kTransposed, outer == 1 ? k : o.outer_stride};
}
BLAS(Operation_t) transposed(BLAS(Operation_t) op) { return op == kPlain ? kTransposed : kPlain; }

BlasType data_type(nibble_format type) {
  if (type == NIBBLE_F16) return kTypeF16;
  return type == NIBBLE_BF16 ? kTypeBf16 : kTypeF32;
}

nibble_status run(const GemmEngine& engine, const Gemm& g, Scratch scratch, Stream stream, nibble_text* why) {
  const HeldHandle handle(scratch, why);
  if (handle.status() != NIBBLE_OK) return handle.status();
  // cuBLAS forgets its scratch when it is given a stream, so in this order.
  BlasStatus status = BLAS(SetStream)(handle.get(), static_cast<GPU(Stream_t)>(stream));
  if (status != kDone) return failed(why, "SetStream", status);
  status = set_scratch(handle.get(), scratch.data, scratch.bytes);
  if (status != kDone) return failed(why, "SetWorkspace", status);
  const Matrix a = matrix_of(g.a, g.m, g.k), b = matrix_of(g.b, g.n, g.k);
  const std::int64_t c_leading = g.n == 1 ? g.m : g.c_stride;
  const bool fast = engine.math == NIBBLE_MATH_TF32 && g.a.type == NIBBLE_F32;
  const BLAS(ComputeType_t) compute = fast ? kComputeTf32 : BLAS_CONSTANT(COMPUTE_32F);
  const float one = 1.0f, beta = g.add ? 1.0f : 0.0f;
  if (g.batch == 1) {
    status = BLAS(GemmEx_64)(handle.get(), a.op, transposed(b.op), g.m, g.n, g.k, &one, g.a.data, data_type(g.a.type),
                             a.leading, g.b.data, data_type(g.b.type), b.leading, &beta, g.c, kTypeF32, c_leading,
                             compute, BLAS_CONSTANT(GEMM_DEFAULT));
  } else {
    status = BLAS(GemmStridedBatchedEx_64)(handle.get(), a.op, transposed(b.op), g.m, g.n, g.k, &one, g.a.data,
                                           data_type(g.a.type), a.leading, g.a.batch_stride, g.b.data,
                                           data_type(g.b.type), b.leading, g.b.batch_stride, &beta, g.c, kTypeF32,
                                           c_leading, g.c_batch_stride, g.batch, compute, BLAS_CONSTANT(GEMM_DEFAULT));
  }
  return status == kDone ? NIBBLE_OK : failed(why, " product", status);
}

bool both_f32(nibble_format a, nibble_format b) { return a == NIBBLE_F32 && b == NIBBLE_F32; }
bool alike(nibble_format a, nibble_format b) { return a == b && (kMultipliesHalves || a != NIBBLE_F16); }
bool alike_and_short(nibble_format a, nibble_format b) { return alike(a, b) && a != NIBBLE_F32; }

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
const GemmEngine kBlasHalf = engine(NIBBLE_MATH_TF32, NIBBLE_F16, alike);
const GemmEngine kBlasBf16 = engine(NIBBLE_MATH_BF16, NIBBLE_BF16, alike_and_short);

}  // namespace nibble::gpu
