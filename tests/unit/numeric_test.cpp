// Half and bfloat16 conversions over all their values, and rounding of every kind; that products are not contracted.
// Apart from the formats' tests because every one of them stands on this.
#include "core/numeric.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace nibble {
namespace {

/// The value of a half by its definition, in binary64.
double half_value(std::uint32_t h) {
  const int exponent = static_cast<int>(h >> 10 & 31u);
  const double mantissa = h & 0x3ffu;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (h & 0x8000u) != 0 ? -magnitude : magnitude;
}

TEST(HalfTest, EveryHalfWidensToItsValueAndBack) {
  for (std::uint32_t h = 0; h < 65536; ++h) {
    const float wide = float_from_half(h);
    if ((h & 0x7c00u) == 0x7c00u) {
      EXPECT_EQ(std::isnan(wide), (h & 0x3ffu) != 0) << h;
      EXPECT_EQ(std::isinf(wide), (h & 0x3ffu) == 0) << h;
    } else {
      ASSERT_EQ(static_cast<double>(wide), half_value(h)) << h;
      ASSERT_EQ(std::signbit(wide), (h & 0x8000u) != 0) << h;
    }
    if (!std::isnan(wide)) {
      ASSERT_EQ(half_from_float(wide), h);
    }
  }
}

TEST(HalfTest, RoundsToNearestEvenBetweenEveryPairOfNeighbours) {
  for (std::uint32_t h = 0; h < 0x7c00u; ++h) {
    const double low = half_value(h);
    const double high = h + 1 == 0x7c00u ? 65536.0 : half_value(h + 1);  // past the largest, as if there were one more
    const auto middle = static_cast<float>((low + high) / 2);            // exact: one more bit
    const std::uint32_t even = h % 2 == 0 ? h : h + 1;
    ASSERT_EQ(half_from_float(middle), even) << h;
    ASSERT_EQ(half_from_float(-middle), even | 0x8000u) << h;
    ASSERT_EQ(half_from_float(std::nextafter(middle, 0.0f)), h) << h;
    ASSERT_EQ(half_from_float(std::nextafter(middle, INFINITY)), h + 1) << h;
  }
}

TEST(HalfTest, ExtremesKeepTheirKind) {
  EXPECT_EQ(half_from_float(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(half_from_float(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(half_from_float(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(half_from_float(-0.0f), 0x8000);
  EXPECT_TRUE(std::isnan(float_from_half(half_from_float(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(float_from_half(half_from_float(float_from_bits(0xff800001u)))));
}

TEST(Bfloat16Test, WidensExactlyAndRoundsToNearestEven) {
  for (std::uint32_t b = 0; b < 65536; ++b) {
    const float wide = float_from_bfloat16(b);
    if (std::isnan(wide)) {
      ASSERT_TRUE(std::isnan(float_from_bfloat16(bfloat16_from_float(wide)))) << b;
      continue;
    }
    ASSERT_EQ(bfloat16_from_float(wide), b);
    if (std::isinf(wide)) continue;
    const float middle = float_from_bits(b << 16 | 0x8000u);
    const std::uint32_t even = b % 2 == 0 ? b : b + 1;
    ASSERT_EQ(bfloat16_from_float(middle), even) << b;
    ASSERT_EQ(bfloat16_from_float(float_from_bits(b << 16 | 0x7fffu)), b) << b;
    ASSERT_EQ(bfloat16_from_float(float_from_bits(b << 16 | 0x8001u)), b + 1) << b;
  }
}

TEST(PowersTest, BothWaysBeyondWhatOnePowerHolds) {
  for (const float power : {0x1p-126f, 0x1p-1f, 1.0f, 0x1p5f, 0x1p127f}) {
    EXPECT_EQ(times_power_of_two(1.0f, exponent_of(power)), power);
    EXPECT_EQ(times_power_of_two(power, -exponent_of(power)), 1.0f);
  }
  EXPECT_EQ(times_power_of_two(3 * 0x1p-100f, 200), 3 * 0x1p100f);
  EXPECT_EQ(times_power_of_two(-5 * 0x1p100f, -200), -5 * 0x1p-100f);
  EXPECT_EQ(times_power_of_two(0x1p-149f, 252), 0x1p103f);
  EXPECT_EQ(times_power_of_two(0x1p-146f, 273), 0x1p127f);
  EXPECT_EQ(times_power_of_two(-0x1p-149f, 276), -0x1p127f);
  EXPECT_EQ(times_power_of_two(0x1p127f, -276), 0x1p-149f);
  EXPECT_EQ(times_power_of_two(3.0f, -150), 0x1p-148f);  // 0.75 of 2^-148, by one rounding: 3 * 2^-150 is halfway
  EXPECT_EQ(times_power_of_two(1.0f, 1000), std::numeric_limits<float>::infinity());
  EXPECT_EQ(times_power_of_two(0.0f, 1000), 0.0f);
  EXPECT_EQ(times_power_of_two(1.0f, -1000), 0.0f);
  EXPECT_TRUE(std::isnan(times_power_of_two(std::nanf(""), 3)));
}

TEST(RoundingTest, AProductAndASumRoundTwice) {
  // (1 + 2^-12)^2 - 1: rounding the product first loses 2^-24; a fused multiply-add would keep it.
  volatile float x = 1.0f + 0x1p-12f, minus_one = -1.0f;
  EXPECT_EQ(add_rn(mul_rn(x, x), minus_one), 0x1p-11f);
}

TEST(RoundingTest, SubnormalsAreKept) {
  volatile float tiny = 0x1p-126f, half = 0.5f;
  EXPECT_EQ(float_bits(mul_rn(tiny, half)), 0x00400000u);
  EXPECT_EQ(float_bits(add_rn(float_from_bits(1), float_from_bits(2))), 3u);
}

}  // namespace
}  // namespace nibble
