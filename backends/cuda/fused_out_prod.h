// out_prod for few tokens without expanding the weight: the cut, the run, and what the kernel is told.
// Apart from the kernel because that is device code, and the cut is tested on the host.
#ifndef NIBBLE_BACKENDS_CUDA_FUSED_OUT_PROD_H
#define NIBBLE_BACKENDS_CUDA_FUSED_OUT_PROD_H

#include "backends/gpu/gemm_plan.h"
#include "backends/gpu/runtime.h"

#include <nibble/abi.h>

#include <cstdint>

namespace nibble::cuda {

/// Columns of a block's tile and of a warp's share.
inline constexpr int kFusedColumns = 256;
inline constexpr int kPieceColumns = 32;
/// What a launch serves at most: the most that kernels are made for, and were held against the reference on a GPU.
inline constexpr std::int64_t kMostFusedTokens = 16;

/// One launch: tiles x splits blocks. Strides in elements but row_stride.
struct FusedWork {
  const std::uint8_t* weight = nullptr;
  const std::uint8_t* weight_end = nullptr;  ///< behind its last byte
  std::int64_t row_stride = 0;               ///< bytes
  std::int64_t rows = 0, columns = 0;        ///< of the whole weight
  std::int64_t first_tile = 0, tiles = 0;    ///< of kFusedColumns columns, in this launch
  std::int64_t splits = 0, rows_per_split = 0;
  const void* grad = nullptr;  ///< of the first token of this launch
  nibble_format grad_type = NIBBLE_F32;
  std::int64_t grad_row_stride = 0, grad_token_stride = 0;
  int tokens = 0;
  bool along_rows = false;       ///< neighbours in the gradient follow the weight's rows
  bool aligned = false;          ///< rows lie so that 16 bytes can be copied at a time
  float* parts = nullptr;        ///< [splits, tokens, columns of this launch]
  std::int64_t part_stride = 0;  ///< from one split to the next
  std::int64_t part_token_stride = 0;
  const float* scales = nullptr;  ///< of a bitsandbytes weight: f32, one a block
  int block_shift = 0;            ///< values a block of it, as a power of two
  const float* code = nullptr;    ///< 8-bit ones: 256 values
};

/// How a request is cut to a number of bytes.
struct FusedPlan {
  std::uint64_t scales_bytes = 0;  ///< of a nested weight, rebuilt once a call
  std::int64_t tokens = 0;         ///< of a launch
  std::int64_t tiles = 0;          ///< of a launch
  std::int64_t splits = 0;
  std::int64_t rows_per_split = 0;
  [[nodiscard]] std::uint64_t parts_bytes() const {
    return gpu::aligned(static_cast<std::uint64_t>(splits * tokens * tiles * kFusedColumns) * sizeof(float));
  }
  [[nodiscard]] std::uint64_t total() const { return scales_bytes + parts_bytes(); }
};
/// `blocks` is how many the device should have at once.
FusedPlan plan_fused(const nibble_request& r, std::int64_t blocks, std::uint64_t bytes);

// What a row needs; see abi.h.
nibble_status fused_supports(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                             nibble_text* why);
nibble_status query_fused(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                          nibble_workspace_need* need, nibble_text* why);
nibble_status execute_fused(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r, void* workspace,
                            std::uint64_t workspace_bytes, void* stream, nibble_text* why);

// The launches, each with its formats' kernels.
nibble_status fused_runs(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why);
nibble_status fused_grid(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why);
nibble_status fused_base3(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why);
nibble_status fused_flat(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why);

}  // namespace nibble::cuda

#endif
