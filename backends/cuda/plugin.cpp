// The CUDA back end as the host sees it: its rows and its devices.
// Apart from the kernels because loading it must contact no driver.
#include <nibble/abi.h>

#include "backends/cuda/products.h"
#include "backends/gpu/dequantize.h"
#include "backends/gpu/device_code.h"
#include "backends/gpu/engines.h"
#include "backends/gpu/runtime.h"

namespace nibble::cuda {
namespace {

constexpr nibble_kernel kDequantizeRows[] = {
    gpu::dequantize_row("cuda.dequantize.blocks", NIBBLE_DEVICE_CUDA, gpu::kBlockFormats),
    gpu::dequantize_row("cuda.dequantize.codebook", NIBBLE_DEVICE_CUDA, gpu::kCodebookFormats),
};

nibble_status device_caps(std::int32_t device, nibble_caps* out, nibble_text* why) {
  return gpu::qualified_caps(device, gpu::an_element_kernel(), out, why);
}

constexpr std::size_t kMostRows = 32;

/// All rows in one list.
struct RowList {
  const nibble_kernel* rows[kMostRows] = {};
  std::size_t count = 0;

  RowList() {
    for (const nibble_kernel& k : kDequantizeRows) rows[count++] = &k;
    for (const nibble_kernel* k : product_rows()) {
      if (count < kMostRows) rows[count++] = k;
    }
  }
};

}  // namespace
}  // namespace nibble::cuda

extern "C" NIBBLE_EXPORT const nibble_plugin* nibble_plugin_query(std::uint32_t host_major, std::uint32_t) {
  using namespace nibble;
  static const cuda::RowList list;
  static const nibble_plugin plugin = {.struct_size = sizeof(nibble_plugin),
                                       .abi_major = NIBBLE_ABI_MAJOR,
                                       .abi_minor = NIBBLE_ABI_MINOR,
                                       .device_type = NIBBLE_DEVICE_CUDA,
                                       .name = "cuda",
                                       .version = NIBBLE_VERSION,
                                       .kernels = list.rows,
                                       .kernel_count = list.count,
                                       .open = nullptr,
                                       .device_count = gpu::device_count,
                                       .device_caps = cuda::device_caps,
                                       .memory = &gpu::kMemory};
  return host_major == NIBBLE_ABI_MAJOR ? &plugin : nullptr;
}
