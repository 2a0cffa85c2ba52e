// Every way in which a request can be wrong, each with the one line that says so.
// Apart from the kernels' tests because no kernel may ever see one of these.
#include <nibble/nibble.hpp>

#include "core/ops/ops.h"
#include "tests/unit/fake.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>

namespace nibble {
namespace {

nibble_request good_out_prod() {
  nibble_request r = make_request(NIBBLE_OP_OUT_PROD);
  r.weight.packed = make_tensor(nullptr, NIBBLE_Q4_K, {512, 6, 2, 1});
  r.src1 = make_tensor(nullptr, NIBBLE_F32, {3, 6, 4, 1});
  r.dst = make_tensor(nullptr, NIBBLE_F32, {512, 3, 4, 1});
  return r;
}

nibble_request good_linear() {
  nibble_request r = make_request(NIBBLE_OP_LINEAR);
  r.weight.packed = make_tensor(nullptr, NIBBLE_Q8_0, {64, 6});
  r.src1 = make_tensor(nullptr, NIBBLE_F16, {64, 3});
  r.bias = make_tensor(nullptr, NIBBLE_F32, {6});
  r.dst = make_tensor(nullptr, NIBBLE_F32, {6, 3});
  return r;
}

Status validate(const nibble_request& r) { return find_op(r.op)->validate(r); }

TEST(ValidateTest, GoodRequestsPass) {
  for (const FormatInfo& f : formats()) {
    if (f.kind == FormatInfo::Kind::not_a_weight) continue;
    EXPECT_EQ(validate(fake::dequantize(f.id, NIBBLE_F16)).message(), "") << f.name;
    if (f.kind != FormatInfo::Kind::flat) continue;
    EXPECT_EQ(validate(fake::dequantize(f.id, NIBBLE_F16, 256)).message(), "") << f.name;
  }
  EXPECT_EQ(validate(good_out_prod()).message(), "");
  EXPECT_EQ(validate(good_linear()).message(), "");
}

struct BadCase {
  const char* name;
  nibble_request request;
  std::function<void(nibble_request&)> spoil;
  const char* message;
};

const std::vector<BadCase>& bad_cases() {
  static const nibble_request q4 = fake::dequantize(NIBBLE_Q4_K, NIBBLE_F32),
                              nf4 = fake::dequantize(NIBBLE_NF4, NIBBLE_F32, 256);
  static const nibble_request plain = fake::dequantize(NIBBLE_NF4, NIBBLE_F32),
                              byte = fake::dequantize(NIBBLE_BLOCKWISE8, NIBBLE_F32);
  using R = nibble_request&;
  static const std::vector<BadCase> cases = {
      {"absent", q4, [](R r) { r.weight.packed.rank = 0; }, "weight has rank 0: expected 1 to 4"},
      {"rank", q4, [](R r) { r.weight.packed.rank = 5; }, "weight has rank 5: expected 1 to 4"},
      {"unread src1", q4, [](R r) { r.src1.rank = 77, r.src1.format = 999; },
       "src1 is there: expected none, dequantize reads the weight alone"},
      {"unread bias", q4, [](R r) { r.bias = make_tensor(nullptr, NIBBLE_F32, {256}); },
       "bias is there: expected none, dequantize reads the weight alone"},
      {"out_prod's bias", good_out_prod(), [](R r) { r.bias = make_tensor(nullptr, NIBBLE_F32, {512}); },
       "bias is there: expected none, out_prod adds none"},
      {"unread code", q4, [](R r) { r.weight.code.rank = 1, r.weight.code.format = 999; },
       "code is there: expected none, the weight's scales are in its blocks"},
      {"unread nested code", q4, [](R r) { r.weight.nested_code = make_tensor(nullptr, NIBBLE_F32, {256}); },
       "nested_code is there: expected none, the weight's scales are in its blocks"},
      {"nf4's code", plain, [](R r) { r.weight.code = make_tensor(nullptr, NIBBLE_F32, {16}); },
       "code is there: expected none, the format's own codes serve"},
      {"strided statistics", plain, [](R r) { r.weight.absmax.byte_stride[0] = 8; },
       "absmax has byte stride 8 in dimension 0: expected 4, its values side by side"},
      {"repeated statistics", nf4, [](R r) { r.weight.nested_code.byte_stride[0] = 0; },
       "nested_code has byte stride 0 in dimension 0: expected 4, its values side by side"},
      {"beyond_rank", q4, [](R r) { r.weight.packed.shape[2] = 3; },
       "weight has rank 2 and shape [4096, 8, 3, 1]: expected 1 beyond the rank"},
      {"unknown", q4, [](R r) { r.weight.packed.format = 99; }, "weight has unknown format 99"},
      {"integer", q4, [](R r) { r.weight.packed.format = NIBBLE_I32; },
       "weight is i32: expected a weight format; integers and f64 are not dequantized"},
      {"negative", q4, [](R r) { r.weight.packed.shape[1] = -1; },
       "weight: shape [4096, -1, 1, 1]: expected dimensions >= 0 whose product fits 63 bits"},
      {"product", q4, [](R r) { r.weight.packed.shape[1] = INT64_MAX / 2; },
       "weight: shape [4096, 4611686018427387903, 1, 1]: expected dimensions >= 0 whose product fits 63 bits"},
      {"bytes", q4, [](R r) { r.dst.byte_stride[1] = INT64_MAX / 4; },
       "dst has shape [4096, 8, 1, 1] and strides [4, 2305843009213693951, 131072, 131072]: its bytes do not fit 63 "
       "bits"},
      {"stride", q4, [](R r) { r.dst.byte_stride[1] = -4; }, "dst has byte stride -4: expected >= 0"},
      {"row", q4, [](R r) { r.weight.packed.shape[0] = 4000; },
       "weight: q4_k row of 4000 values: expected a multiple of 256"},
      {"block_stride", q4, [](R r) { r.weight.packed.byte_stride[0] = 145; },
       "q4_k weight has byte stride 145 between blocks: expected 144"},
      {"scales", q4, [](R r) { r.weight.absmax = make_tensor(nullptr, NIBBLE_F32, {4}); },
       "absmax is there: expected none, the weight's scales are in its blocks"},
      {"dst_type", q4,
       [](R r) {
         r.dst.format = NIBBLE_Q8_0;
         r.dst.byte_stride[0] = 34;
       },
       "dst is q8_0: expected f32, f16 or bf16"},
      {"dst_shape", q4, [](R r) { r.dst.shape[1] = 7; },
       "dst has shape [4096, 7, 1, 1]: expected [4096, 8, 1, 1], the weight's"},
      {"dst_gap", q4, [](R r) { r.dst.byte_stride[0] = 8; },
       "dst has byte stride 8 in dimension 0: expected 4, neighbours"},
      {"dst_overlap", q4, [](R r) { r.dst.byte_stride[1] = 16380; },
       "dst has byte stride 16380 in dimension 1: expected at least 16384, so that no two elements share a place"},
      {"dst_repeat", q4, [](R r) { r.dst.byte_stride[1] = 0; },
       "dst has byte stride 0 in dimension 1: expected at least 16384, so that no two elements share a place"},
      {"dst_odd", q4, [](R r) { r.dst.byte_stride[1] = 16386; },
       "dst has byte stride 16386 in dimension 1: expected a multiple of 4"},
      {"flags", q4, [](R r) { r.flags = NIBBLE_FLAG_ACCUMULATE; },
       "dequantize was given flags 1: expected none, out_prod alone can accumulate"},
      {"block_size", plain, [](R r) { r.weight.block_size = 48; },
       "nf4 block size 48: expected a power of two from 32 to 4096"},
      {"block_size_0", plain, [](R r) { r.weight.block_size = 0; },
       "nf4 block size 0: expected a power of two from 32 to 4096"},
      {"block_size_big", plain, [](R r) { r.weight.block_size = 8192; },
       "nf4 block size 8192: expected a power of two from 32 to 4096"},
      {"absmax_missing", plain, [](R r) { r.weight.absmax.rank = 0; },
       "absmax is missing: expected f32 of 512 values (one a block)"},
      {"absmax_type", plain, [](R r) { r.weight.absmax.format = NIBBLE_U8; }, "absmax is u8: expected f32"},
      {"absmax_count", plain, [](R r) { r.weight.absmax.shape[0] = 511; },
       "absmax has 511 values: expected 512 (one a block)"},
      {"nested_absmax_type", nf4, [](R r) { r.weight.absmax.format = NIBBLE_F32; }, "absmax is f32: expected u8"},
      {"nested_code", nf4, [](R r) { r.weight.nested_code.rank = 0; },
       "nested_code is missing: expected f32 of 256 values (one a scale byte)"},
      {"nested_count", nf4, [](R r) { r.weight.nested_absmax.shape[0] = 3; },
       "nested_absmax has 3 values: expected 2 (one a nested block)"},
      {"nested_size", nf4, [](R r) { r.weight.nested_block_size = 100; },
       "nested block size 100: expected a power of two"},
      {"code_missing", byte, [](R r) { r.weight.code.rank = 0; },
       "code is missing: expected f32 of 256 values (one a byte value)"},
      {"k", good_out_prod(), [](R r) { r.src1.shape[1] = 5; },
       "src1 has 5 in dimension 1 and the weight 6: expected the same, K"},
      {"repeat", good_out_prod(), [](R r) { r.src1.shape[2] = 3; },
       "src1 has 3 in dimension 2 and the weight 2: expected a multiple of the weight's"},
      {"src1_type", good_out_prod(),
       [](R r) {
         r.src1.format = NIBBLE_I8;
         r.src1.byte_stride[0] = 1;
       },
       "src1 is i8: expected f32, f16 or bf16"},
      {"src1_stride", good_out_prod(), [](R r) { r.src1.byte_stride[1] = 13; },
       "src1 has byte stride 13 in dimension 1: expected a multiple of 4"},
      {"out_shape", good_out_prod(), [](R r) { r.dst.shape[1] = 2; },
       "dst has shape [512, 2, 4, 1]: expected [512, 3, 4, 1], the weight's dimension 0, then src1's 0, 2 and 3"},
      {"out_flags", good_out_prod(), [](R r) { r.flags = 6; },
       "out_prod was given flags 6: expected accumulate or none"},
      {"matrix", good_linear(),
       [](R r) {
         r.weight.packed.rank = 3;
         r.weight.packed.shape[2] = 2;
       },
       "weight has dimensions 2 and 3 of 2 and 1: expected 1, a matrix [in, out]"},
      {"bias", good_linear(), [](R r) { r.bias.shape[0] = 5; },
       "bias has shape [5, 1, 1, 1]: expected [6, 1, 1, 1], [out]"},
      {"in", good_linear(), [](R r) { r.src1.shape[0] = 32; },
       "src1 has shape [32, 3, 1, 1]: expected [64, 3, 1, 1], [in, tokens]"},
  };
  return cases;
}

TEST(ValidateTest, EachFaultHasItsLine) {
  for (const BadCase& c : bad_cases()) {
    SCOPED_TRACE(c.name);
    ASSERT_EQ(validate(c.request).message(), "");
    nibble_request r = c.request;
    c.spoil(r);
    const Status s = validate(r);
    EXPECT_FALSE(s.ok());
    EXPECT_EQ(s.message(), c.message);
  }
}

TEST(ValidateTest, PermutedOutputIsNoOverlap) {
  nibble_request r = fake::dequantize(NIBBLE_Q4_K, NIBBLE_F32);
  r.weight.packed = make_tensor(nullptr, NIBBLE_Q4_K, {256, 2, 3});
  r.dst = make_tensor(nullptr, NIBBLE_F32, {256, 2, 3});
  std::swap(r.dst.byte_stride[1], r.dst.byte_stride[2]);
  r.dst.byte_stride[1] = 3 * 1024;
  r.dst.byte_stride[2] = 1024;
  EXPECT_EQ(validate(r).message(), "");
}

TEST(ValidateTest, WhatIsEmptyHasNoOverlap) {
  for (const auto& shape : {std::array<std::int64_t, 3>{0, 2, 1}, {0, 2, 3}, {256, 0, 3}, {0, 0, 1}}) {
    nibble_request r = make_request(NIBBLE_OP_DEQUANTIZE);
    r.weight.packed = make_tensor(nullptr, NIBBLE_Q4_K, shape);
    r.dst = make_tensor(nullptr, NIBBLE_F32, shape);
    EXPECT_EQ(validate(r).message(), "") << shape[0] << ", " << shape[1] << ", " << shape[2];
  }
}

TEST(MakeTensorTest, KnowsNoOrderAmongDimensionsOfZero) {
  constexpr std::int64_t large = std::int64_t{1} << 40;
  for (const std::array<std::int64_t, 3> shape :
       {std::array{large, large, std::int64_t{0}}, std::array{large, std::int64_t{0}, large},
        std::array{std::int64_t{0}, large, large}}) {
    EXPECT_EQ(make_tensor(nullptr, NIBBLE_F32, shape).byte_stride[0], -1) << "its strides do not fit 63 bits";
  }
  const Tensor t = make_tensor(nullptr, NIBBLE_F32, {5, 0, 7});
  EXPECT_EQ(t.rank, 3u);
  EXPECT_EQ(element_count(t), 0);
  EXPECT_EQ(storage_bytes(NIBBLE_F32, std::array{std::int64_t{5}, std::int64_t{0}}).value(), 0u);
}

TEST(MakeTensorTest, OperationsNameWhatIsWrongWithIt) {
  constexpr std::int64_t large = std::int64_t{1} << 60;
  const std::tuple<Format, std::vector<std::int64_t>, std::string> cases[] = {
      {NIBBLE_Q4_K, {100, 4}, "weight: q4_k row of 100 values: expected a multiple of 256"},
      {9, {256, 4}, "weight has unknown format 9"},
      {NIBBLE_Q4_K, {-256, 4}, "weight: shape [-256, 4, 1, 1]: expected dimensions >= 0 whose product fits 63 bits"},
      {NIBBLE_F32,
       {large, 4},
       "weight: f32 tensor of shape [1152921504606846976, 4, 1, 1]: its bytes do not fit 63 bits"},
      {NIBBLE_F32, {1, 1, 1, 1, 1}, "weight has rank 0: expected 1 to 4"}};
  for (const auto& [format, shape, message] : cases) {
    const Weight weight = make_weight(make_tensor(nullptr, format, shape));
    float at = 0;
    const Tensor one = make_tensor(&at, NIBBLE_F32, {1});
    EXPECT_EQ(dequantize(weight, one).message(), message);
    EXPECT_EQ(dequantize(weight, NIBBLE_F32).status().message(), message);
    EXPECT_EQ(out_prod(weight, one, NIBBLE_F32).status().message(), message);
    EXPECT_EQ(linear(weight, one, {}, NIBBLE_F32).status().message(), message);
  }
}

TEST(OperationsTest, OutProdAloneAccumulates) {
  float values[2] = {1, 5};
  const Weight weight = make_weight(make_tensor(values, NIBBLE_F32, {1, 1}));
  const Tensor dst = make_tensor(values + 1, NIBBLE_F32, {1, 1});
  const Options add{.accumulate = true};
  const char* none = "was given flags 1: expected none, out_prod alone can accumulate";
  EXPECT_EQ(dequantize(weight, dst, add).message(), std::string("dequantize ") + none);
  EXPECT_EQ(linear(weight, weight.packed, {}, dst, add).message(), std::string("linear ") + none);
  EXPECT_EQ(values[1], 5);
  EXPECT_TRUE(out_prod(weight, weight.packed, dst, add).ok());
  EXPECT_EQ(values[1], 6);
}

TEST(MakeTensorTest, TransposedSharesTheMemory) {
  const Tensor t = transposed(make_tensor(nullptr, NIBBLE_F32, {5, 3}));
  EXPECT_EQ(t.shape[0], 3);
  EXPECT_EQ(t.shape[1], 5);
  EXPECT_EQ(t.byte_stride[0], 20);
  EXPECT_EQ(t.byte_stride[1], 4);
  EXPECT_EQ(transposed(make_tensor(nullptr, NIBBLE_F32, {5})).rank, 2u);
}

TEST(OwnedTensorTest, RefusesRanksThatNoTensorHas) {
  const Registry registry = Registry::create(Settings{}).value();
  const std::array<std::int64_t, 5> ones = {1, 1, 1, 1, 1};
  for (const std::size_t rank : {0, 5}) {
    const auto t = OwnedTensor::allocate(registry, NIBBLE_F32, std::span(ones).first(rank), {});
    EXPECT_EQ(t.status().code(), NIBBLE_INVALID_ARGUMENT) << rank;
  }
}

TEST(StorageBytesTest, CountsBlocksAndRefusesWhatDoesNotFit) {
  const std::int64_t rows[] = {512, 3}, odd[] = {33, 65}, part[] = {500, 3}, huge[] = {INT64_MAX, 2};
  EXPECT_EQ(storage_bytes(NIBBLE_Q4_K, rows).value(), 3u * 2 * 144);
  EXPECT_EQ(storage_bytes(NIBBLE_NF4, odd).value(), 1073u);  // ceil(2145 / 2)
  EXPECT_EQ(storage_bytes(NIBBLE_Q4_K, part).status().message(), "q4_k row of 500 values: expected a multiple of 256");
  EXPECT_EQ(storage_bytes(NIBBLE_F32, huge).status().code(), NIBBLE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace nibble
