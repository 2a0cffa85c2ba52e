// The engine for base-3 formats.
// Apart from the other engines so that each compiles on its own.
#include "backends/gpu/base3.h"

namespace nibble::gpu {

nibble_status decode_base3(nibble_format from, nibble_format to, const Rows& rows, Stream stream, nibble_text* why) {
  return decode_base3_on(from, to, rows, stream, why);
}

}  // namespace nibble::gpu
