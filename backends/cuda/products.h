// The rows of the operations that multiply, for the plugin's list.
// Apart from their files so that plugin.cpp knows no more of them than that they exist.
#ifndef NIBBLE_BACKENDS_CUDA_PRODUCTS_H
#define NIBBLE_BACKENDS_CUDA_PRODUCTS_H

#include <nibble/abi.h>

#include <span>

namespace nibble::cuda {

/// Static data; contacts no driver.
std::span<const nibble_kernel* const> product_rows();

}  // namespace nibble::cuda

#endif
