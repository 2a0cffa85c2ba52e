// What of a device the CUDA plugins ask: whether it runs their code, and its capabilities.
// Apart from the runtime because it knows the architectures that were compiled in, and from the plugins because both
// ask.
#include "backends/gpu/device_code.h"

#include "backends/gpu/images.h"
#include "backends/gpu/runtime.h"
#include "backends/gpu/text.h"

#include <cuda_runtime_api.h>

#include <cstring>

namespace nibble::gpu {

nibble_status device_has_code(const nibble_kernel* /*k*/, const nibble_caps* caps, const nibble_request* /*r*/,
                              nibble_text* why) {
  if (code_for(NIBBLE_CUDA_IMAGES, caps->arch_major, caps->arch_minor) != 0) return NIBBLE_OK;
  return fail(why, NIBBLE_UNSUPPORTED, "no code for compute capability {}.{}: this build has {}", caps->arch_major,
              caps->arch_minor, NIBBLE_CUDA_IMAGES);
}

nibble_status device_caps(std::int32_t device, nibble_caps* out, nibble_text* why) {
  cudaDeviceProp p{};
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device); error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return fail(why, NIBBLE_DEVICE_ERROR, "asking for the device's properties: {}", cudaGetErrorString(error));
  }
  out->device_type = NIBBLE_DEVICE_CUDA;
  out->device_index = device;
  out->arch_major = static_cast<std::uint32_t>(p.major);
  out->arch_minor = static_cast<std::uint32_t>(p.minor);
  out->lanes = static_cast<std::uint32_t>(p.warpSize);
  out->isa = 0;
  out->memory_bytes = p.totalGlobalMem;
  out->cache_bytes = static_cast<std::uint64_t>(p.l2CacheSize);
  out->shared_bytes_per_block = p.sharedMemPerBlockOptin;
  out->processors = static_cast<std::uint32_t>(p.multiProcessorCount);
  const auto end = fmt::format_to_n(out->arch, sizeof out->arch - 1, "{}.{}", p.major, p.minor);
  *end.out = '\0';
  std::strncpy(out->name, p.name, sizeof out->name - 1);
  out->name[sizeof out->name - 1] = '\0';
  return NIBBLE_OK;
}

nibble_status qualified_caps(std::int32_t device, const void* kernel, nibble_caps* out, nibble_text* why) {
  if (const nibble_status s = device_caps(device, out, why); s != NIBBLE_OK) return s;
  return has_code_for(device, kernel, why);
}

}  // namespace nibble::gpu
