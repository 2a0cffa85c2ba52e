// Rounding, half and bfloat16 conversions and unaligned little-endian loads, for host and device.
// Apart from the formats so that the one place where arithmetic differs between host and device is this one.
#ifndef NIBBLE_CORE_NUMERIC_H
#define NIBBLE_CORE_NUMERIC_H

#include <bit>
#include <cstdint>
#include <type_traits>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define NIBBLE_HD __host__ __device__
#else
#define NIBBLE_HD
#endif
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#define NIBBLE_DEVICE_PASS 1
#else
#define NIBBLE_DEVICE_PASS 0
#endif

namespace nibble {

// Each is one rounded operation. On a device the intrinsics forbid contraction to a fused multiply-add; host code is
// compiled with -ffp-contract=off, which a unit test checks.
NIBBLE_HD constexpr float mul_rn(float a, float b) {
#if NIBBLE_DEVICE_PASS
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
NIBBLE_HD constexpr float add_rn(float a, float b) {
#if NIBBLE_DEVICE_PASS
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

NIBBLE_HD constexpr std::uint32_t float_bits(float x) {
#if NIBBLE_DEVICE_PASS
  return static_cast<std::uint32_t>(__float_as_uint(x));
#else
  return std::bit_cast<std::uint32_t>(x);
#endif
}
NIBBLE_HD constexpr float float_from_bits(std::uint32_t bits) {
#if NIBBLE_DEVICE_PASS
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

/// Every field of 2 bytes or more lies at an even place of a block, and kernels keep blocks at even addresses, so a
/// device loads it at once.
NIBBLE_HD constexpr std::uint32_t load_u16(const std::uint8_t* p) {
#if NIBBLE_DEVICE_PASS
  if (!std::is_constant_evaluated()) return *reinterpret_cast<const std::uint16_t*>(p);
#endif
  return static_cast<std::uint32_t>(p[0]) | static_cast<std::uint32_t>(p[1]) << 8;
}
NIBBLE_HD constexpr std::uint32_t load_u32(const std::uint8_t* p) { return load_u16(p) | load_u16(p + 2) << 16; }
NIBBLE_HD constexpr std::uint64_t load_u64(const std::uint8_t* p) {
  return load_u32(p) | static_cast<std::uint64_t>(load_u32(p + 4)) << 32;
}

/// IEEE half to binary32, exact. A NaN stays a NaN.
NIBBLE_HD constexpr float float_from_half(std::uint32_t h) {
#if defined(__CUDA_ARCH__)
  float x = 0;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<std::uint16_t>(h)));
  return x;
#elif defined(__HIP_DEVICE_COMPILE__)
  return static_cast<float>(__builtin_bit_cast(_Float16, static_cast<std::uint16_t>(h)));
#else
  const std::uint32_t sign = (h & 0x8000u) << 16;
  const std::uint32_t magnitude = (h & 0x7fffu) << 13;
  if (magnitude >= 0x0f800000u) return float_from_bits(sign | 0x7f800000u | magnitude);
  // The bits of a half, moved into place, are its value times 2^-112, subnormals included; the product is exact.
  return float_from_bits(sign | float_bits(float_from_bits(magnitude) * 0x1p112f));
#endif
}

/// binary32 to half, to nearest even; overflow gives infinity, a NaN a quiet NaN.
NIBBLE_HD constexpr std::uint16_t half_from_float(float x) {
#if defined(__CUDA_ARCH__)
  std::uint16_t h = 0;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
#elif defined(__HIP_DEVICE_COMPILE__)
  return __builtin_bit_cast(std::uint16_t, static_cast<_Float16>(x));
#else
  const std::uint32_t bits = float_bits(x);
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65520 and above
  if (magnitude < 0x38800000u) {
    // Below 2^-14. Adding 0.5 puts the result's units at the sum's last place, so the addition rounds for us.
    const std::uint32_t sum = float_bits(float_from_bits(magnitude) + 0.5f);
    return static_cast<std::uint16_t>(sign | (sum - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<std::uint16_t>(sign | (rounded - 0x38000000u) >> 13);
#endif
}

/// bfloat16 to binary32, exact.
NIBBLE_HD constexpr float float_from_bfloat16(std::uint32_t b) { return float_from_bits(b << 16); }

/// binary32 to bfloat16, to nearest even; a NaN stays a NaN.
NIBBLE_HD constexpr std::uint16_t bfloat16_from_float(float x) {
  const std::uint32_t bits = float_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/// Of a power of two that is a normal number.
NIBBLE_HD constexpr int exponent_of(float power) { return static_cast<int>(float_bits(power) >> 23 & 0xffu) - 127; }

/// x * 2^exponent, where binary32 need not hold that power: by a third of it at a time. Rounded where it is subnormal.
NIBBLE_HD constexpr float times_power_of_two(float x, int exponent) {
  const int e = exponent < -378 ? -378 : exponent > 378 ? 378 : exponent;  // any x is 0 or infinite before that
  const int first = e / 3, second = (e - first) / 2, third = e - first - second;
  const auto power = [](int n) { return float_from_bits(static_cast<std::uint32_t>(n + 127) << 23); };
  return mul_rn(mul_rn(mul_rn(x, power(first)), power(second)), power(third));
}

NIBBLE_HD constexpr float load_half(const std::uint8_t* p) { return float_from_half(load_u16(p)); }

}  // namespace nibble

#endif
