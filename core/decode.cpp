// Rows of any weight through the reference decoder.
// Apart from decode.h so that the per-value formulas are all that header shows.
#include "core/decode.h"

#include <cstring>

namespace nibble {

void decode_row(const Weight& w, std::int64_t i1, std::int64_t i2, std::int64_t i3, std::int64_t first,
                std::int64_t count, float* out) {
  const Tensor& t = w.packed;
  visit_format(t.format, [&](auto f) {
    using F = decltype(f);
    if constexpr (F::kEngine == Engine::flat4 || F::kEngine == Engine::flat8) {
      const std::int64_t row = (i3 * t.shape[2] + i2) * t.shape[1] + i1;
      for (std::int64_t i = 0; i < count; ++i) out[i] = flat_value<F>(w, row * t.shape[0] + first + i);
    } else {
      const std::uint8_t* row = bytes_of(t) + i1 * t.byte_stride[1] + i2 * t.byte_stride[2] + i3 * t.byte_stride[3];
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t at = first + i;
        out[i] = block_value<F>(row + at / F::kBlockValues * t.byte_stride[0], static_cast<int>(at % F::kBlockValues));
      }
    }
  });
}

float load_element(nibble_format type, const std::uint8_t* at) {
  if (type == NIBBLE_F16) return load_half(at);
  if (type == NIBBLE_BF16) return float_from_bfloat16(load_u16(at));
  return float_from_bits(load_u32(at));
}

void store_element(nibble_format type, std::uint8_t* at, float x) {
  if (type == NIBBLE_F32) {
    std::memcpy(at, &x, sizeof x);
    return;
  }
  const std::uint16_t bits = type == NIBBLE_F16 ? half_from_float(x) : bfloat16_from_float(x);
  std::memcpy(at, &bits, sizeof bits);
}

}  // namespace nibble
