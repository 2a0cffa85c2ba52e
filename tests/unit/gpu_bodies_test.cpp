// What one GPU thread does, run on the host for every format with random bits and held against the reference decoder.
// Apart from the conformance tests because those need a GPU; the bodies between two barriers do not.
#include <gtest/gtest.h>

#include <nibble/tensor.hpp>

#include "backends/gpu/bodies.h"
#include "backends/gpu/scales.h"
#include "core/decode.h"
#include "core/formats/formats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace nibble::gpu {
namespace {

std::vector<std::uint8_t> random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<std::uint8_t> bytes(count);
  for (auto& b : bytes) b = static_cast<std::uint8_t>(rng());
  return bytes;
}

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<float> floats(count);
  for (float& x : floats) x = float_from_bits(static_cast<std::uint32_t>(rng()));
  return floats;
}

/// Equal bits, or both NaN.
::testing::AssertionResult same(float got, float expected) {
  if (float_bits(got) == float_bits(expected) || (std::isnan(got) && std::isnan(expected))) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << got << " (0x" << std::hex << float_bits(got) << "), expected " << expected
                                       << " (0x" << float_bits(expected) << ")";
}

template <class F, int N>
void body(const std::uint8_t* block, int j, float (&out)[N]) {
  if constexpr (F::kEngine == Engine::runs) {
    float table[16] = {};
    if constexpr (F::kCombine == Combine::table) fill_codes<F>(table);
    const int r = j / F::kRunLength;
    decode_run<F, N>(block, F::run(r), j % F::kRunLength, run_scale<F>(block, r), table, out);
  } else if constexpr (F::kEngine == Engine::grid) {
    alignas(8) static constexpr auto kGrid = biased_grid<F::kGrid>();
    decode_grid<F, N>(block, j, kGrid.entries, out);
  } else {
    decode_base3<F, N>(block, j, F::scale(block), out);
  }
}

/// What the fused products read of a block beside whole values: codes two at a time, scales of several groups.
template <class F>
void check_parts(const std::uint8_t* block) {
  if constexpr (F::kEngine == Engine::runs) {
    for (int r = 0; r < F::kBlockValues / F::kRunLength; ++r) {
      for (int l = 0; l < F::kRunLength; l += 2) {
        const std::uint32_t expected = run_code(block, F::run(r), l) | run_code(block, F::run(r), l + 1) << 8;
        ASSERT_EQ(run_codes2<F>(block, F::run(r), l), expected) << F::kName << " run " << r << " code " << l;
      }
    }
  } else if constexpr (F::kEngine == Engine::grid) {
    for (int g = 0; g < F::kBlockValues / 8; ++g) {
      const float first = F::group(block, g / F::kScaleGroups * F::kScaleGroups).scale;
      ASSERT_TRUE(same(F::group(block, g).scale, first)) << F::kName << " group " << g;
    }
  }
}

/// 512 random blocks, through the chunks of N values that a thread decodes at a time.
template <class F, int N>
void check_blocks() {
  constexpr int kBlocks = 512;
  const std::vector<std::uint8_t> bytes = random_bytes(kBlocks * F::kBlockBytes + 16, F::kId);
  int checked = 0;
  for (int b = 0; b < kBlocks; ++b) {
    const std::uint8_t* block = bytes.data() + b * F::kBlockBytes;
    check_parts<F>(block);
    for (int j = 0; j < F::kBlockValues; j += N) {
      float out[N];
      body<F, N>(block, j, out);
      for (int i = 0; i < N; ++i, ++checked) {
        ASSERT_TRUE(same(out[i], block_value<F>(block, j + i))) << F::kName << " block " << b << " value " << j + i;
      }
    }
  }
  ASSERT_EQ(checked, kBlocks * F::kBlockValues);
}

template <class F, int N>
void check_flat() {
  constexpr int kBits = F::kEngine == Engine::flat4 ? 4 : 8;
  constexpr int kValues = 4096;
  std::vector<std::uint8_t> bytes = random_bytes(kValues, F::kId);
  std::vector<float> code = random_floats(256, 1), absmax = random_floats(kValues / 64, 2);
  Weight w{};
  w.packed = make_tensor(bytes.data(), F::kId, {kValues});
  w.absmax = make_tensor(absmax.data(), NIBBLE_F32, {kValues / 64});
  w.code = make_tensor(code.data(), NIBBLE_F32, {256});
  w.block_size = 64;
  float table[256] = {};
  if constexpr (kBits == 4) {
    fill_codes<F>(table);
  } else {
    std::copy(code.begin(), code.end(), table);
  }
  const StoredScales scales{absmax.data(), 6};
  for (int v = 0; v < kValues; v += N) {
    CodeWord<kBits, N> word;
    std::memcpy(&word, bytes.data() + v * kBits / 8, sizeof word);
    float out[N];
    decode_flat<kBits, N>(word, table, scales.of(v), out);
    for (int i = 0; i < N; ++i) {
      const float expected = flat_value<F>(w, v + i);
      ASSERT_TRUE(same(out[i], expected)) << F::kName << " value " << v + i;
      ASSERT_TRUE(same(mul_rn(table[flat_code_at<kBits>(bytes.data(), v + i)], scales.of(v + i)), expected));
    }
  }
  // As a thread does that holds four chunks.
  std::uint32_t held[4 * N * kBits / 32];
  for (int v = 0; v < kValues; v += 4 * N) {
    load_once(bytes.data() + v * kBits / 8, held);
    for (int j = 0; j < 4; ++j) {
      float out[N];
      decode_flat<kBits, N>(chunk_codes<kBits, N>(held, j), table, scales.made(scales.load(v)), out);
      for (int i = 0; i < N; ++i) ASSERT_TRUE(same(out[i], flat_value<F>(w, v + j * N + i))) << F::kName << " " << v;
    }
  }
}

/// All 16-bit patterns; of 32 bits each upper half with an equal lower half.
template <class F, int N>
void check_elements() {
  for (std::uint32_t first = 0; first < 65536; first += N) {
    ElementWord<F::kBlockBytes, N> word;
    std::uint8_t bytes[N * F::kBlockBytes];
    for (std::uint32_t i = 0; i < N; ++i) {
      const std::uint32_t bits = F::kBlockBytes == 2 ? first + i : (first + i) * 65537u;
      std::memcpy(bytes + i * F::kBlockBytes, &bits, F::kBlockBytes);
    }
    std::memcpy(&word, bytes, sizeof word);
    float out[N];
    decode_elements<F, N>(word, out);
    for (int i = 0; i < N; ++i) {
      ASSERT_TRUE(same(out[i], block_value<F>(bytes + i * F::kBlockBytes, 0))) << F::kName << " value " << i;
    }
  }
}

template <class F, int N>
void check_format() {
  if constexpr (F::kEngine == Engine::element) {
    check_elements<F, N>();
  } else if constexpr (F::kEngine == Engine::flat4 || F::kEngine == Engine::flat8) {
    check_flat<F, N>();
  } else {
    check_blocks<F, N>();
  }
}

TEST(GpuBodies, EveryFormatInChunksOfFourAndEight) {
  int formats = 0;
  for_each_format([&](auto f) {
    check_format<decltype(f), 4>();
    check_format<decltype(f), 8>();
    ++formats;
  });
  EXPECT_EQ(formats, 31);
}

TEST(GpuBodies, NestedScalesForEveryCodeAndGroup) {
  std::vector<std::uint8_t> codes(1024);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
  std::vector<float> code(256), groups = {1e-38f, 3e-41f, 1.5f, 3e38f};
  std::mt19937 rng(11);
  std::normal_distribution<float> normal;
  for (float& x : code) x = normal(rng);
  for (const float offset : {0.0f, -1e-6f, 1e4f, -0.37f}) {
    Weight w{};
    w.absmax = make_tensor(codes.data(), NIBBLE_U8, {1024});
    w.nested_code = make_tensor(code.data(), NIBBLE_F32, {256});
    w.nested_absmax = make_tensor(groups.data(), NIBBLE_F32, {4});
    w.block_size = 64;
    w.nested_block_size = 256;
    w.nested_offset = offset;
    const NestedScales scales = nested_scales(w);
    for (int b = 0; b < 1024; ++b) {
      ASSERT_TRUE(same(scales.of_block(b), block_absmax(w, b))) << "block " << b << ", offset " << offset;
      ASSERT_TRUE(same(scales.of(64 * b + 63), block_absmax(w, b)));
    }
  }
}

/// Eight scales 32 values apart from every 32nd value on, as products read them, and those of a row that ends before.
void check_either(const Weight& w, std::int64_t values, const char* kind) {
  const EitherScales scales = scales_of(w);
  int checked = 0;
  for (std::int64_t first = 32; first + 8 * 32 <= values; first += 32) {
    for (const int most : {-32, 0, 96, 224}) {
      EitherScales::Held held[8];
      float scale[8];
      scales.load<32>(first, most, held);
      scales.make(held, scale);
      for (int i = 0; i < 8; ++i, ++checked) {
        const std::int64_t block = (first + std::min(32 * i, most)) / w.block_size;
        const float expected = nested(w) ? block_absmax(w, block) : load_f32(w.absmax, block);
        ASSERT_TRUE(same(scale[i], expected))
            << kind << ", blocks of " << w.block_size << ", value " << first << ", " << i;
      }
    }
  }
  ASSERT_GT(checked, 0);
}

TEST(GpuBodies, ScalesOfARowFromAnyValueOn) {
  constexpr std::int64_t kValues = 32768;
  for (const std::int64_t size : {32, 64, 4096}) {
    const std::int64_t blocks = kValues / size;
    std::vector<float> stored = random_floats(static_cast<std::size_t>(blocks), 5), code = random_floats(256, 6);
    Weight w{};
    w.block_size = size;
    w.absmax = make_tensor(stored.data(), NIBBLE_F32, {blocks});
    check_either(w, kValues, "stored");
    std::vector<std::uint8_t> codes = random_bytes(static_cast<std::size_t>(blocks), 7);
    w.absmax = make_tensor(codes.data(), NIBBLE_U8, {blocks});
    w.nested_code = make_tensor(code.data(), NIBBLE_F32, {256});
    w.nested_offset = -0.37f;
    for (const std::int64_t group : {std::int64_t{1}, std::int64_t{4}, std::int64_t{256}, std::int64_t{1} << 40}) {
      const std::int64_t groups = (blocks + group - 1) / group;
      std::vector<float> absmax = random_floats(static_cast<std::size_t>(groups), 8);
      w.nested_absmax = make_tensor(absmax.data(), NIBBLE_F32, {groups});
      w.nested_block_size = group;
      check_either(w, kValues, "nested");
    }
  }
}

TEST(GpuBodies, OutputWordsRoundAsTheReference) {
  const std::vector<float> x = random_floats(800000, 3);
  for (std::size_t first = 0; first < x.size(); first += 8) {
    float chunk[8];
    std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(first), 8, chunk);
    const Word16 half = packed<AsHalf>(chunk), bfloat = packed<AsBfloat16>(chunk);
    for (int i = 0; i < 8; ++i) {
      ASSERT_EQ(half.w[i / 2] >> 16 * (i % 2) & 0xffffu, half_from_float(chunk[i])) << chunk[i];
      ASSERT_EQ(bfloat.w[i / 2] >> 16 * (i % 2) & 0xffffu, bfloat16_from_float(chunk[i])) << chunk[i];
    }
  }
}

}  // namespace
}  // namespace nibble::gpu
