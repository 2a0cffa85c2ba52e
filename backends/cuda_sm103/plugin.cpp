// The kernels that rebuild nested scales inside the value pass, as a back end of its own.
// Apart from the generic CUDA plugin so that building this one changes nothing in that one.
#include <nibble/tensor.hpp>

#include "backends/gpu/decode.h"
#include "backends/gpu/device_code.h"
#include "backends/gpu/engines.h"
#include "backends/gpu/product_rows.h"
#include "backends/gpu/text.h"

#if NIBBLE_HAVE_BLAS
#include "backends/gpu/blas_products.h"
#endif

#include <array>
#include <iterator>

namespace nibble::cuda_sm103 {
namespace {

constexpr nibble_format kFormats[] = {NIBBLE_NF4, NIBBLE_FP4};

// Needs alone. Which chip and which nested block size they are preferred for is a rule's business.
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

constexpr gpu::Standing kByRule = {NIBBLE_TIER_BY_RULE, 0};

constexpr nibble_kernel kDequantize = {.struct_size = sizeof(nibble_kernel),
                                       .op = NIBBLE_OP_DEQUANTIZE,
                                       .name = "cuda_sm103.dequantize.nested",
                                       .tier = kByRule.tier,
                                       .rank = kByRule.rank,
                                       .math = NIBBLE_MATH_DEFAULT,
                                       .device_type = NIBBLE_DEVICE_CUDA,
                                       .isa = 0,
                                       .formats = kFormats,
                                       .format_count = std::size(kFormats),
                                       .types = gpu::kResultTypes,
                                       .type_count = std::size(gpu::kResultTypes),
                                       .self = nullptr,
                                       .supports = supports,
                                       .query = query,
                                       .execute = execute};

// The products decode with the same kernel and are otherwise the generic back end's.
#if NIBBLE_HAVE_BLAS
using Blas = gpu::BlasProducts<gpu::kNestedDecoder, true>;

constexpr nibble_kernel row(nibble_op op, const char* name, nibble_math math, const gpu::Product& self) {
  return gpu::product_row(op, name, kByRule, math, NIBBLE_DEVICE_CUDA, kFormats, self);
}
constexpr nibble_kernel kProducts[] = {
    row(NIBBLE_OP_OUT_PROD, "cuda_sm103.out_prod.row_blocks.bf16", NIBBLE_MATH_BF16, Blas::kMatrixBf16),
    row(NIBBLE_OP_OUT_PROD, "cuda_sm103.out_prod.whole.bf16", NIBBLE_MATH_BF16, Blas::kBatchBf16),
    row(NIBBLE_OP_LINEAR, "cuda_sm103.linear.row_blocks.bf16", NIBBLE_MATH_BF16, Blas::kMatrixBf16),
    row(NIBBLE_OP_OUT_PROD, "cuda_sm103.out_prod.row_blocks", NIBBLE_MATH_TF32, Blas::kMatrixTf32),
    row(NIBBLE_OP_OUT_PROD, "cuda_sm103.out_prod.row_blocks.f32", NIBBLE_MATH_F32, Blas::kMatrixF32),
    row(NIBBLE_OP_OUT_PROD, "cuda_sm103.out_prod.whole", NIBBLE_MATH_TF32, Blas::kBatchTf32),
    row(NIBBLE_OP_OUT_PROD, "cuda_sm103.out_prod.whole.f32", NIBBLE_MATH_F32, Blas::kBatchF32),
    row(NIBBLE_OP_LINEAR, "cuda_sm103.linear.row_blocks", NIBBLE_MATH_TF32, Blas::kMatrixTf32),
    row(NIBBLE_OP_LINEAR, "cuda_sm103.linear.row_blocks.f32", NIBBLE_MATH_F32, Blas::kMatrixF32),
};
#else
constexpr std::array<nibble_kernel, 0> kProducts = {};
#endif

constexpr auto kRows = [] {
  std::array<const nibble_kernel*, 1 + std::size(kProducts)> rows = {&kDequantize};
  for (std::size_t i = 0; i < std::size(kProducts); ++i) rows[1 + i] = &kProducts[i];
  return rows;
}();

constexpr nibble_plugin kPlugin = {.struct_size = sizeof(nibble_plugin),
                                   .abi_major = NIBBLE_ABI_MAJOR,
                                   .abi_minor = NIBBLE_ABI_MINOR,
                                   .device_type = NIBBLE_DEVICE_CUDA,
                                   .name = "cuda_sm103",
                                   .version = NIBBLE_VERSION,
                                   .kernels = kRows.data(),
                                   .kernel_count = kRows.size(),
                                   .open = nullptr,
                                   .device_count = gpu::device_count,
                                   .device_caps = device_caps,
                                   .memory = &gpu::kMemory};

}  // namespace
}  // namespace nibble::cuda_sm103

extern "C" NIBBLE_EXPORT const nibble_plugin* nibble_plugin_query(std::uint32_t host_major, std::uint32_t) {
  return host_major == NIBBLE_ABI_MAJOR ? &nibble::cuda_sm103::kPlugin : nullptr;
}
