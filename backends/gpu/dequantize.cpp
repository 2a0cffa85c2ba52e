// The generic dequantize kernels' workspace and call.
// Apart from decode.cpp because that serves the products too and knows no requests.
#include "backends/gpu/dequantize.h"

#include <nibble/tensor.hpp>

#include "backends/gpu/decode.h"
#include "backends/gpu/text.h"

namespace nibble::gpu {

nibble_status query_dequantize(const nibble_kernel* /*k*/, const nibble_caps* /*caps*/, const nibble_request* r,
                               nibble_workspace_need* need, nibble_text* /*why*/) {
  need->bytes = need->minimum_bytes = decode_scales_bytes(r->weight);
  need->alignment = 16;
  return NIBBLE_OK;
}

nibble_status execute_dequantize(const nibble_kernel* k, const nibble_caps* /*caps*/, const nibble_request* r,
                                 void* workspace, std::uint64_t workspace_bytes, void* stream, nibble_text* why) {
  const std::uint64_t needed = decode_scales_bytes(r->weight);
  if (workspace_bytes < needed) {
    return fail(why, NIBBLE_INVALID_ARGUMENT, "{} was given a workspace of {} bytes: expected {}", k->name,
                workspace_bytes, needed);
  }
  const DeviceGuard guard(r->weight.packed.device_index, why);
  if (guard.status() != NIBBLE_OK) return guard.status();
  auto* scales = static_cast<float*>(needed == 0 ? nullptr : workspace);
  if (const nibble_status s = rebuild_scales(r->weight, scales, stream, why)) return s;
  return decode_tensor(r->weight, r->dst, scales, stream, why);
}

}  // namespace nibble::gpu
