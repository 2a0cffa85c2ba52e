// The vector engines: one function a format and target, or a target alone where the format comes as data.
// Apart from decode.h because only the decode table knows that there are several engines.
#ifndef NIBBLE_BACKENDS_CPU_ENGINES_H
#define NIBBLE_BACKENDS_CPU_ENGINES_H

#include <nibble/abi.h>

#include "backends/cpu/targets.h"

#include <cstdint>

namespace nibble::cpu {

/// Decodes whole, consecutive blocks to f32.
using BlocksFn = void (*)(const std::uint8_t* blocks, std::int64_t block_count, float* out);
/// Adds factor times the decoded values of whole, consecutive blocks to sums.
using MultiplyBlocksFn = void (*)(const std::uint8_t* blocks, std::int64_t block_count, float factor, float* sums);
/// Decodes `count` values from value `first` on, counted over the whole bitsandbytes tensor.
using FlatFn = void (*)(const nibble_weight& w, std::int64_t first, std::int64_t count, float* out);
/// Rounds f32 to a 16-bit type, to nearest even.
using RoundFn = void (*)(const float* from, std::int64_t count, std::uint8_t* to);
/// Copies bytes past the caches. Neither address need be aligned.
using StreamFn = void (*)(const std::uint8_t* from, std::int64_t bytes, std::uint8_t* to);

// Each answers nullptr for a format that is another engine's.
BlocksFn runs_decoder(Target target, nibble_format format);
BlocksFn runs_streamer(Target target, nibble_format format);  ///< past the caches; `out` is a whole cache line
MultiplyBlocksFn runs_multiplier(Target target, nibble_format format);
BlocksFn grid_decoder(Target target, nibble_format format);
BlocksFn base3_decoder(Target target, nibble_format format);
BlocksFn element_decoder(Target target, nibble_format format);
FlatFn flat_decoder(Target target, nibble_format format);
RoundFn rounder(Target target, nibble_format type);
StreamFn streamer(Target target);

}  // namespace nibble::cpu

#endif
