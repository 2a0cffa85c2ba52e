// GGUF files that are good, and such with one fault each.
// Apart from the other containers' tests so that the table of faults is one page.
#include "tests/unit/io_files.h"

#include "io/gguf.h"

#include <limits>
#include <span>

namespace nibble::test {
namespace {

constexpr std::uint32_t kU8 = 0, kU32 = 4, kString = 8, kArray = 9, kU64 = 10, kF64 = 12;
constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();

/// 8 floats, then a row of q8_0.
GgufFile good_file() {
  GgufFile file;
  file.keys = {gguf_key("general.architecture", kString, gguf_string("test"))};
  file.tensors = {{"a", {4, 2}, NIBBLE_F32, floats({1, 2, 3, 4, 5, 6, 7, 8})},
                  {"b", {32}, NIBBLE_Q8_0, std::string(34, 'x')}};
  return file;
}

BadFile with_key(std::string name, const std::string& key, std::vector<std::string> words) {
  return {std::move(name),
          [key] {
            GgufFile file = good_file();
            file.keys.push_back(key);
            return build(file);
          },
          std::move(words)};
}

BadFile with_alignment(std::string name, std::uint32_t alignment) {
  return with_key(std::move(name), gguf_key("general.alignment", kU32, u32(alignment)),
                  {"general.alignment is " + std::to_string(alignment), "power of two"});
}

BadFile with_tensor(std::string name, const GgufTensor& tensor, std::vector<std::string> words) {
  return {std::move(name),
          [tensor] {
            GgufFile file = good_file();
            file.tensors.push_back(tensor);
            return build(file);
          },
          std::move(words)};
}

BadFile changed(std::string name, const std::function<void(GgufFile&)>& change, std::vector<std::string> words) {
  return {std::move(name),
          [change] {
            GgufFile file = good_file();
            change(file);
            return build(file);
          },
          std::move(words)};
}

std::string nested_arrays(int depth) {
  std::string value;
  for (int i = 1; i < depth; ++i) value += u32(kArray) + u64(1);
  return value + u32(kU8) + u64(1) + "x";
}

std::vector<BadFile> bad_files() {
  return {
      changed("big_endian", [](auto& f) { f.version = 0x03000000; }, {"big-endian", "little-endian"}),
      changed("big_endian_magic", [](auto& f) { f.magic = "FUGG"; }, {"big-endian"}),
      changed("version_1", [](auto& f) { f.version = 1; }, {"version 1", "2 or 3"}),
      changed("version_4", [](auto& f) { f.version = 4; }, {"version 4", "2 or 3"}),
      changed("version_0", [](auto& f) { f.version = 0; }, {"version 0", "2 or 3"}),
      changed("other_magic", [](auto& f) { f.magic = "GGML"; }, {"neither GGUF nor safetensors"}),
      changed("tensor_count_beyond_file", [](auto& f) { f.tensor_count = 1000; }, {"1000 tensors", "bytes left"}),
      changed("tensor_count_wraps", [](auto& f) { f.tensor_count = kTop; }, {"18446744073709551615 tensors"}),
      changed("key_count_beyond_file", [](auto& f) { f.key_count = 1000; }, {"1000 metadata keys", "bytes left"}),
      changed("key_count_wraps", [](auto& f) { f.key_count = kTop / 13 + 2; }, {"metadata keys"}),
      with_key("key_name_beyond_file", u64(100000) + "k", {"metadata key 1", "beyond the file"}),
      with_key("key_name_wraps", u64(kTop) + "k", {"metadata key 1", "beyond the file"}),
      with_key("key_string_beyond_file", gguf_key("k", kString, u64(kTop - 7)), {"'k'", "beyond the file"}),
      with_key("key_type_unknown", gguf_key("k", 13, "x"), {"'k'", "value type 13", "0 to 12"}),
      with_key("key_twice", gguf_key("general.architecture", kU8, "x"), {"'general.architecture'", "twice"}),
      with_key("array_beyond_file", gguf_key("k", kArray, u32(kU8) + u64(100000)), {"'k'", "100000 u8", "left"}),
      with_key("array_wraps", gguf_key("k", kArray, u32(kF64) + u64(1ull << 61)), {"'k'", "f64", "left"}),
      with_key("array_of_strings_beyond_file", gguf_key("k", kArray, u32(kString) + u64(kTop)), {"'k'", "string"}),
      with_key("array_type_unknown", gguf_key("k", kArray, u32(77) + u64(1)), {"'k'", "value type 77"}),
      with_key("arrays_too_deep", gguf_key("k", kArray, nested_arrays(5)), {"'k'", "deeper than 4"}),
      with_alignment("alignment_0", 0),
      with_alignment("alignment_4", 4),
      with_alignment("alignment_24", 24),
      with_alignment("alignment_33", 33),
      with_alignment("alignment_2_to_31", 1u << 31),
      with_key("alignment_u64", gguf_key("general.alignment", kU64, u64(32)), {"general.alignment", "u64", "u32"}),
      with_key("alignment_string", gguf_key("general.alignment", kString, gguf_string("32")), {"string", "u32"}),
      with_key("alignment_type_unknown", gguf_key("general.alignment", 99, u32(32)), {"type 99", "u32"}),
      with_tensor("five_dimensions", {"t", {1, 1, 1, 1, 1}}, {"'t'", "5 dimensions", "at most 4"}),
      with_tensor("dimension_negative", {"t", {kTop}}, {"'t'", "18446744073709551615", "2^63"}),
      with_tensor("product_wraps_to_0", {"t", {1ull << 32, 1ull << 32}}, {"'t'", "4294967296", "63 bits"}),
      with_tensor("product_wraps_to_4", {"t", {(1ull << 62) + 1, 4}, NIBBLE_I8, "abcd"}, {"'t'", "63 bits"}),
      with_tensor("product_wraps_beside_0", {"t", {1ull << 32, 1ull << 32, 0}}, {"'t'", "63 bits"}),
      with_tensor("bytes_wrap", {"t", {1ull << 62}, NIBBLE_F64}, {"'t'", "63 bits"}),
      with_tensor("bytes_wrap_beside_0", {"t", {1ull << 62, 0}, NIBBLE_F64}, {"'t'", "63 bits"}),
      with_tensor("row_of_part_blocks", {"t", {33, 2}, NIBBLE_Q8_0, std::string(68, 'x')}, {"'t'", "33", "32"}),
      with_tensor("offset_beyond_file", {"t", {1}, NIBBLE_F32, "abcd", 1 << 20}, {"'t'", "1048576", "beyond"}),
      with_tensor("offset_wraps", {"t", {8}, NIBBLE_F32, std::string(32, 'x'), kTop - 31}, {"'t'", "beyond"}),
      with_tensor("offset_unaligned", {"t", {1}, NIBBLE_F32, "abcd", 36}, {"'t'", "offset 36", "alignment 32"}),
      with_tensor("data_cut", {"t", {9}, NIBBLE_F32, std::string(35, 'x')}, {"'t'", "36 bytes", "beyond"}),
      with_tensor("overlap", {"t", {8}, NIBBLE_F32, "", 32}, {"'b'", "'t'", "overlap"}),
      with_tensor("overlap_of_2_bytes", {"t", {8}, NIBBLE_F32, "", 64}, {"'b'", "'t'", "overlap at offset 64"}),
      with_tensor("overlap_with_unknown_type", {"t", {8}, 99, "", 32}, {"'b'", "'t'", "overlap"}),
      with_tensor("unknown_type_beyond_file", {"t", {8}, 99, "", 1 << 20}, {"'t'", "beyond"}),
      with_tensor("name_twice", {"a", {0}}, {"two tensors", "'a'"}),
      with_tensor("name_not_utf8", {"t\xff\n", {0}}, {"tensor 2", "t\\xff\\x0a", "UTF-8"}),
  };
}

class BadGguf : public ::testing::TestWithParam<BadFile> {};
TEST_P(BadGguf, IsRefusedByName) { expect_refused(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Files, BadGguf, ::testing::ValuesIn(bad_files()), case_name);

std::span<const std::uint8_t> span_of(std::string_view bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

TEST(Gguf, EveryCutIsRefused) {
  const std::string whole = build(good_file());
  ASSERT_TRUE(io::parse_gguf(span_of(whole)).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);  // its own memory, so that a sanitizer sees a read past it
    const auto parsed = io::parse_gguf(span_of(cut));
    ASSERT_FALSE(parsed.ok()) << size << " of " << whole.size() << " bytes";
    EXPECT_EQ(parsed.status().code(), NIBBLE_BAD_FILE);
  }
}

TEST(Gguf, ListsTensorsOutermostFirst) {
  for (const std::uint32_t version : {2u, 3u}) {
    GgufFile source = good_file();
    source.version = version;
    const WeightFile file = open_good(build(source));
    EXPECT_EQ(file.kind(), version == 2 ? "GGUF v2" : "GGUF v3");
    ASSERT_EQ(file.tensors().size(), 2u);
    const FileTensor& a = file.tensors()[0];
    EXPECT_EQ(a.name, "a");
    EXPECT_EQ(a.type, "f32");
    EXPECT_EQ(a.shape, (std::vector<std::int64_t>{2, 4}));
    EXPECT_EQ(a.bytes, 32u);
    EXPECT_TRUE(a.usable.ok());
    EXPECT_EQ(a.weight.packed.rank, 2u);
    EXPECT_EQ(a.weight.packed.shape[0], 4);
    EXPECT_EQ(a.weight.packed.shape[1], 2);
    EXPECT_EQ(a.weight.packed.byte_stride[1], 16);
    EXPECT_EQ(bytes_at(a.weight.packed, 32), floats({1, 2, 3, 4, 5, 6, 7, 8}));
    const FileTensor& b = file.tensors()[1];
    EXPECT_EQ(b.type, "q8_0");
    EXPECT_EQ(b.bytes, 34u);
    EXPECT_EQ(bytes_at(b.weight.packed, 34), std::string(34, 'x'));
  }
}

TEST(Gguf, HonoursItsAlignment) {
  GgufFile source = good_file();
  source.alignment = 4096;
  source.keys.push_back(gguf_key("general.alignment", kU32, u32(4096)));
  const WeightFile file = open_good(build(source));
  EXPECT_EQ(bytes_at(tensor_of(file, "b").weight.packed, 34), std::string(34, 'x'));
  EXPECT_EQ(bytes_at(tensor_of(file, "a").weight.packed, 4), floats({1}));
}

TEST(Gguf, SkipsEveryKindOfMetadata) {
  GgufFile source = good_file();
  const std::string sizes[] = {"1", "1", "12", "12", "1234", "1234", "1234", "1"};
  for (std::uint32_t type = 0; type < 8; ++type)
    source.keys.push_back(gguf_key(std::to_string(type), type, sizes[type]));
  for (std::uint32_t type = 10; type < 13; ++type)
    source.keys.push_back(gguf_key(std::to_string(type), type, "12345678"));
  source.keys.push_back(gguf_key("strings", kArray, u32(kString) + u64(2) + gguf_string("x") + gguf_string("")));
  source.keys.push_back(gguf_key("numbers", kArray, u32(5) + u64(3) + "123412341234"));
  source.keys.push_back(gguf_key("nothing", kArray, u32(kF64) + u64(0)));
  source.keys.push_back(gguf_key("nested", kArray, nested_arrays(4)));
  const WeightFile file = open_good(build(source));
  EXPECT_EQ(bytes_at(tensor_of(file, "b").weight.packed, 34), std::string(34, 'x'));
}

TEST(Gguf, UnknownTypesLeaveTheRestUsable) {
  GgufFile source = good_file();
  source.tensors.insert(source.tensors.begin() + 1, {"new", {64}, 99, std::string(64, 'n')});
  source.tensors.push_back({"own", {64}, NIBBLE_NF4, std::string(32, 'n')});  // 256 is a number of nibble, not of GGUF
  source.tensors.push_back({"old", {64}, 31, std::string(36, 'n')});
  const WeightFile file = open_good(build(source));
  EXPECT_EQ(bytes_at(tensor_of(file, "b").weight.packed, 34), std::string(34, 'x'));
  EXPECT_TRUE(tensor_of(file, "b").usable.ok());
  expect_line_with(tensor_of(file, "new").usable, NIBBLE_UNSUPPORTED, {"'new'", "type 99"});
  expect_line_with(tensor_of(file, "own").usable, NIBBLE_UNSUPPORTED, {"'own'", "type 256"});
  expect_line_with(tensor_of(file, "old").usable, NIBBLE_UNSUPPORTED, {"'old'", "type 31", "q4_0_4_4"});
}

TEST(Gguf, NamesTypesThatAreNoWeights) {
  const std::pair<std::uint32_t, std::string> types[] = {
      {NIBBLE_I8, "i8"}, {NIBBLE_I16, "i16"}, {NIBBLE_I32, "i32"}, {NIBBLE_I64, "i64"}, {NIBBLE_F64, "f64"}};
  const std::size_t sizes[] = {1, 2, 4, 8, 8};
  GgufFile source;
  for (std::size_t i = 0; i < 5; ++i)
    source.tensors.push_back({types[i].second, {3}, types[i].first, std::string(3 * sizes[i], 'x')});
  const WeightFile file = open_good(build(source));
  for (std::size_t i = 0; i < 5; ++i) {
    const FileTensor& tensor = file.tensors()[i];
    EXPECT_EQ(tensor.type, types[i].second);
    EXPECT_EQ(tensor.bytes, 3 * sizes[i]);
    expect_line_with(tensor.usable, NIBBLE_UNSUPPORTED, {"type " + types[i].second, "cannot be dequantized"});
  }
}

TEST(Gguf, TakesScalarsEmptyTensorsAndEmptyFiles) {
  GgufFile source;
  source.tensors = {{"scalar", {}, NIBBLE_F32, floats({7})},
                    {"empty", {0, 3}, NIBBLE_Q4_K, ""},
                    {"four", {2, 1, 3, 2}, NIBBLE_F16, std::string(24, 'f')}};
  const WeightFile file = open_good(build(source));
  const Tensor& scalar = tensor_of(file, "scalar").weight.packed;
  EXPECT_EQ(scalar.rank, 1u);
  EXPECT_EQ(element_count(scalar), 1);
  EXPECT_EQ(bytes_at(scalar, 4), floats({7}));
  EXPECT_EQ(element_count(tensor_of(file, "empty").weight.packed), 0);
  EXPECT_EQ(tensor_of(file, "empty").bytes, 0u);
  EXPECT_EQ(tensor_of(file, "four").shape, (std::vector<std::int64_t>{2, 3, 1, 2}));
  EXPECT_EQ(tensor_of(file, "four").weight.packed.byte_stride[3], 12);
  EXPECT_TRUE(open_good(build(GgufFile{})).tensors().empty());
}

TEST(Gguf, KeepsTheScaleOfAnNvfp4WeightVisible) {
  GgufFile source;
  source.tensors = {{"w", {64}, NIBBLE_NVFP4, std::string(36, 'n')}, {"w.scale", {1}, NIBBLE_F32, floats({0.5f})}};
  const WeightFile file = open_good(build(source));
  EXPECT_TRUE(tensor_of(file, "w").usable.ok());
  EXPECT_EQ(bytes_at(tensor_of(file, "w.scale").weight.packed, 4), floats({0.5f}));
}

}  // namespace
}  // namespace nibble::test
