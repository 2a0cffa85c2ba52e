// A dense product as data, and what an engine that computes it offers.
// Apart from the operations and the engines so that cuBLAS, hipBLAS and the portable kernel stand behind one interface.
#ifndef NIBBLE_BACKENDS_GPU_GEMM_H
#define NIBBLE_BACKENDS_GPU_GEMM_H

#include "backends/gpu/runtime.h"

#include <nibble/abi.h>

#include <cstdint>

namespace nibble::gpu {

/// An operand in device memory, batches of [outer, k] with any strides, counted in elements.
struct Operand {
  const void* data = nullptr;
  nibble_format type = NIBBLE_F32;  ///< f32, f16 or bf16
  std::int64_t outer_stride = 0;
  std::int64_t k_stride = 0;
  std::int64_t batch_stride = 0;
};

/// c[i, j, batch] (+)= sum over k of a[i, k, batch] * b[j, k, batch]. i runs over neighbours in c; all counts above 0.
struct Gemm {
  Operand a, b;
  float* c = nullptr;
  std::int64_t c_stride = 0;  ///< between neighbours in j, in elements
  std::int64_t c_batch_stride = 0;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  bool add = false;  ///< to what c holds; else c is not read
};

/// Memory that an engine works in. The operation takes it out of its own workspace.
struct Scratch {
  void* data = nullptr;
  std::uint64_t bytes = 0;
};

/// What multiplies. Static data; the functions are reentrant.
struct GemmEngine {
  nibble_math math;            ///< the class that it achieves
  nibble_format operand_type;  ///< that weights are decoded to, and src1 is copied to where it cannot be read in place
  std::uint64_t scratch_bytes;
  std::uint64_t least_scratch_bytes;
  /// True where the operand, of this many values in each dimension, can be read as it lies. f32 and 16-bit alike.
  bool (*reads)(const Operand&, std::int64_t outer, std::int64_t k);
  /// True where operands of these types multiply without being widened, within the class.
  bool (*multiplies)(nibble_format a, nibble_format b);
  nibble_status (*run)(const GemmEngine&, const Gemm&, Scratch, Stream, nibble_text* why);
};

/// Most of k that one product sums up. Tensor cores cut what lies below an accumulator's last place instead of rounding
/// it, an error that grows with the number of additions: 32768 keeps it well under what rounding to TF32 costs.
inline constexpr std::int64_t kMostSummed = 32768;

/// Runs the product in pieces of k that the engine sums within its class.
nibble_status multiply(const GemmEngine& engine, const Gemm& gemm, Scratch scratch, Stream stream, nibble_text* why);

/// f32 accumulation in a fixed order by a kernel of our own: needs no library, reads any strides.
extern const GemmEngine kPortableEngine;
/// Its launch, which lies with the kernel.
nibble_status run_portable(const GemmEngine& engine, const Gemm& gemm, Scratch scratch, Stream stream,
                           nibble_text* why);

/// out[inner + outer * inner_count + batch * inner_count * outer_count] = in, contiguous, rounded once where out is
/// narrower.
struct Pack {
  const void* in = nullptr;
  nibble_format type = NIBBLE_F32;
  std::int64_t inner_stride = 0, outer_stride = 0, batch_stride = 0;  ///< of in, in elements
  void* out = nullptr;
  nibble_format out_type = NIBBLE_F32;
  std::int64_t inner = 0, outer = 0, batch = 1;
  const float *inner_powers = nullptr, *outer_powers = nullptr;  ///< of two, on the device, that in is multiplied by
};
nibble_status pack(const Pack& p, Stream stream, nibble_text* why);

/// out[i, j, batch] = sum over parts of sums[i, j, batch, part] + bias[i] + out[i, j, batch], each where present, in
/// f32 and in that order, rounded once.
struct Finish {
  const float* sums = nullptr;  ///< contiguous
  std::int64_t parts = 0;       ///< 0: zeros, and sums is not read
  const void* bias = nullptr;   ///< nullptr: none
  nibble_format bias_type = NIBBLE_F32;
  std::int64_t bias_stride = 0;  ///< in elements
  void* out = nullptr;
  nibble_format type = NIBBLE_F32;
  std::int64_t out_stride = 0, out_batch_stride = 0;  ///< between neighbours in j and in batch, in elements
  std::int64_t m = 0, n = 0, batch = 1;
  bool add = false;
  const float* powers = nullptr;  ///< of two, one for each j, that sums are divided by; null: none
  const float* power = nullptr;   ///< and one more for all
};
nibble_status finish(const Finish& f, Stream stream, nibble_text* why);

}  // namespace nibble::gpu

#endif
