// What can become of the values that an engine decodes.
// Apart from the engines because whoever asks for values names one of these, and every engine has the same.
#ifndef NIBBLE_BACKENDS_CPU_SINK_H
#define NIBBLE_BACKENDS_CPU_SINK_H

#include <nibble/abi.h>

#include <cstdint>

namespace nibble::cpu {

enum class Sink : std::uint8_t {
  store_f32,  ///< written, rounded to nearest even where the type is smaller; the address need not be aligned
  store_f16,
  store_bf16,
  stream_f32,  ///< the same past the caches, to whole cache lines; hwy::FlushStream is due before another thread reads
  stream_f16,
  stream_bf16,
  add_1,  ///< a factor times them is added to f32 sums: what is multiplied once or twice need not be written down
  add_2   ///< likewise to two rows of sums, each with its factor
};
inline constexpr int kSinkCount = 8;

/// Where a sink's values go.
struct Destination {
  void* to;
  const float* factors = nullptr;  ///< of the sinks that add: one a row of sums,
  std::int64_t ld = 0;             ///< which lie so many floats apart
};

/// `type` is f32, f16 or bf16.
constexpr Sink store_sink(nibble_format type) {
  return type == NIBBLE_F32 ? Sink::store_f32 : type == NIBBLE_F16 ? Sink::store_f16 : Sink::store_bf16;
}
constexpr Sink stream_sink(nibble_format type) {
  return type == NIBBLE_F32 ? Sink::stream_f32 : type == NIBBLE_F16 ? Sink::stream_f16 : Sink::stream_bf16;
}

/// With four rows the gain is a tenth, and every sink is one more function a format and target; with more there is
/// none, since values that are written down once are multiplied with the sums in registers.
inline constexpr std::int64_t kMostAddedRows = 2;
/// `rows` is from 1 to kMostAddedRows.
constexpr Sink add_sink(std::int64_t rows) {
  return static_cast<Sink>(static_cast<std::int64_t>(Sink::add_1) + rows - 1);
}

}  // namespace nibble::cpu

#endif
