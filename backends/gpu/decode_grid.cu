// The engine for grid formats.
// Apart from the other engines so that each compiles on its own.
#include "backends/gpu/grid.h"

namespace nibble::gpu {

nibble_status decode_grid(nibble_format from, nibble_format to, const Rows& rows, Stream stream, nibble_text* why) {
  return decode_grid_on(from, to, rows, stream, why);
}

}  // namespace nibble::gpu
