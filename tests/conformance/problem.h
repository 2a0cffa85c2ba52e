// A problem: one request with its tensors' bytes and what must come out.
// Apart from the runner because cases build problems and know nothing of devices.
#ifndef NIBBLE_TESTS_CONFORMANCE_PROBLEM_H
#define NIBBLE_TESTS_CONFORMANCE_PROBLEM_H

#include <nibble/nibble.hpp>

#include "tests/support/weights.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

namespace nibble::conformance {

/// The tensors that a request reads, in one list so that placing, guarding and comparing them treats all alike.
struct InputSlot {
  std::string_view name;
  Tensor& (*of)(nibble_request&);
};
inline constexpr InputSlot kInputs[] = {
    {"weight", [](nibble_request& r) -> Tensor& { return r.weight.packed; }},
    {"code", [](nibble_request& r) -> Tensor& { return r.weight.code; }},
    {"absmax", [](nibble_request& r) -> Tensor& { return r.weight.absmax; }},
    {"nested_absmax", [](nibble_request& r) -> Tensor& { return r.weight.nested_absmax; }},
    {"nested_code", [](nibble_request& r) -> Tensor& { return r.weight.nested_code; }},
    {"src1", [](nibble_request& r) -> Tensor& { return r.src1; }},
    {"bias", [](nibble_request& r) -> Tensor& { return r.bias; }}};
inline constexpr std::size_t kInputCount = std::size(kInputs);
enum InputIndex : std::size_t { kWeight, kCode, kAbsmax, kNestedAbsmax, kNestedCode, kSrc1, kBias };

/// dst's elements, bit for bit (NaN equals NaN).
struct ExactValues {
  std::vector<std::uint32_t> bits;  ///< in logical order
};

/// dst's elements as sums of products, within the bound of the row's precision class.
struct BoundedValues {
  std::vector<double> value;      ///< in logical order
  std::vector<double> magnitude;  ///< sum |a||b|, for each
  std::int64_t depth = 0;         ///< number of products in a sum
  bool zero_mean = true;          ///< the products' signs are random
  bool normal = true;             ///< the activations are normal-distributed, so the NMSE's limits hold
};

/// The request's pointers lead into `bytes`. A move keeps them valid.
struct Problem {
  nibble_request request{};
  std::array<std::vector<std::uint8_t>, kInputCount> bytes;  ///< of kInputs
  std::vector<std::uint8_t> dst;                             ///< what dst holds before the call, padding included
  std::variant<ExactValues, BoundedValues> expected;
  std::size_t weight_skew = 0;  ///< bytes that the weight lies off alignment; only for formats without alignment
  std::size_t dst_skew = 0;     ///< bytes that dst lies off 256, a multiple of its element's size

  Problem() = default;
  Problem(Problem&&) = default;
  Problem& operator=(Problem&&) = default;
};

/// A view of an output or activation without data: rows `padding` elements further apart than they need be, and the
/// outer two dimensions in the other order in memory where `swap_outer`.
Tensor make_view(Format type, const std::array<std::int64_t, 4>& shape, std::int64_t padding = 0,
                 bool swap_outer = false);

void set_weight(Problem& p, test::HostWeight weight);
/// Puts the weight and dst at the least aligned addresses that are allowed.
void put_off_alignment(Problem& p);
/// Fills dst with poison, which is NaN but where a NaN is expected: there it is a number, so that an element that was
/// not written always shows.
void poison_dst(Problem& p);

}  // namespace nibble::conformance

#endif
