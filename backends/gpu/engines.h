// The engines' entry points and how they choose an instance by format and output type.
// Apart from decode.h because only the decoder calls them: each is one translation unit of a back end.
#ifndef NIBBLE_BACKENDS_GPU_ENGINES_H
#define NIBBLE_BACKENDS_GPU_ENGINES_H

#include "backends/gpu/device.h"
#include "backends/gpu/rows.h"
#include "backends/gpu/runtime.h"
#include "core/formats/formats.h"

namespace nibble::gpu {

/// Source positions are bytes.
nibble_status decode_runs(nibble_format from, nibble_format to, const Rows& rows, Stream stream, nibble_text* why);
nibble_status decode_grid(nibble_format from, nibble_format to, const Rows& rows, Stream stream, nibble_text* why);
nibble_status decode_base3(nibble_format from, nibble_format to, const Rows& rows, Stream stream, nibble_text* why);
nibble_status decode_element(nibble_format from, nibble_format to, const Rows& rows, Stream stream, nibble_text* why);
/// Source positions are values. `scales`: f32, one a block, stored or rebuilt.
nibble_status decode_flat(const nibble_weight& w, nibble_format to, const Rows& rows, const float* scales,
                          Stream stream, nibble_text* why);
/// The same for nested weights, whose scales it makes itself.
nibble_status decode_nested(const nibble_weight& w, nibble_format to, const Rows& rows, Stream stream,
                            nibble_text* why);

/// A kernel of an engine, to ask whether a device can run the module's code.
const void* an_element_kernel();
const void* a_nested_kernel();

/// Calls visit(F{}, Out{}) for a format of the engine and an output type; halves may be scaled, but for those of
/// elements.
template <Engine engine, class Visit>
nibble_status with_types(nibble_format from, nibble_format to, bool scaled, Visit&& visit) {
  nibble_status status = NIBBLE_UNSUPPORTED;
  visit_format(from, [&](auto f) {
    if constexpr (decltype(f)::kEngine == engine) {
      if (scaled) {
        if constexpr (engine != Engine::element && NIBBLE_SCALED_HALVES)
          status = to == NIBBLE_F16 ? visit(f, AsScaledHalf{}) : NIBBLE_UNSUPPORTED;
        return;
      }
      status = to == NIBBLE_F32 ? visit(f, AsFloat{}) : to == NIBBLE_F16 ? visit(f, AsHalf{}) : visit(f, AsBfloat16{});
    }
  });
  return status;
}

/// Launches a kernel whose first argument is its tiles, one a block.
template <class Kernel, class... Arguments>
nibble_status launch_tiles(Kernel kernel, const char* name, std::uint32_t threads, int tile_values, const Rows& rows,
                           Stream stream, nibble_text* why, const Arguments&... arguments) {
  return in_pieces(rows, tile_values, [&](const Tiles& tiles) {
    return launch(kernel, {name, tiles.count, threads}, stream, why, tiles, arguments...);
  });
}

}  // namespace nibble::gpu

#endif
