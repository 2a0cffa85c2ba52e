// out_prod for many tokens by products of halves: the cut, the run, and what its kernels give.
// Apart from the other blocks of rows because powers of two are taken out of both operands, and put back at the end.
#ifndef NIBBLE_BACKENDS_CUDA_SCALED_HALF_H
#define NIBBLE_BACKENDS_CUDA_SCALED_HALF_H

#include "backends/cuda/fused_out_prod.h"

namespace nibble::cuda {

/// Blocks that look for a weight's largest scale.
inline constexpr int kBoundParts = 1024;
/// A power of two that brings all values of the weight below 2^15, to *power on the device, from its scales alone.
/// Works in partial, kBoundParts numbers.
nibble_status weight_power(nibble_format format, const FusedWork& work, float* partial, float* power,
                           gpu::Stream stream, nibble_text* why);

/// How a request is cut to a number of bytes: blocks of rows for as many tokens at a time as fit.
struct ScaledPlan {
  std::int64_t tokens = 0, rows = 0, decoded_row = 0;
  std::uint64_t scratch = 0, scales = 0, powers = 0, bounds = 0, maxima = 0, sums = 0, decoded = 0, packed = 0;
  [[nodiscard]] std::uint64_t total() const {
    return scratch + scales + powers + bounds + maxima + sums + decoded + packed;
  }
};
ScaledPlan plan_scaled(const nibble_request& r, std::uint64_t bytes);

// What a row needs; see abi.h.
nibble_status scaled_supports(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                              nibble_text* why);
nibble_status query_scaled(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                           nibble_workspace_need* need, nibble_text* why);
nibble_status execute_scaled(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r, void* workspace,
                             std::uint64_t workspace_bytes, void* stream, nibble_text* why);

}  // namespace nibble::cuda

#endif
