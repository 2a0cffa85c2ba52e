// The golden files through the readers: each tensor decoded by the reference is what the formats' authors gave, by
// bits. Apart from the readers' tests because it needs the decoder as well.
#include "tests/unit/io_files.h"

#include "core/decode.h"

#include <cmath>
#include <cstring>

namespace nibble::test {
namespace {

WeightFile open_golden(const std::string& name) {
  auto file = WeightFile::open(NIBBLE_TEST_DATA "/golden/" + name);
  if (!file) {
    ADD_FAILURE() << file.status().message();
    std::abort();
  }
  return std::move(*file);
}

std::vector<float> decode(const Weight& weight) {
  const Tensor& t = weight.packed;
  std::vector<float> values(static_cast<std::size_t>(element_count(t)));
  for (std::int64_t row = 0; row < t.shape[1]; ++row) {
    decode_row(weight, row, 0, 0, 0, t.shape[0], values.data() + row * t.shape[0]);
  }
  return values;
}

/// Values of `weight` rounded to `expected`'s type against those of `expected`.
void expect_same_bits(const FileTensor& tensor, const FileTensor& expected) {
  const Format type = expected.weight.packed.format;
  const std::size_t size = type == NIBBLE_F32 ? 4 : 2;
  const std::vector<float> values = decode(tensor.weight);
  ASSERT_EQ(values.size() * size, expected.bytes) << tensor.name;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint8_t rounded[4] = {};
    store_element(type, rounded, values[i]);
    const std::uint8_t* right = nibble::bytes_of(expected.weight.packed) + i * size;
    if (std::isnan(values[i]) && std::isnan(load_element(type, right))) continue;
    ASSERT_EQ(std::memcmp(rounded, right, size), 0) << tensor.name << " value " << i << " is " << values[i];
  }
}

TEST(Golden, GgufTensorsDecodeToTheirValues) {
  const WeightFile file = open_golden("ggml/ggml.gguf");
  const WeightFile expected = open_golden("ggml/ggml-expected.gguf");
  EXPECT_EQ(file.kind(), "GGUF v3");
  ASSERT_EQ(file.tensors().size(), 54u);
  for (const FileTensor& tensor : file.tensors()) {
    ASSERT_TRUE(tensor.usable.ok()) << tensor.usable.message();
    EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{5, 512}));
    EXPECT_EQ(find_format(tensor.name.substr(0, tensor.name.find('.'))), find_format(tensor.type)) << tensor.name;
    EXPECT_EQ(tensor.weight.packed.format, find_format(tensor.type)->id);
    expect_same_bits(tensor, tensor_of(expected, tensor.name));
  }
}

TEST(Golden, BitsandbytesWeightsDecodeToTheirValues) {
  const WeightFile file = open_golden("bitsandbytes/bnb.safetensors");
  const WeightFile expected = open_golden("bitsandbytes/bnb-expected.safetensors");
  std::size_t weights = 0, blockwise8 = 0;
  for (const FileTensor& tensor : file.tensors()) {
    if (tensor.type == "u8") ++blockwise8;
    if (tensor.type != "nf4" && tensor.type != "fp4") continue;
    ++weights;
    ASSERT_TRUE(tensor.usable.ok()) << tensor.usable.message();
    // The file with the values names each case, the file with the weights each case's weight.
    const FileTensor& right = tensor_of(expected, tensor.name.substr(0, tensor.name.rfind(".weight")));
    EXPECT_EQ(tensor.shape, right.shape) << tensor.name;
    EXPECT_EQ(tensor.own_type, right.weight.packed.format) << tensor.name;
    expect_same_bits(tensor, right);
  }
  EXPECT_EQ(weights, 90u);
  EXPECT_EQ(blockwise8, 6u);
  EXPECT_EQ(file.tensors().size(), 90u + 6u * 3u);  // the 8-bit ones stay three tensors each
}

}  // namespace
}  // namespace nibble::test
