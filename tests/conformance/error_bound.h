// How far a product may be from the exact one, for each precision class.
// Apart from the cases so that every limit stands in one place, with its reason.
#ifndef NIBBLE_TESTS_CONFORMANCE_ERROR_BOUND_H
#define NIBBLE_TESTS_CONFORMANCE_ERROR_BOUND_H

#include "tests/conformance/problem.h"

#include <cstdint>
#include <string>

namespace nibble::conformance {

/// What sums in binary32 may lose, in units of 2^-24 sum |a||b|: kSum * depth_factor.
///
/// Higham and Mary ("A new approach to probabilistic rounding error analysis", 2019): the error of a sum of K products
/// stays below lambda * sqrt(K) * u * sum |a||b| with a probability that approaches 1 quickly with lambda, in any order
/// of summation. Their second paper ("Sharper probabilistic backward error analysis for basic linear algebra kernels
/// with random data", 2020): where the products have mean 0 the factor sqrt(K) goes away, since partial sums do
/// not grow like the sum of magnitudes. That matters: with it, a sum of 600,000 products could lose several of them
/// unseen. With 4, some ten of the tens of millions of elements that the suite looks at lay just beyond it (sums of 16
/// products, one of them dominant); with 8, one lost product of 600,000 is still three times beyond.
inline constexpr double kSum = 8.0;

/// What rounding the operands may lose: both to p bits, half a unit each or, where hardware truncates, a whole one.
/// tf32 and half have p = 11 and bf16 p = 8; binary32 operands are exact. NMSE limits as the classes are defined.
struct PrecisionClass {
  nibble_math math;
  double operand;  ///< times sum |a||b|
  double nmse;
};
inline constexpr PrecisionClass kClasses[] = {
    {NIBBLE_MATH_F32, 0.0, 1e-9}, {NIBBLE_MATH_TF32, 4 * 0x1p-11, 3e-7}, {NIBBLE_MATH_BF16, 4 * 0x1p-8, 2e-5}};
/// An NMSE says something of a class only over many values: over 21 of them their own energy is a matter of luck (seen:
/// 3.2e-7 of a kernel that stays below 2e-7 over thousands).
inline constexpr std::size_t kLeastNmseValues = 1000;
/// Nor over products that share their operands' roundings: a ternary block times one number is one value many times.
inline constexpr std::int64_t kLeastNmseDepth = 8;
const PrecisionClass& precision_class(nibble_math math);

/// The most that an element may be off, but for its own last rounding to dst's type.
double element_bound(const PrecisionClass& precision, std::int64_t depth, bool zero_mean, double magnitude);

/// Holds dst's image against the expected values: empty, or the first element beyond its bound and how many there are.
std::string check_bounded(const Tensor& dst, const std::uint8_t* image, const BoundedValues& expected,
                          nibble_math math);

}  // namespace nibble::conformance

#endif
