// out_prod on a GPU: the weight decoded a block of rows at a time, each block's product added to dst.
// Apart from the engines and the back ends because the cut into blocks is the same for all of them.
#ifndef NIBBLE_BACKENDS_GPU_OUT_PROD_H
#define NIBBLE_BACKENDS_GPU_OUT_PROD_H

#include "backends/gpu/gemm_plan.h"

namespace nibble::gpu {

/// How a call is cut. A tile of dst is [ne00, tokens, batches]; batches counts the matrices of dst that share a weight
/// slice. Every tile sums over all blocks of `rows` rows of the weight.
struct OutProdPlan {
  Operands operands;
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
  std::int64_t batches = 0;
  std::int64_t decoded_row = 0;  ///< values between the starts of decoded rows
  Pieces pieces;
  [[nodiscard]] std::uint64_t total() const { return pieces.total(); }
};

/// The largest blocks that fit `bytes`; below out_prod_least_bytes, the least.
OutProdPlan plan_out_prod(const ProductTools& tools, const nibble_request& r, std::uint64_t bytes);
/// One row of the weight at a time, into one row of dst.
std::uint64_t out_prod_least_bytes(const ProductTools& tools, const nibble_request& r);

nibble_status query_out_prod(const ProductTools& tools, const nibble_request& r, nibble_workspace_need* need);
nibble_status run_out_prod(const ProductTools& tools, const nibble_request& r, void* workspace,
                           std::uint64_t workspace_bytes, Stream stream, nibble_text* why);

}  // namespace nibble::gpu

#endif
