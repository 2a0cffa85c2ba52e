// The vector engines: one function a format, target and sink, or fewer where the format comes as data.
// Apart from decode.h because only the decode table knows that there are several engines.
#ifndef NIBBLE_BACKENDS_CPU_ENGINES_H
#define NIBBLE_BACKENDS_CPU_ENGINES_H

#include <nibble/abi.h>

#include "backends/cpu/sink.h"
#include "backends/cpu/targets.h"

#include <cstdint>

namespace nibble::cpu {

/// Decodes whole, consecutive blocks.
using BlocksFn = void (*)(const std::uint8_t* blocks, std::int64_t block_count, Destination to);
/// Decodes `count` values from value `first` on, counted over the whole bitsandbytes tensor.
using FlatFn = void (*)(const nibble_weight& w, std::int64_t first, std::int64_t count, Destination to);
/// Copies bytes past the caches. Neither address need be aligned.
using StreamFn = void (*)(const std::uint8_t* from, std::int64_t bytes, std::uint8_t* to);

// Each answers nullptr for a format that is another engine's, and for a sink that the target has not.
BlocksFn runs_decoder(Target target, nibble_format format, Sink sink);
BlocksFn grid_decoder(Target target, nibble_format format, Sink sink);
BlocksFn base3_decoder(Target target, nibble_format format, Sink sink);
BlocksFn element_decoder(Target target, nibble_format format, Sink sink);
FlatFn flat_decoder(Target target, nibble_format format, Sink sink);
StreamFn streamer(Target target);

}  // namespace nibble::cpu

#endif
