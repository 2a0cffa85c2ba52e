// out_prod: the gradient through a frozen layer, a sum of outer products of the weight's rows and src1's.
// Apart from the other operations so that its rules, its reference and its docs are in one place.
#ifndef NIBBLE_CORE_OPS_OUT_PROD_H
#define NIBBLE_CORE_OPS_OUT_PROD_H

#include <nibble/abi.h>
#include <nibble/status.hpp>

#include <cstdint>

namespace nibble::ops::out_prod {

/// dst[i0, i1, i2, i3] = sum over k of weight[i0, k, i2/r2, i3/r3] * src1[i1, k, i2, i3]
/// weight [ne00, K, ne02, ne03], src1 [ne10, K, ne12, ne13] with any strides, dst [ne00, ne10, ne12, ne13];
/// r2 = ne12/ne02 and r3 = ne13/ne03 are whole. With NIBBLE_FLAG_ACCUMULATE the sum is added to dst.
Status validate(const nibble_request& r);
std::uint64_t reference_workspace(const nibble_request& r);
/// Sums in binary64 and rounds once.
void reference(const nibble_request& r, void* workspace);

}  // namespace nibble::ops::out_prod

#endif
