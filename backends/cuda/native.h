// CUDA's runtime under the names that backends/gpu/runtime.cpp uses.
// Apart from it because this is all that it needs to know of CUDA.
#ifndef NIBBLE_BACKENDS_CUDA_NATIVE_H
#define NIBBLE_BACKENDS_CUDA_NATIVE_H

#include <cuda_runtime_api.h>

#define GPU(name) cuda##name
#define GPU_RUNTIME_NAME "CUDA"

namespace nibble::gpu {
inline constexpr cudaError_t kNoCode = cudaErrorNoKernelImageForDevice, kNoMemory = cudaErrorMemoryAllocation;
inline constexpr cudaDeviceAttr kProcessorCount = cudaDevAttrMultiProcessorCount;
}  // namespace nibble::gpu

#endif
