// bitsandbytes weights put together from their tensors, and states with one fault each.
// Apart from the container's test: here the container is always good.
#include "tests/unit/io_files.h"

#include "core/formats/fp4.h"
#include "core/formats/nf4.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <map>

namespace nibble::test {
namespace {

using nlohmann::json;

/// A weight [7, 10] in blocks of 32: 35 bytes, 3 blocks; nested in groups of 2 blocks.
struct Weight4 {
  std::string state_key = "quant_state.bitsandbytes__nf4";
  json state = {{"quant_type", "nf4"}, {"blocksize", 32}, {"dtype", "bfloat16"}, {"shape", {7, 10}}};
  std::map<std::string, Stored> parts;  // by what follows the weight's name
};

std::string codes(const float (&table)[16]) { return floats({table, table + 16}); }

Weight4 plain_weight() {
  Weight4 w;
  w.parts[""] = {"w", "U8", {35, 1}, std::string(35, 'p')};
  w.parts["absmax"] = {"w.absmax", "F32", {3}, floats({1, 2, 3})};
  w.parts["quant_map"] = {"w.quant_map", "F32", {16}, codes(format::NF4::kCodes)};
  return w;
}

Weight4 nested_weight() {
  Weight4 w = plain_weight();
  w.state["nested_blocksize"] = 2;
  w.state["nested_dtype"] = "float32";
  w.state["nested_offset"] = -0.25;
  w.parts["absmax"] = {"w.absmax", "U8", {3}, "abc"};
  w.parts["nested_absmax"] = {"w.nested_absmax", "F32", {2}, floats({5, 6})};
  w.parts["nested_quant_map"] = {"w.nested_quant_map", "F32", {256}, floats(std::vector<float>(256, 0.5f))};
  return w;
}

/// The weight's tensors, its state, and a tensor 'rest' that has nothing to do with it. `first` comes before all.
std::vector<Stored> stored(const Weight4& w, std::vector<Stored> first = {}) {
  const std::string text = w.state.is_string() ? w.state.get<std::string>() : w.state.dump();
  for (const auto& [key, part] : w.parts) first.push_back(part);
  if (!w.state_key.empty()) {
    first.push_back({"w." + w.state_key, "U8", {static_cast<std::int64_t>(text.size())}, text});
  }
  first.push_back({"rest", "F32", {1}, floats({42})});
  return first;
}

struct BrokenState {
  std::string name;
  Weight4 (*base)();
  std::function<void(Weight4&)> change;
  std::vector<std::string> words;
};
void PrintTo(const BrokenState& broken, std::ostream* out) { *out << broken.name; }

BrokenState key_set(std::string name, Weight4 (*base)(), const char* key, const json& value,
                    std::vector<std::string> words) {
  return {std::move(name), base, [=](Weight4& w) { w.state[key] = value; }, std::move(words)};
}

std::vector<BrokenState> missing_parts_and_keys() {
  std::vector<BrokenState> cases;
  for (const char* key : {"quant_type", "blocksize", "dtype", "shape"}) {
    cases.push_back({std::string("no_") + key, plain_weight, [=](Weight4& w) { w.state.erase(key); }, {"lacks", key}});
  }
  for (const char* key :
       {"quant_type", "blocksize", "dtype", "shape", "nested_blocksize", "nested_dtype", "nested_offset"}) {
    cases.push_back(
        {std::string("nested_without_") + key, nested_weight, [=](Weight4& w) { w.state.erase(key); }, {"lacks", key}});
  }
  for (const char* part : {"absmax", "quant_map"}) {
    cases.push_back({std::string("no_tensor_") + part,
                     plain_weight,
                     [=](Weight4& w) { w.parts.erase(part); },
                     {part, "is missing"}});
  }
  for (const char* part : {"absmax", "quant_map", "nested_absmax", "nested_quant_map"}) {
    cases.push_back({std::string("nested_without_tensor_") + part,
                     nested_weight,
                     [=](Weight4& w) { w.parts.erase(part); },
                     {part, "is missing"}});
  }
  for (const char* key : {"nested_blocksize", "nested_dtype", "nested_offset"}) {
    cases.push_back({std::string("plain_with_") + key,
                     plain_weight,
                     [=](Weight4& w) { w.state[key] = nested_weight().state[key]; },
                     {key, "plain"}});
  }
  for (const char* part : {"nested_absmax", "nested_quant_map"}) {
    cases.push_back({std::string("plain_with_tensor_") + part,
                     plain_weight,
                     [=](Weight4& w) { w.parts[part] = nested_weight().parts[part]; },
                     {part, "plain"}});
  }
  return cases;
}

std::vector<BrokenState> wrong_values() {
  const json none;
  return {
      key_set("quant_type_unknown", plain_weight, "quant_type", "int4", {"quant_type", "'int4'", "nf4 or fp4"}),
      key_set("quant_type_other", plain_weight, "quant_type", "fp4", {"quant_type is fp4", "bitsandbytes__nf4"}),
      key_set("quant_type_number", plain_weight, "quant_type", 4, {"quant_type", "'4'", "a string"}),
      key_set("blocksize_0", plain_weight, "blocksize", 0, {"blocksize is '0'", "power of two"}),
      key_set("blocksize_16", plain_weight, "blocksize", 16, {"blocksize is '16'", "32 to 4096"}),
      key_set("blocksize_48", plain_weight, "blocksize", 48, {"blocksize is '48'", "power of two"}),
      key_set("blocksize_8192", plain_weight, "blocksize", 8192, {"blocksize is '8192'", "32 to 4096"}),
      key_set("blocksize_negative", plain_weight, "blocksize", -64, {"blocksize is '-64'"}),
      key_set("blocksize_2_to_64", plain_weight, "blocksize", json::parse("18446744073709551616"), {"blocksize"}),
      key_set("blocksize_text", plain_weight, "blocksize", "64", {"blocksize"}),
      key_set("dtype_unknown", plain_weight, "dtype", "float64", {"dtype", "'float64'", "bfloat16"}),
      key_set("shape_number", plain_weight, "shape", 70, {"shape is '70'", "array"}),
      key_set("shape_negative", plain_weight, "shape", {-7, -10}, {"shape holds '-7'"}),
      key_set("shape_fraction", plain_weight, "shape", {7.5}, {"shape holds '7.5'"}),
      key_set("shape_wraps", plain_weight, "shape", {1ll << 32, 1ll << 32}, {"shape", "63 bits"}),
      key_set("shape_of_more_values", plain_weight, "shape", {7, 11}, {"35 bytes", "expected 39", "[7, 11]"}),
      key_set("nested_blocksize_0", nested_weight, "nested_blocksize", 0, {"nested_blocksize is '0'"}),
      key_set("nested_blocksize_negative", nested_weight, "nested_blocksize", -256, {"nested_blocksize is '-256'"}),
      key_set("nested_blocksize_3", nested_weight, "nested_blocksize", 3, {"nested_blocksize is '3'", "power of two"}),
      key_set("nested_blocksize_other", nested_weight, "nested_blocksize", 4,
              {"nested_absmax", "2 values", "expected 1"}),
      key_set("nested_dtype_half", nested_weight, "nested_dtype", "float16", {"nested_dtype", "'float16'", "float32"}),
      key_set("nested_offset_text", nested_weight, "nested_offset", "0", {"nested_offset", "a number"}),
      key_set("nested_offset_null", nested_weight, "nested_offset", none, {"nested_offset", "a number"}),
      key_set("nested_offset_huge", nested_weight, "nested_offset", 1e300, {"nested_offset", "float32"}),
      {"state_not_json", plain_weight, [](auto& w) { w.state = json("{\"quant_type\": nf4}"); }, {"not a JSON object"}},
      {"state_is_array", plain_weight, [](auto& w) { w.state = json::array({1}); }, {"not a JSON object"}},
      {"state_is_empty", plain_weight, [](auto& w) { w.state = json(""); }, {"not a JSON object"}},
      {"state_is_deep", plain_weight, [](auto& w) { w.state = json(std::string(60000, '[')); }, {"not a JSON object"}},
      {"state_is_long", plain_weight, [](auto& w) { w.state["x"] = std::string(70000, 'x'); }, {"at most 65536"}},
      {"state_key_twice",
       plain_weight,
       [](auto& w) { w.state = json("{\"blocksize\":32," + w.state.dump().substr(1)); },
       {"'blocksize'", "twice"}},
      {"state_named_int4", plain_weight, [](auto& w) { w.state_key = "quant_state.bitsandbytes__int4"; }, {"__int4"}},
      {"state_missing", plain_weight, [](auto& w) { w.state_key = ""; }, {"quant_state.bitsandbytes__nf4", "missing"}},
      {"state_missing_quant_storage",
       plain_weight,
       [](auto& w) {
         w.state_key = "", w.parts[""] = {"w", "BF16", {17, 1}, std::string(34, 'p')};
       },
       {"missing"}},
      {"two_states",
       plain_weight,
       [](auto& w) {
         w.parts["x"] = {"w.quant_state.bitsandbytes__fp4", "U8", {2}, "{}"};
       },
       {"2 states", "expected one"}},
      {"packed_missing", plain_weight, [](auto& w) { w.parts.erase(""); }, {"packed tensor is missing"}},
      {"packed_short",
       plain_weight,
       [](auto& w) {
         w.parts[""] = {"w", "U8", {34, 1}, std::string(34, 'p')};
       },
       {"34 bytes", "expected 35"}},
      {"packed_long",
       plain_weight,
       [](auto& w) {
         w.parts[""] = {"w", "F16", {18, 1}, std::string(36, 'p')};
       },
       {"36 bytes", "expected 35"}},
      {"absmax_short",
       plain_weight,
       [](auto& w) {
         w.parts["absmax"] = {"w.absmax", "F32", {2}, floats({1, 2})};
       },
       {"absmax holds 2", "expected 3", "blocks of 32"}},
      {"absmax_long",
       nested_weight,
       [](auto& w) {
         w.parts["absmax"] = {"w.absmax", "U8", {4}, "abcd"};
       },
       {"absmax holds 4", "expected 3"}},
      {"absmax_half",
       plain_weight,
       [](auto& w) {
         w.parts["absmax"] = {"w.absmax", "F16", {3}, "abcdef"};
       },
       {"absmax", "'F16'", "F32", "U8"}},
      {"nested_absmax_short",
       nested_weight,
       [](auto& w) {
         w.parts["nested_absmax"] = {"w.nested_absmax", "F32", {1}, floats({1})};
       },
       {"nested_absmax holds 1", "expected 2"}},
      {"nested_absmax_half",
       nested_weight,
       [](auto& w) {
         w.parts["nested_absmax"] = {"w.nested_absmax", "F16", {2}, "abcd"};
       },
       {"nested_absmax", "'F16'"}},
      {"nested_quant_map_short",
       nested_weight,
       [](auto& w) {
         w.parts["nested_quant_map"] = {"w.nested_quant_map", "F32", {16}, codes(format::NF4::kCodes)};
       },
       {"nested_quant_map holds 16", "expected 256"}},
      {"quant_map_short",
       plain_weight,
       [](auto& w) {
         w.parts["quant_map"] = {"w.quant_map", "F32", {1}, floats({0})};
       },
       {"quant_map holds 1"}},
      {"quant_map_bytes",
       plain_weight,
       [](auto& w) {
         w.parts["quant_map"] = {"w.quant_map", "U8", {16}, std::string(16, 'x')};
       },
       {"quant_map", "'U8'"}},
      {"quant_map_of_fp4",
       plain_weight,
       [](auto& w) { w.parts["quant_map"].data = codes(format::FP4::kCodes); },
       {"code 0 of quant_map is 0", "expected -1", "nf4"}},
      {"quant_map_off_by_2e_6",
       plain_weight,
       [](auto& w) { w.parts["quant_map"].data.replace(60, 4, floats({1.000002f})); },
       {"code 15 of quant_map"}},
      {"quant_map_zero_off",
       plain_weight,
       [](auto& w) { w.parts["quant_map"].data.replace(28, 4, floats({1e-30f})); },
       {"code 7 of quant_map"}},
      {"quant_map_nan",
       plain_weight,
       [](auto& w) { w.parts["quant_map"].data.replace(8, 4, floats({std::numeric_limits<float>::quiet_NaN()})); },
       {"code 2 of quant_map"}},
  };
}

class BrokenWeight : public ::testing::TestWithParam<BrokenState> {};

TEST_P(BrokenWeight, IsListedWithTheReasonAndLeavesTheRest) {
  Weight4 w = GetParam().base();
  GetParam().change(w);
  const WeightFile file = open_good(build(stored(w)));
  const FileTensor& broken = tensor_of(file, "w");
  expect_line_with(broken.usable, NIBBLE_BAD_FILE, {"bitsandbytes weight 'w': "});
  expect_line_with(broken.usable, NIBBLE_BAD_FILE, GetParam().words);
  EXPECT_FALSE(present(broken.weight.packed));
  EXPECT_GT(broken.bytes, 0u);
  const FileTensor& rest = tensor_of(file, "rest");
  EXPECT_TRUE(rest.usable.ok());
  EXPECT_EQ(bytes_at(rest.weight.packed, 4), floats({42}));
  if (!w.state_key.empty()) {
    EXPECT_EQ(file.tensors().size(), 2u);  // the weight's parts are no entries of their own
  }
}

const auto broken_name = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Missing, BrokenWeight, ::testing::ValuesIn(missing_parts_and_keys()), broken_name);
INSTANTIATE_TEST_SUITE_P(Wrong, BrokenWeight, ::testing::ValuesIn(wrong_values()), broken_name);

TEST(Bitsandbytes, PlainWeightIsOneEntry) {
  const WeightFile file = open_good(build(stored(plain_weight())));
  ASSERT_EQ(file.tensors().size(), 2u);
  const FileTensor& w = tensor_of(file, "w");
  ASSERT_TRUE(w.usable.ok()) << w.usable.message();
  EXPECT_EQ(w.type, "nf4");
  EXPECT_EQ(w.shape, (std::vector<std::int64_t>{7, 10}));
  EXPECT_EQ(w.own_type, NIBBLE_BF16);
  EXPECT_FALSE(w.packed_transposed);
  EXPECT_EQ(w.bytes, 35 + 12 + 64 + plain_weight().state.dump().size());
  EXPECT_EQ(w.weight.packed.format, NIBBLE_NF4);
  EXPECT_EQ(w.weight.packed.shape[0], 10);
  EXPECT_EQ(w.weight.packed.shape[1], 7);
  EXPECT_EQ(bytes_at(w.weight.packed, 35), std::string(35, 'p'));
  EXPECT_EQ(w.weight.block_size, 32);
  EXPECT_EQ(w.weight.absmax.format, NIBBLE_F32);
  EXPECT_EQ(bytes_at(w.weight.absmax, 12), floats({1, 2, 3}));
  EXPECT_FALSE(nested(w.weight));
  EXPECT_EQ(w.weight.nested_block_size, 0);
}

TEST(Bitsandbytes, NestedWeightHasItsSecondLevel) {
  const WeightFile file = open_good(build(stored(nested_weight())));
  const FileTensor& w = tensor_of(file, "w");
  ASSERT_TRUE(w.usable.ok()) << w.usable.message();
  EXPECT_EQ(w.weight.absmax.format, NIBBLE_U8);
  EXPECT_EQ(bytes_at(w.weight.absmax, 3), "abc");
  ASSERT_TRUE(nested(w.weight));
  EXPECT_EQ(bytes_at(w.weight.nested_absmax, 8), floats({5, 6}));
  EXPECT_EQ(element_count(w.weight.nested_code), 256);
  EXPECT_EQ(w.weight.nested_block_size, 2);
  EXPECT_EQ(w.weight.nested_offset, -0.25f);
}

TEST(Bitsandbytes, UnalignedStatisticsAreCopiedAligned) {
  for (const auto base : {plain_weight, nested_weight}) {
    const WeightFile file = open_good(build(stored(base(), {{"byte", "U8", {1}, "x"}})));
    const Weight& w = tensor_of(file, "w").weight;
    for (const Tensor* part : {&w.absmax, &w.nested_absmax, &w.nested_code}) {
      if (present(*part) && part->format == NIBBLE_F32) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(nibble::bytes_of(*part)) % alignof(float), 0u);
      }
    }
    const Tensor& level = nested(w) ? w.nested_absmax : w.absmax;
    EXPECT_EQ(bytes_at(level, 8), nested(w) ? floats({5, 6}) : floats({1, 2}));
  }
}

TEST(Bitsandbytes, PackedBytesMayHaveAnyType) {
  for (const auto& [dtype, size] :
       std::map<std::string, std::int64_t>{{"U8", 1}, {"F16", 2}, {"BF16", 2}, {"F32", 4}, {"I8", 1}}) {
    Weight4 w = plain_weight();
    w.state["shape"] = {8, 9};  // 36 bytes, whole elements of each type
    w.parts[""] = {"w", dtype, {36 / size, 1}, std::string(36, 'q')};
    const WeightFile file = open_good(build(stored(w)));
    ASSERT_TRUE(tensor_of(file, "w").usable.ok()) << dtype << ": " << tensor_of(file, "w").usable.message();
    EXPECT_EQ(bytes_at(tensor_of(file, "w").weight.packed, 36), std::string(36, 'q'));
  }
}

TEST(Bitsandbytes, ARowOfPackedBytesIsTransposed) {
  Weight4 w = plain_weight();
  w.parts[""].shape = {1, 35};
  const WeightFile row = open_good(build(stored(w)));
  EXPECT_TRUE(tensor_of(row, "w").packed_transposed);
  EXPECT_EQ(tensor_of(row, "w").shape, (std::vector<std::int64_t>{7, 10}));
  w.parts[""].shape = {35};
  EXPECT_FALSE(tensor_of(open_good(build(stored(w))), "w").packed_transposed);
}

TEST(Bitsandbytes, Fp4ScalarsEmptyAndHighRankWeights) {
  const std::pair<json, std::size_t> shapes[] = {{json::array(), 1}, {{0}, 0}, {{3, 0}, 0}, {{1, 2, 1, 2, 1, 16}, 64}};
  for (const auto& [shape, elements] : shapes) {
    Weight4 w = plain_weight();
    w.state_key = "quant_state.bitsandbytes__fp4";
    w.state["quant_type"] = "fp4";
    w.state["shape"] = shape;
    w.parts["quant_map"].data = codes(format::FP4::kCodes);
    const std::size_t bytes = (elements + 1) / 2, blocks = (elements + 31) / 32;
    w.parts[""] = {"w", "U8", {static_cast<std::int64_t>(bytes), 1}, std::string(bytes, 'p')};
    w.parts["absmax"] = {"w.absmax", "F32", {static_cast<std::int64_t>(blocks)}, std::string(4 * blocks, 'a')};
    const WeightFile file = open_good(build(stored(w)));
    const FileTensor& tensor = tensor_of(file, "w");
    ASSERT_TRUE(tensor.usable.ok()) << tensor.usable.message();
    EXPECT_EQ(tensor.shape, shape.get<std::vector<std::int64_t>>());
    EXPECT_EQ(tensor.weight.packed.format, NIBBLE_FP4);
    EXPECT_EQ(element_count(tensor.weight.packed), static_cast<std::int64_t>(elements));
  }
}

TEST(Bitsandbytes, EightBitWeightsWithoutAStateStayAsTheyAre) {
  const WeightFile file =
      open_good(build(std::vector<Stored>{{"w", "U8", {100}, std::string(100, 'p')},
                                          {"w.absmax", "F32", {1}, floats({1})},
                                          {"w.quant_map", "F32", {256}, floats(std::vector<float>(256, 0.5f))}}));
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(tensor_of(file, "w").type, "u8");
  expect_line_with(tensor_of(file, "w").usable, NIBBLE_UNSUPPORTED, {"'w'", "u8", "8-bit blockwise", "block size"});
  EXPECT_TRUE(tensor_of(file, "w.absmax").usable.ok());
  EXPECT_TRUE(tensor_of(file, "w.quant_map").usable.ok());
}

}  // namespace
}  // namespace nibble::test
