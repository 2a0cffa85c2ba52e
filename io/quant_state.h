// The JSON text of a bitsandbytes state.
// Apart from bitsandbytes.h because this half knows JSON and no tensors, and the other half the reverse.
#ifndef NIBBLE_IO_QUANT_STATE_H
#define NIBBLE_IO_QUANT_STATE_H

#include <nibble/tensor.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::io {

struct NestedState {
  std::int64_t block_size = 0;  ///< blocks a group
  float offset = 0;
};

/// What the text of a state says, checked by itself: types, ranges, and that the shape's product fits.
struct QuantState {
  std::string quant_type;  ///< "nf4" or "fp4"
  std::int64_t block_size = 0;
  Format own_type = NIBBLE_F32;
  std::vector<std::int64_t> shape;  ///< outermost first
  std::uint64_t elements = 0;
  std::optional<NestedState> nested;
};

/// `nested` says whether the statistics beside the state are compressed: then the text must have the nested keys, else
/// it must have none of them.
Result<QuantState> parse_quant_state(std::string_view text, bool nested);

}  // namespace nibble::io

#endif
