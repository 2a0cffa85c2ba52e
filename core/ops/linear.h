// linear: the forward of a frozen layer, activations times the transposed weight, plus a bias.
// Apart from the other operations so that its rules, its reference and its docs are in one place.
#ifndef NIBBLE_CORE_OPS_LINEAR_H
#define NIBBLE_CORE_OPS_LINEAR_H

#include <nibble/abi.h>
#include <nibble/status.hpp>

#include <cstdint>

namespace nibble::ops::linear {

/// dst[o, t] = sum over i of weight[i, o] * src1[i, t], + bias[o]
/// weight [in, out], src1 [in, tokens], bias [out] or absent, dst [out, tokens]. A batch is folded into tokens.
Status validate(const nibble_request& r);
std::uint64_t reference_workspace(const nibble_request& r);
/// Sums in binary64 and rounds once.
void reference(const nibble_request& r, void* workspace);

}  // namespace nibble::ops::linear

#endif
