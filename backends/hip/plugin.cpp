// The HIP back end as the host sees it: its rows and its devices.
// Apart from the kernels because loading it must contact no driver.
#include <nibble/abi.h>

#include "backends/gpu/dequantize.h"
#include "backends/gpu/device_code.h"
#include "backends/gpu/engines.h"
#include "backends/gpu/product_rows.h"
#include "backends/gpu/runtime.h"

#if NIBBLE_HAVE_BLAS
#include "backends/gpu/blas_products.h"
#endif

namespace nibble::hip {
namespace {

using gpu::Product;

constexpr nibble_kernel row(nibble_op op, const char* name, std::uint32_t rank, nibble_math math, const Product& self) {
  return gpu::product_row(op, name, {NIBBLE_TIER_GENERIC, rank}, math, NIBBLE_DEVICE_HIP, gpu::kAllFormats, self);
}

constexpr Product kPortable{{&gpu::kPortableEngine, &gpu::kTwoStepDecoder}};
#if NIBBLE_HAVE_BLAS
using Blas = gpu::BlasProducts<gpu::kTwoStepDecoder>;
#endif

constexpr nibble_kernel kKernels[] = {
    gpu::dequantize_row("hip.dequantize.blocks", NIBBLE_DEVICE_HIP, gpu::kBlockFormats),
    gpu::dequantize_row("hip.dequantize.codebook", NIBBLE_DEVICE_HIP, gpu::kCodebookFormats),
#if NIBBLE_HAVE_BLAS
    row(NIBBLE_OP_OUT_PROD, "hip.out_prod.row_blocks.bf16", 30, NIBBLE_MATH_BF16, Blas::kMatrixBf16),
    row(NIBBLE_OP_OUT_PROD, "hip.out_prod.whole.bf16", 30, NIBBLE_MATH_BF16, Blas::kBatchBf16),
    row(NIBBLE_OP_LINEAR, "hip.linear.row_blocks.bf16", 30, NIBBLE_MATH_BF16, Blas::kMatrixBf16),
    row(NIBBLE_OP_OUT_PROD, "hip.out_prod.row_blocks", 20, NIBBLE_MATH_TF32, Blas::kMatrixTf32),
    row(NIBBLE_OP_OUT_PROD, "hip.out_prod.row_blocks.f32", 10, NIBBLE_MATH_F32, Blas::kMatrixF32),
    row(NIBBLE_OP_OUT_PROD, "hip.out_prod.whole", 20, NIBBLE_MATH_TF32, Blas::kBatchTf32),
    row(NIBBLE_OP_OUT_PROD, "hip.out_prod.whole.f32", 10, NIBBLE_MATH_F32, Blas::kBatchF32),
    row(NIBBLE_OP_LINEAR, "hip.linear.row_blocks", 20, NIBBLE_MATH_TF32, Blas::kMatrixTf32),
    row(NIBBLE_OP_LINEAR, "hip.linear.row_blocks.f32", 10, NIBBLE_MATH_F32, Blas::kMatrixF32),
#endif
    row(NIBBLE_OP_OUT_PROD, "hip.out_prod.portable", 0, NIBBLE_MATH_F32, kPortable),
    row(NIBBLE_OP_LINEAR, "hip.linear.portable", 0, NIBBLE_MATH_F32, kPortable),
};
constexpr auto kRows = gpu::pointers_to(kKernels);

nibble_status device_caps(std::int32_t device, nibble_caps* out, nibble_text* why) {
  return gpu::qualified_caps(device, gpu::an_element_kernel(), out, why);
}

}  // namespace
}  // namespace nibble::hip

extern "C" NIBBLE_EXPORT const nibble_plugin* nibble_plugin_query(std::uint32_t host_major, std::uint32_t) {
  using namespace nibble;
  static constexpr nibble_plugin kPlugin = {.struct_size = sizeof(nibble_plugin),
                                            .abi_major = NIBBLE_ABI_MAJOR,
                                            .abi_minor = NIBBLE_ABI_MINOR,
                                            .device_type = NIBBLE_DEVICE_HIP,
                                            .name = "hip",
                                            .version = NIBBLE_VERSION,
                                            .kernels = hip::kRows.data(),
                                            .kernel_count = hip::kRows.size(),
                                            .open = nullptr,
                                            .device_count = gpu::device_count,
                                            .device_caps = hip::device_caps,
                                            .memory = &gpu::kMemory};
  return host_major == NIBBLE_ABI_MAJOR ? &kPlugin : nullptr;
}
