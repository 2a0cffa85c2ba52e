// Decoding whole tensors and ranges of rows on a GPU: what dequantize is made of and the products build on.
// Apart from the engines so that callers know neither formats nor kernels.
#ifndef NIBBLE_BACKENDS_GPU_DECODE_H
#define NIBBLE_BACKENDS_GPU_DECODE_H

#include <nibble/abi.h>

#include "backends/gpu/runtime.h"

#include <cstdint>

namespace nibble::gpu {

// Everything here enqueues on `stream` of the current device, which must be the weight's, and neither allocates nor
// synchronizes. Weights have passed core's validation. Values are the bits of nibble::decode_row, rounded once to `to`.

/// Bytes of f32 scales that a nested weight needs rebuilt before decode_rows and decode_tensor: 4 a block; 0 for every
/// other weight. They are aligned to 16 bytes or more.
std::uint64_t decode_scales_bytes(const nibble_weight& w);
/// Rebuilds all of them, once a call. Does nothing for a weight that needs none.
nibble_status rebuild_scales(const nibble_weight& w, float* out, Stream stream, nibble_text* why);

/// Rows i1_first .. i1_first + i1_count of slice (i2, i3), each to `out` + row * out_row_stride_elements elements of
/// `to` (f32, f16 or bf16). A stride of shape[0] gives one contiguous piece. `scales` comes from rebuild_scales and is
/// null for weights that need none. Fastest where `out` and its rows are aligned to 16 bytes.
nibble_status decode_rows(const nibble_weight& w, std::int64_t i1_first, std::int64_t i1_count, std::int64_t i2,
                          std::int64_t i3, nibble_format to, void* out, std::int64_t out_row_stride_elements,
                          const float* scales, Stream stream, nibble_text* why);

/// The same as halves of values times a power of two that lies on the device, which the caller chose so that they fit.
/// Not for weights of plain elements.
nibble_status decode_rows_scaled(const nibble_weight& w, std::int64_t i1_first, std::int64_t i1_count, void* out,
                                 std::int64_t out_row_stride_elements, const float* scales, const float* power,
                                 Stream stream, nibble_text* why);

/// The whole weight into `dst` of the same shape, any strides that validation lets pass.
nibble_status decode_tensor(const nibble_weight& w, const nibble_tensor& dst, const float* scales, Stream stream,
                            nibble_text* why);

/// The same for nested NF4 and FP4 in one launch without rebuilt scales: each is made where it is used. Defined only in
/// plugins that compile decode_nested.cpp.
nibble_status decode_tensor_nested(const nibble_weight& w, const nibble_tensor& dst, Stream stream, nibble_text* why);

/// How the products get at a weight's rows: the functions above, or others that give the same bits. Static data.
struct WeightDecoder {
  std::uint64_t (*scales_bytes)(const nibble_weight&);
  nibble_status (*rebuild_scales)(const nibble_weight&, float* out, Stream, nibble_text* why);
  nibble_status (*rows)(const nibble_weight&, std::int64_t i1_first, std::int64_t i1_count, std::int64_t i2,
                        std::int64_t i3, nibble_format to, void* out, std::int64_t out_row_stride_elements,
                        const float* scales, Stream, nibble_text* why);
};
inline constexpr WeightDecoder kTwoStepDecoder = {decode_scales_bytes, rebuild_scales, decode_rows};
/// Nested weights alone, in one launch: no scales. In plugins that compile decode_nested.cpp.
extern const WeightDecoder kNestedDecoder;

}  // namespace nibble::gpu

#endif
