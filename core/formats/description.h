// The vocabulary in which a format is described: runs of codes, grid groups, flat codes.
// Apart from the formats so that each of them is a few constants, and every engine reads the same constants.
#ifndef NIBBLE_CORE_FORMATS_DESCRIPTION_H
#define NIBBLE_CORE_FORMATS_DESCRIPTION_H

#include <nibble/abi.h>

#include "core/numeric.h"

#include <cstdint>

namespace nibble {

/// Which engine decodes a format. Each engine knows only the description, never a single format by name.
enum class Engine : std::uint8_t {
  element,  ///< f32, f16, bf16: a value is stored as itself
  runs,     ///< runs of 16 or 32 values, codes in consecutive bytes, a scale (and min) a run
  grid,     ///< groups of 8 values looked up in a grid of whole vectors, with signs
  base3,    ///< five ternary digits a byte
  flat4,    ///< two codes a byte over the whole tensor, statistics beside it
  flat8     ///< one code a byte over the whole tensor, statistics and table beside it
};

/// How the codes of a run lie in a plane of bits.
enum class Packing : std::uint8_t {
  bytes,  ///< value l: byte at+l, its bits shift..shift+bits-1
  bits,   ///< value l: bits l*bits.. of the little-endian bit stream that starts at byte `at`
  halves  ///< 16 values in 8 bytes: value l<8 the low nibble of byte at+l, else the high nibble of byte at+l-8
};

/// Where a run's codes, or their high bits, are.
struct Plane {
  int at = 0;  ///< byte in the block
  int shift = 0;
  int bits = 0;  ///< 0: there is no such plane
  Packing packing = Packing::bytes;
};

/// One run: code = low | high << low.bits.
struct Run {
  Plane low;
  Plane high{};
};

/// How a code and its run's scale and min become a value. Every operation rounds on its own.
enum class Combine : std::uint8_t {
  product,  ///< (code - kBias) * scale
  sum,      ///< (code * scale) + min; a format that subtracts its min gives it negated, which is the same bits
  table     ///< kCodes[code] * scale
};

/// What a run of codes is multiplied by, and what is added.
struct Scale {
  float scale = 0;
  float min = 0;
};

/// The integers of all runs of a block, run r in byte r % 8 of word r / 8; bytes are signed.
///
/// A format of runs whose scales are halves says where they lie, as `kScaleHalf` and `kMinHalf`: those are the scale
/// and the min of every run, or, in a format with `scale_codes`, what the integers multiply: scale = half * (code -
/// kScaleBias), min = -(half * code). With mins the integers have `kScaleBits` bits. `scale` gives the same for one
/// run; engines that decode many blocks at once take all of it from here. A format whose runs have a byte each for
/// their scale, from byte `kScaleBytes` on, gives what a byte stands for as `byte_scale`.
struct ScaleCodes {
  std::uint64_t scale[2] = {0, 0};
  std::uint64_t min[2] = {0, 0};
};

/// Eight values of a grid format: y = (scale * (entry + delta)) * sign, where formats without delta have 0, which
/// changes no bit. A format's kScaleGroups neighbouring groups share a scale. An entry of 4 values comes twice:
/// index[0] gives values 0..3 and index[1] values 4..7.
struct GridGroup {
  std::uint32_t index[2] = {0, 0};
  std::uint32_t signs = 0;  ///< bit j set: value j is negated
  float scale = 0;
  float delta = 0;
};

/// The code of value l of a run.
NIBBLE_HD constexpr std::uint32_t plane_code(const std::uint8_t* block, const Plane& plane, int l) {
  const std::uint32_t mask = (1u << plane.bits) - 1u;
  switch (plane.packing) {
    case Packing::bits: {
      const int bit = l * plane.bits;  // 1 or 2 bits a code: none straddles a byte
      return static_cast<std::uint32_t>(block[plane.at + bit / 8]) >> (bit % 8) & mask;
    }
    case Packing::halves:
      return static_cast<std::uint32_t>(block[plane.at + l % 8]) >> (l < 8 ? 0 : 4) & mask;
    case Packing::bytes:
      break;
  }
  return static_cast<std::uint32_t>(block[plane.at + l]) >> plane.shift & mask;
}

NIBBLE_HD constexpr std::uint32_t run_code(const std::uint8_t* block, const Run& run, int l) {
  const std::uint32_t low = plane_code(block, run.low, l);
  return run.high.bits == 0 ? low : low | plane_code(block, run.high, l) << run.low.bits;
}

/// Seven stored sign bits to eight: the eighth makes their number even.
NIBBLE_HD constexpr std::uint32_t with_parity(std::uint32_t seven) {
  std::uint32_t parity = seven ^ seven >> 4;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return seven | (parity & 1u) << 7;
}

/// The same as a table: on a CPU a load costs less than eight instructions do.
struct SignTable {
  std::uint8_t of[128];
  constexpr SignTable() : of{} {
    for (std::uint32_t i = 0; i < 128; ++i) of[i] = static_cast<std::uint8_t>(with_parity(i));
  }
};
inline constexpr SignTable kSignTable{};

NIBBLE_HD constexpr std::uint32_t even_signs(std::uint32_t seven) {
#if NIBBLE_DEVICE_PASS
  return with_parity(seven);
#else
  return kSignTable.of[seven];
#endif
}

/// The scale and the min of sub-block i in the 12 packed bytes that Q4_K and Q5_K share: 6 bits each.
struct ScaleAndMin6 {
  std::uint32_t scale;
  std::uint32_t min;
};
NIBBLE_HD constexpr ScaleAndMin6 scale_and_min_6bit(const std::uint8_t* b, int i) {
  const std::uint32_t scales = b[i % 4], mins = b[4 + i % 4], rest = b[8 + i % 4];
  if (i < 4) return {scales & 63u, mins & 63u};
  return {(rest & 15u) | (scales >> 6) << 4, rest >> 4 | (mins >> 6) << 4};
}

/// The same for all sub-blocks.
NIBBLE_HD constexpr ScaleCodes scales_and_mins_6bit(const std::uint8_t* b) {
  const std::uint32_t first = load_u32(b), second = load_u32(b + 4), third = load_u32(b + 8);
  const std::uint32_t high_scales = (third & 0x0f0f0f0fu) | (first >> 6 & 0x03030303u) << 4;
  const std::uint32_t high_mins = (third >> 4 & 0x0f0f0f0fu) | (second >> 6 & 0x03030303u) << 4;
  return {.scale = {(first & 0x3f3f3f3fu) | static_cast<std::uint64_t>(high_scales) << 32},
          .min = {(second & 0x3f3f3f3fu) | static_cast<std::uint64_t>(high_mins) << 32}};
}

}  // namespace nibble

#endif
