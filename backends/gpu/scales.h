// Scales of codes over the whole tensor: stored, or nested and made where they are used.
// Apart from the bodies because products read them too, and by block.
#ifndef NIBBLE_BACKENDS_GPU_SCALES_H
#define NIBBLE_BACKENDS_GPU_SCALES_H

#include "backends/gpu/device.h"

#include <nibble/tensor.hpp>

#include <bit>
#include <cstdint>

namespace nibble::gpu {

// Scales come in two steps, so that all of a thread's loads are under way before one of them is waited for.

/// Scales that are stored, or were rebuilt before.
struct StoredScales {
  const float* absmax;
  int block_shift;  ///< values a block, as a power of two

  using Held = float;
  [[nodiscard]] NIBBLE_HD inline Held load(std::int64_t index) const { return absmax[index >> block_shift]; }
  [[nodiscard]] NIBBLE_HD inline float made(Held scale) const { return scale; }
  [[nodiscard]] NIBBLE_HD inline float of(std::int64_t index) const { return load(index); }
};

/// Scales made where they are used, in two rounded operations.
struct NestedScales {
  const std::uint8_t* absmax = nullptr;
  const float* code = nullptr;
  const float* nested_absmax = nullptr;
  float offset = 0.0f;
  int block_shift = 0;
  int group_shift = 0;  ///< blocks a group, as a power of two

  struct Held {
    std::uint8_t code;
    float group;
  };
  [[nodiscard]] NIBBLE_HD inline Held load_block(std::int64_t block) const {
    return {absmax[block], nested_absmax[block >> group_shift]};
  }
  [[nodiscard]] NIBBLE_HD inline Held load(std::int64_t index) const { return load_block(index >> block_shift); }
  [[nodiscard]] NIBBLE_HD inline float made(const Held& held) const {
    return add_rn(mul_rn(code[held.code], held.group), offset);
  }
  [[nodiscard]] NIBBLE_HD inline float of_block(std::int64_t block) const { return made(load_block(block)); }
  [[nodiscard]] NIBBLE_HD inline float of(std::int64_t index) const { return made(load(index)); }
};

/// Either, for kernels that are told at run time.
struct EitherScales {
  const float* stored = nullptr;  ///< or null
  NestedScales nested = {};       ///< of both kinds its block_shift

  struct Held {
    float x = 0.0f;
    std::uint8_t code = 0;
  };
  /// Those of values kStep apart from `index` on, but none behind that of the value `most` further on. Where `index`
  /// itself lies behind it, `most` is less than 0.
  template <int kStep, int kCount>
  NIBBLE_HD inline void load(std::int64_t index, int most, Held (&held)[kCount]) const {
    const std::int64_t first = index >> nested.block_shift;
    const int begin = static_cast<int>(index) & ((1 << nested.block_shift) - 1);  // in a block of at most 4096
    const int last = begin + most;
    const auto block = [&](int i) {
      const int value = begin + i * kStep;
      return (value < last ? value : last) >> nested.block_shift;
    };
    if (stored != nullptr) {
      const float* absmax = stored + first;
      for (int i = 0; i < kCount; ++i) held[i].x = absmax[block(i)];
    } else {
      for (int i = 0; i < kCount; ++i) {
        const NestedScales::Held loaded = nested.load_block(first + block(i));
        held[i] = {loaded.group, loaded.code};
      }
    }
  }
  template <int kCount>
  NIBBLE_HD inline void make(const Held (&held)[kCount], float (&scale)[kCount]) const {
    if (stored != nullptr) {
      for (int i = 0; i < kCount; ++i) scale[i] = held[i].x;
    } else {
      for (int i = 0; i < kCount; ++i) scale[i] = nested.made(NestedScales::Held{held[i].code, held[i].x});
    }
  }
};

inline int shift_of(std::int64_t power_of_two) { return std::countr_zero(static_cast<std::uint64_t>(power_of_two)); }

/// Those of a weight that has some of its own.
inline NestedScales nested_scales(const nibble_weight& w) {
  return {.absmax = bytes_of(w.absmax),
          .code = reinterpret_cast<const float*>(bytes_of(w.nested_code)),
          .nested_absmax = reinterpret_cast<const float*>(bytes_of(w.nested_absmax)),
          .offset = w.nested_offset,
          .block_shift = shift_of(w.block_size),
          .group_shift = shift_of(w.nested_block_size)};
}
inline EitherScales scales_of(const nibble_weight& w) {
  EitherScales scales;
  if (nested(w)) {
    scales.nested = nested_scales(w);
  } else {
    scales.stored = reinterpret_cast<const float*>(bytes_of(w.absmax));
    scales.nested.block_shift = shift_of(w.block_size);
  }
  return scales;
}

}  // namespace nibble::gpu

#endif
