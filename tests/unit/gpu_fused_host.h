// What the stand-ins for the fused out_prod's kernels are told, and what they leave for tests to see.
// Apart from gpu_fused_host.cpp because tests name these.
#ifndef NIBBLE_TESTS_UNIT_GPU_FUSED_HOST_H
#define NIBBLE_TESTS_UNIT_GPU_FUSED_HOST_H

#include "backends/cuda/fused_out_prod.h"

#include <vector>

namespace nibble::gpu_test {

/// A small device of compute capability 9.0.
inline constexpr nibble_caps kCaps = [] {
  nibble_caps caps{};
  caps.arch_major = 9;
  caps.processors = 3;
  return caps;
}();

/// The values of the weight of the call in hand: what a device would read at FusedWork's weight.
extern std::vector<float> values_in_hand;
void take_in_hand(const nibble_weight& w);

extern int launches;
extern cuda::Cores launched;  ///< last

}  // namespace nibble::gpu_test

#endif
