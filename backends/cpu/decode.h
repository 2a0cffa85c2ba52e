// Rows of any weight decoded by vector code, one table of functions a target.
// Apart from the engines so that the products call them without knowing formats or Highway.
#ifndef NIBBLE_BACKENDS_CPU_DECODE_H
#define NIBBLE_BACKENDS_CPU_DECODE_H

#include <nibble/abi.h>

#include "backends/cpu/targets.h"

#include <cstdint>
#include <cstring>

namespace nibble::cpu {

/// The decoders of one target. They neither allocate nor throw; any thread may call them.
struct DecodeTable {
  /// Decodes `count` values from value `first` on of row (i1, i2, i3) into `out`, which need not be aligned and must
  /// not overlap the weight. Bits are those of nibble::decode_row. `first` and `count` are multiples of the format's
  /// kBlockValues for block formats, any for flat and element ones. The weight has passed validation.
  void (*decode_row)(const nibble_weight& w, std::int64_t i1, std::int64_t i2, std::int64_t i3, std::int64_t first,
                     std::int64_t count, float* out);

  /// The same past the caches, straight from the registers; `out` is aligned to 64 bytes. Only for formats that have
  /// it. Before another thread may read the values, hwy::FlushStream is due.
  bool (*has_stream_row)(nibble_format format);
  void (*stream_row)(const nibble_weight& w, std::int64_t i1, std::int64_t i2, std::int64_t i3, std::int64_t first,
                     std::int64_t count, float* out);

  /// Adds factor times those values to `sums`: a weight that is multiplied once need not be written down. Only for
  /// formats that have it.
  bool (*has_multiply_row)(nibble_format format);
  void (*multiply_row)(const nibble_weight& w, std::int64_t i1, std::int64_t i2, std::int64_t i3, std::int64_t first,
                       std::int64_t count, float factor, float* sums);

  /// Rounds f32 to nearest even, as core's store_element. Neither pointer need be aligned.
  void (*to_f16)(const float* from, std::int64_t count, std::uint8_t* to);
  void (*to_bf16)(const float* from, std::int64_t count, std::uint8_t* to);

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

/// Writes f32 values as `type`, which is f32, f16 or bf16: one rounding. `to` need not be aligned.
inline void round_to(const DecodeTable& table, nibble_format type, const float* from, std::int64_t count,
                     std::uint8_t* to) {
  if (type == NIBBLE_F32) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof *from);
  } else {
    (type == NIBBLE_F16 ? table.to_f16 : table.to_bf16)(from, count, to);
  }
}

}  // namespace nibble::cpu

#endif
