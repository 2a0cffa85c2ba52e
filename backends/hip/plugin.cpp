// The HIP back end as the host sees it: its rows and its devices.
// Apart from the kernels because loading it must contact no driver.
#include <nibble/abi.h>

#include "backends/gpu/dequantize.h"
#include "backends/gpu/device_code.h"
#include "backends/gpu/engines.h"
#include "backends/gpu/product_rows.h"
#include "backends/gpu/runtime.h"

namespace nibble::hip {
namespace {

using gpu::Product;
// The kernel of our own: f32 accumulation in a fixed order, any strides.
constexpr Product kMatrix{{&gpu::kPortableEngine, &gpu::kTwoStepDecoder}, Product::Shape::matrix};
constexpr Product kBatch{{&gpu::kPortableEngine, &gpu::kTwoStepDecoder}, Product::Shape::batch};

constexpr nibble_kernel product(nibble_op op, const char* name, const Product& self) {
  return gpu::product_row(op, name, {NIBBLE_TIER_GENERIC, 0}, NIBBLE_MATH_F32, NIBBLE_DEVICE_HIP, gpu::kAllFormats,
                          self);
}

constexpr nibble_kernel kKernels[] = {
    gpu::dequantize_row("hip.dequantize.blocks", NIBBLE_DEVICE_HIP, gpu::kBlockFormats),
    gpu::dequantize_row("hip.dequantize.codebook", NIBBLE_DEVICE_HIP, gpu::kCodebookFormats),
    product(NIBBLE_OP_OUT_PROD, "hip.out_prod.row_blocks.portable", kMatrix),
    product(NIBBLE_OP_OUT_PROD, "hip.out_prod.whole.portable", kBatch),
    product(NIBBLE_OP_LINEAR, "hip.linear.row_blocks.portable", kMatrix),
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
