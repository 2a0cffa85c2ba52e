// Sizes at which a 32-bit index, a grid dimension or a byte offset overflows.
// Apart from the conformance cases because nobody wants 12 GiB of operands in every run.
#include "tests/gpu/device_fixture.h"

#include "core/decode.h"
#include "tests/support/bits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace nibble::device_test {
namespace {

struct Large {
  test::WeightKind kind;
  std::int64_t rows;  ///< of 65536 values
  Format to;
};

class LargeWeight : public testing::TestWithParam<Large> {};

/// Rows of a result against the reference decoder, bit for bit.
void expect_row(const PlacedWeight& w, const Buffer& result, const Tensor& dst, std::int64_t row) {
  const std::int64_t columns = dst.shape[0];
  std::vector<float> expected(static_cast<std::size_t>(columns));
  decode_row(w.host.weight, row, 0, 0, 0, columns, expected.data());
  const auto size = test::element_bytes(dst.format);
  const auto got =
      result.download(static_cast<std::size_t>(row * dst.byte_stride[1]), static_cast<std::size_t>(columns * size));
  for (std::int64_t i = 0; i < columns; ++i) {
    const std::uint32_t want = test::rounded_bits(dst.format, expected[static_cast<std::size_t>(i)]);
    const std::uint32_t is = test::element_bits(dst.format, got.data() + i * size);
    ASSERT_TRUE(test::same_bits(dst.format, is, want))
        << "row " << row << ", column " << i << " is " << test::show(dst.format, is) << ": expected "
        << test::show(dst.format, want);
  }
}

TEST_P(LargeWeight, IsDecodedOnBothSidesOfEveryBoundary) {
  constexpr std::int64_t columns = 65536;
  const auto [kind, rows, to] = GetParam();
  const PlacedWeight w(kind, {.shape = {columns, rows, 1, 1}}, "large");
  const Tensor shape = make_tensor(nullptr, to, {columns, rows});
  const Buffer result(static_cast<std::size_t>(columns * rows * test::element_bytes(to)));
  const Tensor dst = on_device(shape, result.data());
  const Status status = dequantize(w.weight, dst, {.registry = &registry()});
  ASSERT_TRUE(status.ok()) << status.message();
  // Row 32768 begins at value 2^31; rows 8192, 16384 and 24576 at byte 2^31, 2^32 and 3 * 2^31 of f32.
  for (const std::int64_t boundary :
       {std::int64_t{0}, std::int64_t{8192}, std::int64_t{16384}, std::int64_t{24576}, std::int64_t{32768}, rows}) {
    for (const std::int64_t row : {boundary - 1, boundary}) {
      if (row >= 0 && row < rows) expect_row(w, result, dst, row);
    }
  }
}

std::vector<Large> large_weights() {
  std::vector<Large> all;
  for (const test::WeightKind kind :
       {test::WeightKind{NIBBLE_NF4, true}, test::WeightKind{NIBBLE_Q4_K}, test::WeightKind{NIBBLE_BLOCKWISE8}}) {
    for (const std::int64_t rows : {32767, 32768, 32769}) all.push_back({kind, rows, NIBBLE_F32});
    all.push_back({kind, 32769, NIBBLE_F16});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Values, LargeWeight, testing::ValuesIn(large_weights()), [](const auto& tested) {
  std::string name =
      fmt::format("{}_{}x65536_{}", test::label(tested.param.kind), tested.param.rows, format_name(tested.param.to));
  for (char& c : name) c = c == '.' ? '_' : c;
  return name;
});

/// More rows, and more matrices, than a grid has blocks in its second and third dimension.
TEST(ManyRows, AreDecodedIntoAPaddedView) {
  for (const test::WeightKind kind : {test::WeightKind{NIBBLE_Q4_K}, test::WeightKind{NIBBLE_Q8_0},
                                      test::WeightKind{NIBBLE_F16}, test::WeightKind{NIBBLE_NF4, true}}) {
    for (const std::array<std::int64_t, 4> shape :
         {std::array<std::int64_t, 4>{256, 70000, 1, 1}, std::array<std::int64_t, 4>{256, 1, 70000, 1},
          std::array<std::int64_t, 4>{256, 1, 1, 70000}}) {
      const PlacedWeight w(kind, {.shape = shape}, "many rows");
      Tensor dst = make_tensor(nullptr, NIBBLE_F32, shape);
      constexpr std::int64_t pitch = 260 * 4;
      for (int i = 1; i < 4; ++i) {
        dst.byte_stride[i] = pitch;
        for (int j = 1; j < i; ++j) dst.byte_stride[i] *= shape[static_cast<std::size_t>(j)];
      }
      const Buffer result(70000 * pitch);
      const Status status = dequantize(w.weight, on_device(dst, result.data()), {.registry = &registry()});
      ASSERT_TRUE(status.ok()) << status.message();
      const auto got = result.download();
      const auto expected = test::decode_all(w.host.weight);
      std::size_t wrong = 0;
      test::for_each_element(dst, [&](std::size_t index, std::int64_t at) {
        const std::uint32_t is = test::element_bits(NIBBLE_F32, got.data() + at);
        wrong += test::same_bits(NIBBLE_F32, is, test::rounded_bits(NIBBLE_F32, expected[index])) ? 0 : 1;
      });
      EXPECT_EQ(wrong, 0u) << test::label(kind) << " of shape [256, " << shape[1] << ", " << shape[2] << ", "
                           << shape[3] << "]";
      EXPECT_EQ(got[256 * 4], 0xff) << "padding was written";
    }
  }
}

}  // namespace
}  // namespace nibble::device_test
