// The random content.
// Apart from the header so that the generator is compiled once.
#include "fixtures.h"

#include <random>

namespace nibble::bench {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::vector<float> random_floats(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(static_cast<std::int64_t>(random())) * 0x1p-63f;
  return values;
}

RandomWeight::RandomWeight(Format format, std::int64_t columns, std::int64_t rows, bool nested) {
  const std::int64_t shape[2] = {columns, rows};
  packed.resize(storage_bytes(format, shape).value() + 64);
  std::mt19937_64 random(format);
  // Bytes whose upper two bits of every pair are clear keep half scales finite and small, whatever their place.
  for (std::size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<std::uint8_t>(random() & 0x3f);
  weight = make_weight(make_tensor(packed.data(), format, shape));
  if (find_format(format)->kind != FormatInfo::Kind::flat) return;
  for (std::uint8_t& b : packed) b = static_cast<std::uint8_t>(random());
  weight.block_size = 64;
  const std::int64_t blocks = ceil_div(columns * rows, weight.block_size);
  code = random_floats(256, 1);
  if (format == NIBBLE_BLOCKWISE8) weight.code = make_tensor(code.data(), NIBBLE_F32, {256});
  if (!nested) {
    absmax = random_floats(static_cast<std::size_t>(blocks), 2);
    weight.absmax = make_tensor(absmax.data(), NIBBLE_F32, {blocks});
    return;
  }
  absmax_codes.resize(static_cast<std::size_t>(blocks));
  for (std::uint8_t& b : absmax_codes) b = static_cast<std::uint8_t>(random());
  weight.nested_block_size = 256;
  weight.nested_offset = 0.05f;
  const std::int64_t groups = ceil_div(blocks, 256);
  nested_absmax = random_floats(static_cast<std::size_t>(groups), 3);
  weight.absmax = make_tensor(absmax_codes.data(), NIBBLE_U8, {blocks});
  weight.nested_absmax = make_tensor(nested_absmax.data(), NIBBLE_F32, {groups});
  weight.nested_code = make_tensor(code.data(), NIBBLE_F32, {256});
}

}  // namespace nibble::bench
