// The reference decoder: each value straight from its format's description, one at a time.
// Apart from the engines because it is what they are held against: it must be obviously the formula, not fast.
#ifndef NIBBLE_CORE_DECODE_H
#define NIBBLE_CORE_DECODE_H

#include <nibble/tensor.hpp>

#include "core/formats/formats.h"
#include "core/numeric.h"

#include <cstdint>

namespace nibble {

/// Value j of a block in a format of runs.
template <class F>
requires(F::kEngine == Engine::runs) NIBBLE_HD constexpr float block_value(const std::uint8_t* block, int j) {
  const int r = j / F::kRunLength;
  const auto code = static_cast<int>(run_code(block, F::run(r), j % F::kRunLength));
  const Scale s = F::scale(block, r);
  if constexpr (F::kCombine == Combine::table) {
    return mul_rn(static_cast<float>(F::kCodes[code]), s.scale);
  } else if constexpr (F::kCombine == Combine::sum) {
    return add_rn(mul_rn(static_cast<float>(code), s.scale), s.min);
  } else if constexpr (requires { F::kSigned; }) {
    return mul_rn(static_cast<float>(static_cast<std::int8_t>(code)), s.scale);
  } else {
    return mul_rn(static_cast<float>(code - F::kBias), s.scale);
  }
}

/// Value j of a block in a format of grid vectors.
template <class F>
requires(F::kEngine == Engine::grid) constexpr float block_value(const std::uint8_t* block, int j) {
  const GridGroup g = F::group(block, j / 8);
  constexpr int kEntryValues = static_cast<int>(sizeof(typename F::Entry));
  const auto entry = grid_table<F::kGrid>()[g.index[j % 8 / kEntryValues]];
  auto v = static_cast<float>(static_cast<std::int8_t>(entry >> 8 * (j % kEntryValues) & 255u));
  if constexpr (F::kHasDelta) v = add_rn(v, g.delta);
  return mul_rn(mul_rn(g.scale, v), g.signs >> (j % 8) & 1u ? -1.0f : 1.0f);
}

template <class F>
requires(F::kEngine == Engine::element || F::kEngine == Engine::base3) NIBBLE_HD
    constexpr float block_value(const std::uint8_t* block, int j) {
  return F::value(block, j);
}

/// An f32 of a statistics tensor.
inline float load_f32(const Tensor& t, std::int64_t index) {
  return float_from_bits(load_u32(bytes_of(t) + 4 * index));
}

/// The scale of a bitsandbytes block: stored, or rebuilt from the compressed statistics in two rounded operations.
inline float block_absmax(const Weight& w, std::int64_t block) {
  if (!nested(w)) return load_f32(w.absmax, block);
  const float code = load_f32(w.nested_code, bytes_of(w.absmax)[block]);
  return add_rn(mul_rn(code, load_f32(w.nested_absmax, block / w.nested_block_size)), w.nested_offset);
}

/// Value `index` of a bitsandbytes weight, counted over the whole tensor.
template <class F>
requires(F::kEngine == Engine::flat4 || F::kEngine == Engine::flat8) float flat_value(const Weight& w,
                                                                                      std::int64_t index) {
  const float scale = block_absmax(w, index / w.block_size);
  if constexpr (F::kEngine == Engine::flat8) {
    return mul_rn(load_f32(w.code, bytes_of(w.packed)[index]), scale);
  } else {
    const std::uint32_t byte = bytes_of(w.packed)[index / 2];
    return mul_rn(F::kCodes[index % 2 == 0 ? byte >> 4 : byte & 15u], scale);
  }
}

/// Decodes `count` values from value `first` on of row (i1, i2, i3) into `out`. The weight has passed validation.
void decode_row(const Weight& w, std::int64_t i1, std::int64_t i2, std::int64_t i3, std::int64_t first,
                std::int64_t count, float* out);

/// Reads an f32, f16 or bf16 element.
float load_element(nibble_format type, const std::uint8_t* at);
/// Writes x as f32, f16 or bf16: one rounding to nearest even.
void store_element(nibble_format type, std::uint8_t* at, float x);

}  // namespace nibble

#endif
