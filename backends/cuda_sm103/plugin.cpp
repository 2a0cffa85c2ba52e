// The kernel that rebuilds nested scales inside the value pass, as a back end of its own.
// Apart from the generic CUDA plugin so that building this one changes nothing in that one.
#include <nibble/tensor.hpp>

#include "backends/gpu/decode.h"
#include "backends/gpu/device_code.h"
#include "backends/gpu/engines.h"
#include "backends/gpu/text.h"

#include <iterator>

namespace nibble::cuda_sm103 {
namespace {

constexpr nibble_format kFormats[] = {NIBBLE_NF4, NIBBLE_FP4};
constexpr nibble_format kTypes[] = {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16};

// Needs alone. Which chip and which nested block size it is preferred for is a rule's business.
nibble_status supports(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r, nibble_text* why) {
  if (!nested(r->weight))
    return gpu::fail(why, NIBBLE_UNSUPPORTED, "the weight's statistics are plain: expected nested");
  return gpu::device_has_code(k, caps, r, why);
}

nibble_status query(const nibble_kernel* /*k*/, const nibble_caps* /*caps*/, const nibble_request* /*r*/,
                    nibble_workspace_need* need, nibble_text* /*why*/) {
  need->bytes = need->minimum_bytes = 0;
  need->alignment = 1;
  return NIBBLE_OK;
}

nibble_status execute(const nibble_kernel* /*k*/, const nibble_caps* /*caps*/, const nibble_request* r,
                      void* /*workspace*/, std::uint64_t /*workspace_bytes*/, void* stream, nibble_text* why) {
  const gpu::DeviceGuard guard(r->weight.packed.device_index, why);
  if (guard.status() != NIBBLE_OK) return guard.status();
  return gpu::decode_tensor_nested(r->weight, r->dst, stream, why);
}

nibble_status device_caps(std::int32_t device, nibble_caps* out, nibble_text* why) {
  return gpu::qualified_caps(device, gpu::a_nested_kernel(), out, why);
}

constexpr nibble_kernel kNested = {.struct_size = sizeof(nibble_kernel),
                                   .op = NIBBLE_OP_DEQUANTIZE,
                                   .name = "cuda_sm103.dequantize.nested",
                                   .tier = NIBBLE_TIER_BY_RULE,
                                   .rank = 0,
                                   .math = NIBBLE_MATH_DEFAULT,
                                   .device_type = NIBBLE_DEVICE_CUDA,
                                   .isa = 0,
                                   .formats = kFormats,
                                   .format_count = std::size(kFormats),
                                   .types = kTypes,
                                   .type_count = std::size(kTypes),
                                   .self = nullptr,
                                   .supports = supports,
                                   .query = query,
                                   .execute = execute};
constexpr const nibble_kernel* kRows[] = {&kNested};

constexpr nibble_plugin kPlugin = {.struct_size = sizeof(nibble_plugin),
                                   .abi_major = NIBBLE_ABI_MAJOR,
                                   .abi_minor = NIBBLE_ABI_MINOR,
                                   .device_type = NIBBLE_DEVICE_CUDA,
                                   .name = "cuda_sm103",
                                   .version = NIBBLE_VERSION,
                                   .kernels = kRows,
                                   .kernel_count = std::size(kRows),
                                   .open = nullptr,
                                   .device_count = gpu::device_count,
                                   .device_caps = device_caps,
                                   .memory = &gpu::kMemory};

}  // namespace
}  // namespace nibble::cuda_sm103

extern "C" NIBBLE_EXPORT const nibble_plugin* nibble_plugin_query(std::uint32_t host_major, std::uint32_t) {
  return host_major == NIBBLE_ABI_MAJOR ? &nibble::cuda_sm103::kPlugin : nullptr;
}
