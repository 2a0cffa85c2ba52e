// Grids in a device's own memory.
// Apart from the engine that decodes so that what multiplies reads them without compiling its kernels.
#ifndef NIBBLE_BACKENDS_GPU_DEVICE_GRID_H
#define NIBBLE_BACKENDS_GPU_DEVICE_GRID_H

#include "backends/gpu/bodies.h"

namespace nibble::gpu {

/// A device cannot index the host's constants.
template <Grid grid>
__device__ const auto device_grid = biased_grid<grid>();

}  // namespace nibble::gpu

#endif
