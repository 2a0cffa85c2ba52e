// The engine for values that are stored as themselves.
// Apart from the other engines so that each compiles on its own.
#include "backends/gpu/element.h"

namespace nibble::gpu {

nibble_status decode_element(nibble_format from, nibble_format to, const Rows& rows, Stream stream, nibble_text* why) {
  return decode_element_on(from, to, rows, stream, why);
}

const void* an_element_kernel() { return reinterpret_cast<const void*>(element_kernel<format::F32, AsFloat>); }

}  // namespace nibble::gpu
