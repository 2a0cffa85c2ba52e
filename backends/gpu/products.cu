// The shared kernels around and instead of a dense product.
// Apart from the decoders so that each compiles on its own.
#include "backends/gpu/gemm_elements.h"
#include "backends/gpu/gemm_portable.h"
