// Whether a device, real or invented, runs the code that was compiled in. Each back end defines these once.
// Apart from the rows because the plugins' lists and every row ask.
#ifndef NIBBLE_BACKENDS_GPU_DEVICE_CODE_H
#define NIBBLE_BACKENDS_GPU_DEVICE_CODE_H

#include <nibble/abi.h>

#include <cstdint>

namespace nibble::gpu {

/// By the capabilities alone: pure, as nibble_kernel::supports must be.
nibble_status device_has_code(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                              nibble_text* why);

/// A real device's capabilities; a status with the reason where the runtime says that it cannot run `kernel`.
nibble_status qualified_caps(std::int32_t device, const void* kernel, nibble_caps* out, nibble_text* why);

}  // namespace nibble::gpu

#endif
