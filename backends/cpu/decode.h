// Rows of any weight decoded by vector code, one table of functions a target.
// Apart from the engines so that the products call them without knowing formats or Highway.
#ifndef NIBBLE_BACKENDS_CPU_DECODE_H
#define NIBBLE_BACKENDS_CPU_DECODE_H

#include <nibble/abi.h>

#include "backends/cpu/sink.h"
#include "backends/cpu/targets.h"

#include <cstdint>

namespace nibble::cpu {

/// The decoders of one target. They neither allocate nor throw; any thread may call them.
struct DecodeTable {
  /// Decodes `count` values from value `first` on of row (i1, i2, i3) into the sink, whose destination must not overlap
  /// the weight. Bits are those of nibble::decode_row. `first` and `count` are multiples of the format's kBlockValues
  /// for block formats, any for flat and element ones. The weight has passed validation.
  void (*decode_row)(const nibble_weight& w, std::int64_t i1, std::int64_t i2, std::int64_t i3, std::int64_t first,
                     std::int64_t count, Sink sink, Destination to);
  /// Every target stores; what else it can do is the same for all formats.
  bool (*has_sink)(Sink sink);

  /// Rounds f32 to the type of a sink that stores, as core's store_element. Neither pointer need be aligned.
  void (*round)(const float* from, std::int64_t count, Sink sink, void* to);

  /// Copies bytes past the caches, for results that do not fit them. Neither pointer need be aligned. Before another
  /// thread may read them, hwy::FlushStream is due.
  void (*stream)(const std::uint8_t* from, std::int64_t bytes, std::uint8_t* to);
};

/// The processor must have the target's instructions (detected_isa).
const DecodeTable& decode_table(Target target);

/// Asks memory for what decode_row will soon read. Weights are wider than what a product takes of a row at a time, and
/// no processor guesses where the next row's part begins.
void prefetch_row(const nibble_weight& w, std::int64_t i1, std::int64_t i2, std::int64_t i3, std::int64_t first,
                  std::int64_t count);

}  // namespace nibble::cpu

#endif
