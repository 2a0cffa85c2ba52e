// What of a device the CUDA plugins ask: whether it runs their code, and its capabilities.
// Apart from the runtime because it knows the architectures that were compiled in, and from the plugins because both
// ask.
#include "backends/gpu/device_code.h"

#include "backends/gpu/images.h"
#include "backends/gpu/runtime.h"
#include "backends/gpu/text.h"

namespace nibble::gpu {

nibble_status device_has_code(const nibble_kernel* /*k*/, const nibble_caps* caps, const nibble_request* /*r*/,
                              nibble_text* why) {
  if (runs_on(NIBBLE_CUDA_IMAGES, caps->arch_major, caps->arch_minor)) return NIBBLE_OK;
  return fail(why, NIBBLE_UNSUPPORTED, "no code for compute capability {}.{}: this build has {}", caps->arch_major,
              caps->arch_minor, NIBBLE_CUDA_IMAGES);
}

nibble_status qualified_caps(std::int32_t device, const void* kernel, nibble_caps* out, nibble_text* why) {
  if (const nibble_status s = device_caps(device, out, why); s != NIBBLE_OK) return s;
  return has_code_for(device, kernel, why);
}

}  // namespace nibble::gpu
