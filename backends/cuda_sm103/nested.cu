// The engine for codes over the whole tensor with nested scales made in the value pass, compiled for CUDA.
// Apart from the plugin because it is device code; the source is the generic engine's, with the other kind of scales.
#include "backends/gpu/flat.h"

namespace nibble::gpu {

nibble_status decode_nested(const nibble_weight& w, nibble_format to, const Rows& rows, Stream stream,
                            nibble_text* why) {
  return launch_flat(w, to, rows, nested_scales(w), nullptr, stream, why);
}

const void* a_nested_kernel() { return reinterpret_cast<const void*>(flat_kernel<format::NF4, AsHalf, NestedScales>); }

}  // namespace nibble::gpu
