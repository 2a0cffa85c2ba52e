// What of a device the HIP plugin asks: whether it runs its code, and its capabilities.
// Apart from the runtime because it knows the architectures that were compiled in.
#include "backends/gpu/device_code.h"
#include "backends/gpu/runtime.h"
#include "backends/gpu/text.h"

#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace nibble::gpu {
namespace {

/// The list that the build was given, with commas. Code for one chip runs on no other.
constexpr std::string_view kImages = NIBBLE_HIP_IMAGES;

bool has_code(std::string_view arch) {
  for (std::string_view rest = kImages; !rest.empty();) {
    const std::size_t end = rest.find(',');
    if (rest.substr(0, end) == arch) return true;
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  }
  return false;
}

void copy_text(char* to, std::size_t capacity, std::string_view text) {
  const std::size_t size = std::min(text.size(), capacity - 1);
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
}

}  // namespace

nibble_status device_has_code(const nibble_kernel* /*k*/, const nibble_caps* caps, const nibble_request* /*r*/,
                              nibble_text* why) {
  if (has_code(caps->arch)) return NIBBLE_OK;
  return fail(why, NIBBLE_UNSUPPORTED, "no code for {}: this build has {}", caps->arch, kImages);
}

nibble_status device_caps(std::int32_t device, nibble_caps* out, nibble_text* why) {
  hipDeviceProp_t p{};
  if (const hipError_t error = hipGetDeviceProperties(&p, device); error != hipSuccess) {
    static_cast<void>(hipGetLastError());
    return fail(why, NIBBLE_DEVICE_ERROR, "asking for the device's properties: {}", hipGetErrorString(error));
  }
  out->device_type = NIBBLE_DEVICE_HIP;
  out->device_index = device;
  out->arch_major = out->arch_minor = 0;
  out->lanes = static_cast<std::uint32_t>(p.warpSize);
  out->isa = 0;
  out->memory_bytes = p.totalGlobalMem;
  out->cache_bytes = static_cast<std::uint64_t>(p.l2CacheSize);
  out->shared_bytes_per_block = p.sharedMemPerBlock;
  out->processors = static_cast<std::uint32_t>(p.multiProcessorCount);
  const std::string_view arch = p.gcnArchName;  // "gfx90a:sramecc+:xnack-"
  copy_text(out->arch, sizeof out->arch, arch.substr(0, arch.find(':')));
  copy_text(out->name, sizeof out->name, p.name);
  return NIBBLE_OK;
}

nibble_status qualified_caps(std::int32_t device, const void* kernel, nibble_caps* out, nibble_text* why) {
  if (const nibble_status s = device_caps(device, out, why); s != NIBBLE_OK) return s;
  return has_code_for(device, kernel, why);
}

}  // namespace nibble::gpu
