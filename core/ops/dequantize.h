// dequantize: dst = the weight's values, rounded once to dst's type.
// Apart from the other operations so that its rules, its reference and its docs are in one place.
#ifndef NIBBLE_CORE_OPS_DEQUANTIZE_H
#define NIBBLE_CORE_OPS_DEQUANTIZE_H

#include <nibble/abi.h>
#include <nibble/status.hpp>

#include <cstdint>

namespace nibble::ops::dequantize {

/// weight [n0, n1, n2, n3] in any format, dst of the same shape in f32, f16 or bf16. Pointers are not looked at.
Status validate(const nibble_request& r);
std::uint64_t reference_workspace(const nibble_request& r);
/// The values of core/decode.h one by one. The request has passed validate and the data checks.
void reference(const nibble_request& r, void* workspace);

}  // namespace nibble::ops::dequantize

#endif
