// The engine for formats of runs.
// Apart from the other engines so that each compiles on its own.
#include "backends/gpu/runs.h"

namespace nibble::gpu {

nibble_status decode_runs(nibble_format from, nibble_format to, const Rows& rows, Stream stream, nibble_text* why) {
  return decode_runs_on(from, to, rows, stream, why);
}

}  // namespace nibble::gpu
