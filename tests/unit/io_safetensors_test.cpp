// safetensors files that are good, and such with one fault each.
// Apart from the other containers' tests so that the table of faults is one page.
#include "tests/unit/io_files.h"

#include "io/safetensors.h"

#include <span>

namespace nibble::test {
namespace {

/// A header with one tensor 't' whose fields are as given, over `data_bytes` of data.
BadFile one(std::string name, const std::string& fields, std::size_t data_bytes, std::vector<std::string> words) {
  return {std::move(name), [=] { return safetensors("{\"t\":{" + fields + "}}", std::string(data_bytes, 'x')); },
          std::move(words)};
}

BadFile header(std::string name, const std::string& text, std::vector<std::string> words) {
  return {std::move(name), [text] { return safetensors(text); }, std::move(words)};
}

/// Two F32 tensors 'a' and 'b' of 2 values at the given offsets, over 16 bytes of data.
BadFile two(std::string name, const std::string& a, const std::string& b, std::vector<std::string> words) {
  const std::string fields = R"("dtype":"F32","shape":[2],"data_offsets":)";
  return {std::move(name),
          [=] { return safetensors("{\"a\":{" + fields + a + "},\"b\":{" + fields + b + "}}", std::string(16, 'x')); },
          std::move(words)};
}

std::string ones(int count) {
  std::string text = "1";
  for (int i = 1; i < count; ++i) text += ",1";
  return text;
}

std::vector<BadFile> bad_files() {
  const std::string f32 = R"("dtype":"F32",)", shape2 = R"("shape":[2],)", all8 = R"("data_offsets":[0,8])";
  const std::string entry = "\"t\":{" + f32 + shape2 + R"("data_offsets":[0,0]})";
  return {
      {"length_beyond_file", [] { return safetensors("{}", "", 1000); }, {"header length is 1000", "2 bytes left"}},
      {"length_near_2_to_64", [] { return safetensors("{}", "", ~0ull); }, {"header length is 18446744073709551615"}},
      {"length_wraps_with_prefix", [] { return safetensors("{}", "", ~0ull - 7); }, {"18446744073709551608"}},
      {"length_0", [] { return safetensors("{}", "", 0); }, {"header of 0 bytes"}},
      {"length_cuts_json", [] { return safetensors("{\"t\":{}}", "", 4); }, {"not JSON"}},
      {"only_a_length", [] { return u64(0); }, {"neither GGUF nor safetensors"}},
      {"short", [] { return std::string("{}"); }, {"neither GGUF nor safetensors"}},
      {"header_is_array", [] { return safetensors("[]"); }, {"neither GGUF nor safetensors"}},
      header("json_open", "{\"t\":", {"not JSON"}),
      header("json_two_values", "{}{}", {"not JSON"}),
      header("json_not_utf8", "{\"\xff\":{}}", {"not JSON"}),
      header("json_deep", "{\"t\":" + std::string(100000, '['), {"'t'", "an array", "object"}),
      header("json_deep_objects", "{\"t\":{\"dtype\":{\"a\":{\"a\":{", {"'t'", "dtype", "an object", "a string"}),
      header("entry_is_number", "{\"t\":1}", {"'t'", "the number 1", "object"}),
      header("entry_is_null", "{\"t\":null}", {"'t'", "null", "object"}),
      header("entry_is_string", "{\"t\":\"x\"}", {"'t'", "a string", "object"}),
      header("name_twice", "{" + entry + "," + entry + "}", {"two tensors", "'t'"}),
      header("metadata_number", R"({"__metadata__":{"a":1}})", {"__metadata__", "the number 1", "strings"}),
      header("metadata_object", R"({"__metadata__":{"a":{}}})", {"__metadata__", "an object", "strings"}),
      header("metadata_array", R"({"__metadata__":[]})", {"__metadata__", "an array", "object of strings"}),
      header("metadata_key_twice", R"({"__metadata__":{"a":"","a":""}})", {"__metadata__", "'a'", "twice"}),
      header("metadata_twice", R"({"__metadata__":{},"__metadata__":{}})", {"two", "__metadata__"}),
      one("dtype_missing", shape2 + all8, 8, {"'t'", "lacks dtype"}),
      one("shape_missing", f32 + all8, 8, {"'t'", "lacks shape"}),
      one("offsets_missing", f32 + R"("shape":[2])", 8, {"'t'", "lacks data_offsets"}),
      one("dtype_twice", f32 + f32 + shape2 + all8, 8, {"'t'", "dtype twice"}),
      one("key_unknown", f32 + shape2 + all8 + R"(,"bits":4)", 8, {"'t'", "'bits'", "data_offsets"}),
      one("dtype_number", R"("dtype":4,)" + shape2 + all8, 8, {"'t'", "dtype is the number 4", "a string"}),
      one("shape_number", f32 + R"("shape":2,)" + all8, 8, {"'t'", "shape is the number 2", "an array"}),
      one("shape_negative", f32 + R"("shape":[-2],)" + all8, 8, {"'t'", "negative number -2"}),
      one("shape_fraction", f32 + R"("shape":[2.5],)" + all8, 8, {"'t'", "the number 2.5", "whole"}),
      one("shape_text", f32 + R"("shape":["2"],)" + all8, 8, {"'t'", "a string", "whole"}),
      one("shape_nested", f32 + R"("shape":[[2]],)" + all8, 8, {"'t'", "an array", "whole"}),
      one("shape_2_to_63", f32 + R"("shape":[9223372036854775808],)" + all8, 8, {"'t'", "9223372036854775808"}),
      one("shape_2_to_70", f32 + R"("shape":[1180591620717411303424],)" + all8, 8, {"'t'", "whole"}),
      one("shape_of_65", f32 + R"("shape":[)" + ones(65) + "]," + all8, 8, {"'t'", "more than 64 dimensions"}),
      one("product_wraps", f32 + R"("shape":[4294967296,4294967296],)" + all8, 8, {"'t'", "63 bits"}),
      one("bits_wrap", f32 + R"("shape":[576460752303423490],)" + all8, 8, {"'t'", "63 bits"}),
      one("product_wraps_beside_0", f32 + R"("shape":[4294967296,4294967296,0],"data_offsets":[0,0])", 0,
          {"'t'", "63 bits"}),
      one("bits_wrap_beside_0", f32 + R"("shape":[1152921504606846976,0],"data_offsets":[0,0])", 0, {"'t'", "63 bits"}),
      one("one_offset", f32 + shape2 + R"("data_offsets":[0])", 8, {"'t'", "1 numbers", "expected 2"}),
      one("three_offsets", f32 + shape2 + R"("data_offsets":[0,8,8])", 8, {"'t'", "more than 2"}),
      one("offsets_reversed", f32 + shape2 + R"("data_offsets":[8,0])", 8, {"'t'", "[8, 0]", "reversed"}),
      one("offsets_negative", f32 + shape2 + R"("data_offsets":[-8,0])", 8, {"'t'", "data_offsets", "negative"}),
      one("offsets_beyond", f32 + shape2 + R"("data_offsets":[4,12])", 8, {"'t'", "beyond the 8 bytes"}),
      one("offsets_2_to_64", f32 + shape2 + R"("data_offsets":[0,18446744073709551615])", 8, {"'t'", "beyond"}),
      one("span_too_short", f32 + shape2 + R"("data_offsets":[0,4])", 4, {"'t'", "span 4", "expected 8", "F32"}),
      one("span_too_long", f32 + shape2 + R"("data_offsets":[0,12])", 12, {"'t'", "span 12", "expected 8"}),
      one("data_cut", f32 + shape2 + all8, 7, {"'t'", "beyond the 7 bytes"}),
      one("data_left_over", f32 + shape2 + all8, 9, {"1 bytes", "after the last"}),
      one("half_bytes", R"("dtype":"F4","shape":[3],"data_offsets":[0,2])", 2, {"'t'", "F4"}),
      two("overlap", "[0,8]", "[4,12]", {"'a'", "'b'", "overlap"}),
      two("same_place", "[0,8]", "[0,8]", {"overlap"}),
      two("hole_before", "[8,16]", "[8,16]", {"0 to 8", "no tensor"}),
  };
}

class BadSafetensors : public ::testing::TestWithParam<BadFile> {};
TEST_P(BadSafetensors, IsRefusedByName) { expect_refused(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Files, BadSafetensors, ::testing::ValuesIn(bad_files()), case_name);

std::span<const std::uint8_t> span_of(std::string_view bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

TEST(Safetensors, EveryCutIsRefused) {
  const std::string whole = build(std::vector<Stored>{{"a", "F32", {2}, floats({1, 2})}, {"b", "U8", {3}, "xyz"}});
  ASSERT_TRUE(io::parse_safetensors(span_of(whole)).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);  // its own memory, so that a sanitizer sees a read past it
    const auto parsed = io::parse_safetensors(span_of(cut));
    ASSERT_FALSE(parsed.ok()) << size << " of " << whole.size() << " bytes";
    EXPECT_EQ(parsed.status().code(), NIBBLE_BAD_FILE);
  }
}

TEST(Safetensors, TakesPlainTensorsAsTheyStand) {
  const WeightFile file = open_good(safetensors(
      R"({"__metadata__":{"format":"pt"},"b":{"shape":[3],"data_offsets":[8,14],"dtype":"F16"},)"
      R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"c":{"dtype":"BF16","shape":[1],"data_offsets":[14,16]}}   )",
      floats({1, 2}) + "abcdefgh"));
  EXPECT_EQ(file.kind(), "safetensors");
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensors()[0].name, "b");  // in the header's order
  const FileTensor& a = tensor_of(file, "a");
  EXPECT_EQ(a.type, "f32");
  EXPECT_EQ(a.shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(a.weight.packed.shape[0], 1);
  EXPECT_EQ(a.weight.packed.shape[1], 2);
  EXPECT_EQ(bytes_at(a.weight.packed, 8), floats({1, 2}));
  EXPECT_EQ(tensor_of(file, "b").weight.packed.format, NIBBLE_F16);
  EXPECT_EQ(bytes_at(tensor_of(file, "b").weight.packed, 6), "abcdef");
  EXPECT_EQ(tensor_of(file, "c").weight.packed.format, NIBBLE_BF16);
  for (const FileTensor& tensor : file.tensors()) EXPECT_TRUE(tensor.usable.ok()) << tensor.usable.message();
}

TEST(Safetensors, UnalignedDataIsThere) {
  const WeightFile file =
      open_good(build(std::vector<Stored>{{"u", "U8", {1}, "x"}, {"f", "F32", {2}, floats({3, 4})}}));
  EXPECT_EQ(bytes_at(tensor_of(file, "f").weight.packed, 8), floats({3, 4}));
}

TEST(Safetensors, NamesTypesThatAreNoWeights) {
  const WeightFile file = open_good(build(std::vector<Stored>{
      {"i", "I32", {1}, "1234"}, {"n", "F9_NEW", {5}, "123"}, {"b", "BOOL", {2}, "12"}, {"q", "F4", {4}, "12"}}));
  expect_line_with(tensor_of(file, "i").usable, NIBBLE_UNSUPPORTED, {"'i'", "i32", "cannot be dequantized"});
  expect_line_with(tensor_of(file, "n").usable, NIBBLE_UNSUPPORTED, {"'n'", "f9_new"});
  expect_line_with(tensor_of(file, "b").usable, NIBBLE_UNSUPPORTED, {"'b'", "bool"});
  EXPECT_EQ(tensor_of(file, "q").type, "f4");
  EXPECT_EQ(tensor_of(file, "q").bytes, 2u);
}

TEST(Safetensors, FoldsOuterDimensionsAndTakesScalarsAndEmptyTensors) {
  const WeightFile file = open_good(build(std::vector<Stored>{{"six", "F16", {2, 3, 1, 2, 1, 4}, std::string(96, 's')},
                                                              {"scalar", "F32", {}, floats({9})},
                                                              {"empty", "F32", {3, 0, 5, 1, 2}, ""}}));
  const FileTensor& six = tensor_of(file, "six");
  EXPECT_EQ(six.shape, (std::vector<std::int64_t>{2, 3, 1, 2, 1, 4}));
  EXPECT_EQ(six.weight.packed.rank, 4u);
  EXPECT_EQ(std::vector<std::int64_t>(six.weight.packed.shape, six.weight.packed.shape + 4),
            (std::vector<std::int64_t>{4, 1, 2, 6}));
  EXPECT_EQ(six.weight.packed.byte_stride[3], 16);
  EXPECT_EQ(element_count(tensor_of(file, "scalar").weight.packed), 1);
  EXPECT_EQ(bytes_at(tensor_of(file, "scalar").weight.packed, 4), floats({9}));
  EXPECT_EQ(element_count(tensor_of(file, "empty").weight.packed), 0);
  EXPECT_TRUE(open_good(safetensors("{}")).tensors().empty());
}

TEST(Safetensors, NamesComeDecodedAndAreQuotedOnOneLine) {
  const std::string text = R"({"a\n\u00e9\"":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})";
  const WeightFile file = open_good(safetensors(text, "x"));
  EXPECT_EQ(file.tensors()[0].name, "a\n\xc3\xa9\"");
  expect_line_with(file.tensors()[0].usable, NIBBLE_UNSUPPORTED, {"'a\\x0a\xc3\xa9\"'"});
}

}  // namespace
}  // namespace nibble::test
