// HIP's runtime under the names that backends/gpu/runtime.cpp uses.
// Apart from it because this is all that it needs to know of HIP.
#ifndef NIBBLE_BACKENDS_HIP_NATIVE_H
#define NIBBLE_BACKENDS_HIP_NATIVE_H

#include <hip/hip_runtime_api.h>

#define GPU(name) hip##name
#define GPU_RUNTIME_NAME "HIP"

namespace nibble::gpu {
inline constexpr hipError_t kNoCode = hipErrorNoBinaryForGpu, kNoMemory = hipErrorOutOfMemory;
inline constexpr hipDeviceAttribute_t kProcessorCount = hipDeviceAttributeMultiprocessorCount;
}  // namespace nibble::gpu

#endif
