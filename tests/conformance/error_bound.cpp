// The check of products.
// Apart from the header so that it shows the limits alone.
#include "tests/conformance/error_bound.h"

#include "core/decode.h"
#include "tests/support/bits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace nibble::conformance {
namespace {

/// Half a unit in the last place of dst's type at `value`, its subnormals included.
double last_rounding(Format type, double value) {
  const double relative = type == NIBBLE_F32 ? 0x1p-24 : type == NIBBLE_F16 ? 0x1p-11 : 0x1p-8;
  const double least = type == NIBBLE_F16 ? 0x1p-25 : 0x1p-134;
  return std::max(std::abs(value) * relative, least);
}

/// Where the exact result is not finite: class f32 gives just that, looser ones anything that is not finite.
bool same_kind(double got, double expected, nibble_math math) {
  if (math != NIBBLE_MATH_F32) return !std::isfinite(got);
  return std::isnan(expected) ? std::isnan(got) : got == expected;
}

}  // namespace

const PrecisionClass& precision_class(nibble_math math) {
  const auto* found =
      std::find_if(std::begin(kClasses), std::end(kClasses), [&](const auto& c) { return c.math == math; });
  return found == std::end(kClasses) ? kClasses[0] : *found;  // a class that is not known is held to the strictest
}

double element_bound(const PrecisionClass& precision, std::int64_t depth, bool zero_mean, double magnitude) {
  const double depth_factor = zero_mean ? 1.0 : std::sqrt(static_cast<double>(std::max<std::int64_t>(depth, 1)));
  return (kSum * 0x1p-24 * depth_factor + precision.operand) * magnitude;
}

std::string check_bounded(const Tensor& dst, const std::uint8_t* image, const BoundedValues& expected,
                          nibble_math math) {
  const PrecisionClass& precision = precision_class(math);
  std::string first;
  std::size_t wrong = 0, count = 0;
  double error_squares = 0, value_squares = 0;
  test::for_each_element(dst, [&](std::size_t index, std::int64_t at) {
    const double got = load_element(dst.format, image + at), value = expected.value[index];
    ++count;
    bool good = false;
    double allowed = 0;
    if (std::isfinite(value)) {
      allowed = element_bound(precision, expected.depth, expected.zero_mean, expected.magnitude[index]);
      allowed += last_rounding(dst.format, std::abs(value) + allowed);
      good = std::abs(got - value) <= allowed;
      error_squares += (got - value) * (got - value);
      value_squares += value * value;
    } else {
      good = same_kind(got, value, math);
    }
    if (good) return;
    if (wrong++ == 0) {
      first = fmt::format("dst{} is {}: expected {:.17g} within {:.3g}", test::place_text(dst, index),
                          test::show(dst.format, test::element_bits(dst.format, image + at)), value, allowed);
    }
  });
  if (wrong != 0) return fmt::format("{}; {} of {} elements differ", first, wrong, count);
  const double nmse = value_squares > 0 ? error_squares / value_squares : 0.0;
  if (dst.format == NIBBLE_F32 && expected.normal && count >= kLeastNmseValues && expected.depth >= kLeastNmseDepth &&
      nmse > precision.nmse) {
    return fmt::format("NMSE {:.3g} over {} values: expected at most {:.3g}", nmse, count, precision.nmse);
  }
  return {};
}

}  // namespace nibble::conformance
