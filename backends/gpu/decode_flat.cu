// The engine for codes over the whole tensor, from stored or rebuilt scales.
// Apart from the other engines so that each compiles on its own.
#include "backends/gpu/decode.h"
#include "backends/gpu/flat_two_step.h"

namespace nibble::gpu {

nibble_status decode_flat(const nibble_weight& w, nibble_format to, const Rows& rows, const float* scales,
                          Stream stream, nibble_text* why) {
  return decode_flat_on(w, to, rows, scales, stream, why);
}

nibble_status rebuild_scales(const nibble_weight& w, float* out, Stream stream, nibble_text* why) {
  return rebuild_scales_on(w, out, stream, why);
}

}  // namespace nibble::gpu
