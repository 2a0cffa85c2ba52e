// linear on a GPU: the weight decoded a block of outputs at a time, each block's product a block of dst.
// Apart from out_prod because here a block of the weight is a block of the result: nothing is summed over blocks.
#ifndef NIBBLE_BACKENDS_GPU_LINEAR_H
#define NIBBLE_BACKENDS_GPU_LINEAR_H

#include "backends/gpu/gemm_plan.h"

namespace nibble::gpu {

/// How a call is cut: for each `tokens` columns of dst, blocks of `rows` outputs.
struct LinearPlan {
  Operands operands;
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
  std::int64_t decoded_row = 0;  ///< values between the starts of decoded rows
  Pieces pieces;
  [[nodiscard]] std::uint64_t total() const { return pieces.total(); }
};

/// The largest blocks that fit `bytes`; below linear_least_bytes, the least.
LinearPlan plan_linear(const ProductTools& tools, const nibble_request& r, std::uint64_t bytes);
/// One output of one token at a time.
std::uint64_t linear_least_bytes(const ProductTools& tools, const nibble_request& r);

nibble_status query_linear(const ProductTools& tools, const nibble_request& r, nibble_workspace_need* need);
nibble_status run_linear(const ProductTools& tools, const nibble_request& r, void* workspace,
                         std::uint64_t workspace_bytes, Stream stream, nibble_text* why);

}  // namespace nibble::gpu

#endif
