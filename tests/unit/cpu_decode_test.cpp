// Every target's vector engines against the reference decoder, bit by bit, for every format.
// Apart from conformance, which sees whole kernels: here rows start and end anywhere and memory around them is watched.
#include "backends/cpu/decode.h"
#include "backends/cpu/rows.h"
#include "core/decode.h"
#include "tests/support/sanitized.h"

#include <gtest/gtest.h>
#include <nibble/tensor.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace nibble::cpu {
namespace {

constexpr float kCanary = 12345.0f;

std::vector<TargetInfo> targets() {
  std::vector<TargetInfo> here;
  for (const TargetInfo& t : kTargets) {
    if ((detected_isa() & t.isa) != 0) here.push_back(t);
  }
  return here;
}

bool same(float a, float b) { return float_bits(a) == float_bits(b) || (std::isnan(a) && std::isnan(b)); }

/// Where the two first differ, or -1.
std::int64_t first_difference(const float* a, const float* b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!same(a[i], b[i])) return i;
  }
  return -1;
}

std::vector<std::uint8_t> random_bytes(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> bytes(count);
  for (auto& b : bytes) b = static_cast<std::uint8_t>(random());
  return bytes;
}

/// Decodes with a target and with the reference, and expects the same and nothing written around it.
void expect_as_reference(const TargetInfo& target, const Weight& w, std::int64_t i1, std::int64_t first,
                         std::int64_t count, const std::string& what) {
  constexpr std::int64_t kAround = 16;
  std::vector<float> expected(static_cast<std::size_t>(count) + 1);
  nibble::decode_row(w, i1, 0, 0, first, count, expected.data());
  // One float past the vector's start, so that no vector is aligned.
  std::vector<float> got(static_cast<std::size_t>(count + 2 * kAround + 1), kCanary);
  float* out = got.data() + kAround + 1;
  decode_table(target.target).decode_row(w, i1, 0, 0, first, count, Sink::store_f32, {out});
  const std::int64_t at = first_difference(out, expected.data(), count);
  EXPECT_EQ(at, -1) << target.name << ' ' << what << ": value " << at << " of " << count << " from " << first << " is "
                    << out[at] << ", expected " << expected[static_cast<std::size_t>(at)];
  for (std::int64_t i = 1; i <= kAround; ++i) {
    EXPECT_EQ(out[-i], kCanary) << target.name << ' ' << what << ": wrote before the row";
    EXPECT_EQ(out[count + i - 1], kCanary) << target.name << ' ' << what << ": wrote behind the row";
  }
}

constexpr bool is_flat(Engine e) { return e == Engine::flat4 || e == Engine::flat8; }

TEST(CpuDecodeTest, BlocksOfAnyBitsAsTheReference) {
  ASSERT_FALSE(targets().empty());
  for_each_format([](auto f) {
    using F = decltype(f);
    if constexpr (!is_flat(F::kEngine)) {
      for (const std::int64_t blocks : {1, 2, 3, 4, 5, 17}) {
        for (std::uint32_t seed = 0; seed < 20; ++seed) {
          // The vector ends where the last block does, so that a sanitizer sees reads beyond it.
          auto bytes = random_bytes(static_cast<std::size_t>(blocks * F::kBlockBytes), seed);
          const auto w = make_weight(make_tensor(bytes.data(), F::kId, {blocks * F::kBlockValues}));
          for (const TargetInfo& t : targets()) expect_as_reference(t, w, 0, 0, blocks * F::kBlockValues, F::kName);
        }
      }
    }
  });
}

TEST(CpuDecodeTest, PartsOfRowsWithAnyStride) {
  for_each_format([](auto f) {
    using F = decltype(f);
    if constexpr (!is_flat(F::kEngine)) {
      constexpr std::int64_t kBlocks = 7, kRows = 3;
      for (const std::int64_t gap : {std::int64_t{0}, std::int64_t{8}}) {
        auto bytes = random_bytes(kRows * (kBlocks * F::kBlockBytes + 8), 77);
        auto w = make_weight(make_tensor(bytes.data(), F::kId, {kBlocks * F::kBlockValues, kRows}));
        w.packed.byte_stride[1] += gap;
        for (const TargetInfo& t : targets()) {
          expect_as_reference(t, w, 2, 3 * F::kBlockValues, 2 * F::kBlockValues, F::kName);
          w.packed.byte_stride[1] = gap == 0 ? 0 : w.packed.byte_stride[1];  // repeated rows
          expect_as_reference(t, w, 1, F::kBlockValues, 5 * F::kBlockValues, F::kName);
        }
      }
    }
  });
}

/// A bitsandbytes weight with random bits everywhere.
struct FlatWeight {
  std::vector<std::uint8_t> packed, absmax_bytes;
  std::vector<float> code, absmax, nested_code, nested_absmax;
  Weight w{};
};

FlatWeight flat_weight(nibble_format format, std::int64_t values, std::int64_t block, std::int64_t nested_block) {
  std::mt19937 random(static_cast<std::uint32_t>(block * 7 + nested_block));
  const auto floats = [&](std::int64_t count) {
    std::vector<float> v(static_cast<std::size_t>(count));
    for (float& x : v) x = std::ldexp(static_cast<float>(random()), -static_cast<int>(random() % 60)) - 0.1f;
    return v;
  };
  FlatWeight f;
  const std::int64_t blocks = (values + block - 1) / block;
  f.packed = random_bytes(static_cast<std::size_t>(format == NIBBLE_BLOCKWISE8 ? values : (values + 1) / 2), 5);
  f.w = make_weight(make_tensor(f.packed.data(), format, {values}));
  f.w.block_size = block;
  if (format == NIBBLE_BLOCKWISE8) {
    f.code = floats(256);
    f.w.code = make_tensor(f.code.data(), NIBBLE_F32, {256});
  }
  if (nested_block == 0) {
    f.absmax = floats(blocks);
    f.w.absmax = make_tensor(f.absmax.data(), NIBBLE_F32, {blocks});
    return f;
  }
  const std::int64_t groups = (blocks + nested_block - 1) / nested_block;
  f.absmax_bytes = random_bytes(static_cast<std::size_t>(blocks), 6);
  f.nested_code = floats(256);
  f.nested_absmax = floats(groups);
  f.w.absmax = make_tensor(f.absmax_bytes.data(), NIBBLE_U8, {blocks});
  f.w.nested_code = make_tensor(f.nested_code.data(), NIBBLE_F32, {256});
  f.w.nested_absmax = make_tensor(f.nested_absmax.data(), NIBBLE_F32, {groups});
  f.w.nested_block_size = nested_block;
  f.w.nested_offset = 0.037f;
  return f;
}

TEST(CpuDecodeTest, FlatCodesFromAnyValueToAnyOther) {
  for (const nibble_format format : {NIBBLE_NF4, NIBBLE_FP4, NIBBLE_BLOCKWISE8}) {
    for (const std::int64_t block : {32, 64, 256, 4096}) {
      for (const std::int64_t nested_block : {0, 3, 256}) {
        constexpr std::int64_t kValues = 9001;  // odd: the last byte holds one code, the last block is partial
        const FlatWeight f = flat_weight(format, kValues, block, nested_block);
        const std::string what = format_name(format) + " block " + std::to_string(block);
        for (const TargetInfo& t : targets()) {
          expect_as_reference(t, f.w, 0, 0, kValues, what);
          for (std::int64_t first = 0; first < 70; ++first) {
            for (const std::int64_t count :
                 {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{33}, 200 + first}) {
              expect_as_reference(t, f.w, 0, first, count, what);
            }
            expect_as_reference(t, f.w, 0, kValues - 1 - first, first + 1, what);
          }
        }
      }
    }
  }
}

TEST(CpuDecodeTest, NestedScalesAreTwoRoundedOperations) {
  const FlatWeight f = flat_weight(NIBBLE_NF4, 64 * 512, 64, 256);
  std::int64_t differ = 0;
  for (std::size_t b = 0; b < f.absmax_bytes.size(); ++b) {
    const float code = f.nested_code[f.absmax_bytes[b]], group = f.nested_absmax[b / 256];
    if (float_bits(std::fma(code, group, f.w.nested_offset)) !=
        float_bits(block_absmax(f.w, static_cast<std::int64_t>(b))))
      ++differ;
  }
  ASSERT_GT(differ, 0) << "the values do not tell a fused operation from two";
  for (const TargetInfo& t : targets()) expect_as_reference(t, f.w, 0, 0, 64 * 512, "nested nf4");
}

/// Blocks with every value of a scale's bits, each with every code.
template <class F>
void expect_every_scale(std::uint32_t scales, int scale_bytes) {
  std::vector<std::uint8_t> bytes(scales * F::kBlockBytes);
  for (std::uint32_t s = 0; s < scales; ++s) {
    std::uint8_t* block = bytes.data() + s * F::kBlockBytes;
    for (int i = 0; i < scale_bytes; ++i) block[i] = static_cast<std::uint8_t>(scales > 256 ? s >> 8 * i : s);
    // Sixteen bytes hold every nibble, low and high; the exclusive or keeps that and brings every byte about.
    for (int i = scale_bytes; i < F::kBlockBytes; ++i) {
      const auto l = static_cast<std::uint32_t>(i - scale_bytes) % 16;
      block[i] = static_cast<std::uint8_t>((l | (15 - l) << 4) ^ 29 * s);
    }
  }
  const auto w = make_weight(make_tensor(bytes.data(), F::kId, {static_cast<std::int64_t>(scales) * F::kBlockValues}));
  for (const TargetInfo& t : targets()) {
    expect_as_reference(t, w, 0, 0, static_cast<std::int64_t>(scales) * F::kBlockValues, F::kName);
  }
}

TEST(CpuDecodeTest, EveryHalfAsScale) {
  expect_every_scale<format::Q4_0>(65536, 2);
  expect_every_scale<format::Q8_0>(65536, 2);
}

TEST(CpuDecodeTest, EveryByteAsScale) {
  expect_every_scale<format::MXFP4>(256, 1);
  expect_every_scale<format::NVFP4>(256, 4);
}

TEST(CpuDecodeTest, EveryElement) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const nibble_format format : {NIBBLE_F16, NIBBLE_BF16}) {
    const auto w = make_weight(make_tensor(all.data(), format, {65536}));
    for (const TargetInfo& t : targets()) expect_as_reference(t, w, 0, 0, 65536, format_name(format));
  }
}

TEST(CpuDecodeTest, StreamCopiesFromAnyAddressToAnyOther) {
  const auto from = random_bytes(700, 3);
  for (const TargetInfo& t : targets()) {
    for (std::size_t at = 0; at < 65; ++at) {
      for (const std::size_t bytes : {0, 1, 15, 63, 64, 65, 500}) {
        std::vector<std::uint8_t> got(700, 0xa5), expected = got;
        std::memcpy(expected.data() + at, from.data() + at / 2, bytes);
        decode_table(t.target).stream(from.data() + at / 2, static_cast<std::int64_t>(bytes), got.data() + at);
        EXPECT_EQ(got, expected) << t.name << ": " << bytes << " bytes to " << at;
      }
    }
  }
}

TEST(CpuDecodeTest, ResultsBeyondTheCaches) {
  if (test::kSanitized) GTEST_SKIP() << "minutes with a sanitizer; canaries show here what it would";
  constexpr std::int64_t kWidth = 4096, kRows = 8193, kValues = kWidth * kRows;  // f16: a little over 64 MiB
  constexpr std::size_t kCanaryByte = 0xa5, kLine = 64;
  auto bytes = random_bytes(kRows * kWidth / 32 * 34, 4);
  for (std::size_t b = 0; b < bytes.size(); b += 34) bytes[b + 1] = 0x24;  // scales are numbers
  nibble_request r{};
  r.struct_size = sizeof r;
  r.op = NIBBLE_OP_DEQUANTIZE;
  r.weight = make_weight(make_tensor(bytes.data(), NIBBLE_Q8_0, {kWidth, kRows}));
  std::vector<float> values(kValues);
  nibble::decode_row(make_weight(make_tensor(bytes.data(), NIBBLE_Q8_0, {kValues})), 0, 0, 0, 0, kValues,
                     values.data());
  for (const nibble_format type : {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16}) {
    const std::size_t size = type == NIBBLE_F32 ? 4 : 2, all = kValues * size;
    std::vector<std::uint8_t> expected(all), got(all + 3 * kLine);
    for (std::size_t i = 0; i < values.size(); ++i) store_element(type, expected.data() + i * size, values[i]);
    const std::size_t line = kLine - reinterpret_cast<std::uintptr_t>(got.data()) % kLine;
    for (const nibble_kernel& k : dequantize_rows()) {
      if ((k.isa & ~detected_isa()) != 0) continue;
      for (const std::size_t at : {line, line + size}) {  // a whole cache line, and not
        std::fill(got.begin(), got.end(), kCanaryByte);
        r.dst = make_tensor(got.data() + at, type, {kWidth, kRows});
        ASSERT_EQ(k.execute(&k, nullptr, &r, nullptr, 0, nullptr, nullptr), NIBBLE_OK);
        EXPECT_EQ(std::memcmp(got.data() + at, expected.data(), all), 0) << k.name << " to " << format_name(type);
        EXPECT_EQ(got[at - 1], kCanaryByte);
        EXPECT_EQ(got[at + all], kCanaryByte);
      }
    }
  }
}

/// A weight of `count` values with the storage that it points to; scales are numbers of moderate size.
struct AnyWeight {
  std::vector<std::uint8_t> packed;
  FlatWeight flat;
  Weight w{};
};

template <class F>
AnyWeight any_weight(std::int64_t count) {
  AnyWeight any;
  if constexpr (is_flat(F::kEngine)) {
    any.flat = flat_weight(F::kId, count, 64, 256);
    any.w = any.flat.w;
  } else {
    any.packed = random_bytes(static_cast<std::size_t>(count / F::kBlockValues * F::kBlockBytes), 12);
    any.w = make_weight(make_tensor(any.packed.data(), F::kId, {count}));
  }
  return any;
}

/// What a sink that writes `type` should leave, with a NaN's free bits as `got` has them.
std::vector<std::uint8_t> as_type(nibble_format type, const std::vector<float>& values, const std::uint8_t* got) {
  const std::size_t size = type == NIBBLE_F32 ? 4 : 2;
  std::vector<std::uint8_t> expected(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint8_t* at = expected.data() + i * size;
    store_element(type, at, values[i]);
    if (std::isnan(load_element(type, at)) && std::isnan(load_element(type, got + i * size)))
      std::memcpy(at, got + i * size, size);
  }
  return expected;
}

/// Values [first, first + count) through each sink that writes, from a cache line on: right, and nothing around them.
void expect_sinks_as_reference(const TargetInfo& target, const Weight& w, std::int64_t first, std::int64_t count) {
  constexpr std::size_t kLine = 64;
  const DecodeTable& table = decode_table(target.target);
  std::vector<float> values(static_cast<std::size_t>(count));
  nibble::decode_row(w, 0, 0, 0, first, count, values.data());
  for (const nibble_format type : {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16}) {
    for (const Sink sink : {store_sink(type), stream_sink(type)}) {
      if (!table.has_sink(sink)) continue;
      const std::size_t bytes = values.size() * (type == NIBBLE_F32 ? 4 : 2);
      std::vector<std::uint8_t> memory(bytes + 3 * kLine, 0xa5);
      std::uint8_t* out =
          memory.data() + kLine + (kLine - reinterpret_cast<std::uintptr_t>(memory.data()) % kLine) % kLine;
      table.decode_row(w, 0, 0, 0, first, count, sink, {out});
      const auto expected = as_type(type, values, out);
      EXPECT_EQ(std::memcmp(out, expected.data(), bytes), 0)
          << target.name << ' ' << format_name(w.packed.format) << " through sink " << static_cast<int>(sink)
          << " from " << first << ", " << count << " values";
      EXPECT_EQ(out[-1], 0xa5);
      EXPECT_EQ(out[bytes], 0xa5);
    }
  }
}

TEST(CpuDecodeTest, EverySinkGetsTheDecodedValues) {
  for_each_format([](auto f) {
    using F = decltype(f);
    const std::int64_t count = 19 * std::max(F::kBlockValues, 16);  // more blocks than are decoded together
    const AnyWeight any = any_weight<F>(count);
    for (const TargetInfo& t : targets()) {
      expect_sinks_as_reference(t, any.w, 0, count);
      if (!is_flat(F::kEngine)) continue;
      // From within a vector's place, and from within a block.
      for (const std::int64_t first : {1, 7, 16, 48, 65}) expect_sinks_as_reference(t, any.w, first, count - first - 3);
    }
  });
}

/// Adds a row to `rows` rows of ones with factors 2 and 4: those products are exact, so one rounding or two are
/// the same.
void expect_added(const TargetInfo& target, const Weight& w, std::int64_t rows, const std::vector<float>& values) {
  constexpr float kFactors[] = {2, 4};
  const auto count = static_cast<std::int64_t>(values.size()), ld = count + 1;
  std::vector<float> sums(static_cast<std::size_t>(rows * ld), 1.0f);
  decode_table(target.target).decode_row(w, 0, 0, 0, 0, count, add_sink(rows), {sums.data(), kFactors, ld});
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<float> expected = values;
    for (float& x : expected) x = x * kFactors[row] + 1.0f;
    expected.push_back(1.0f);  // nothing is added behind a row
    EXPECT_EQ(first_difference(sums.data() + row * ld, expected.data(), ld), -1)
        << target.name << ' ' << format_name(w.packed.format) << ": row " << row << " of " << rows;
  }
}

TEST(CpuDecodeTest, EveryFormatIsAddedToSums) {
  for_each_format([](auto f) {
    using F = decltype(f);
    const std::int64_t count =
        19 * std::max(F::kBlockValues, 16) - (F::kBlockValues == 1 || is_flat(F::kEngine) ? 3 : 0);
    const AnyWeight any = any_weight<F>(count);
    std::vector<float> values(static_cast<std::size_t>(count));
    nibble::decode_row(any.w, 0, 0, 0, 0, count, values.data());
    for (const TargetInfo& t : targets()) {
      EXPECT_EQ(decode_table(t.target).has_sink(Sink::add_1), t.target != Target::portable) << t.name;
      for (std::int64_t rows = 1; rows <= kMostAddedRows && decode_table(t.target).has_sink(add_sink(rows)); ++rows)
        expect_added(t, any.w, rows, values);
    }
  });
}

TEST(CpuDecodeTest, EveryTargetButTheScalarOneStreams) {
  for (const TargetInfo& t : targets()) {
    const DecodeTable& table = decode_table(t.target);
    EXPECT_EQ(table.has_sink(Sink::stream_f32), t.target != Target::portable) << t.name;
    for (const Sink store : {Sink::store_f32, Sink::store_f16, Sink::store_bf16}) EXPECT_TRUE(table.has_sink(store));
  }
}

TEST(CpuDecodeTest, RowsIntoGapsOfEveryType) {
  constexpr std::int64_t kWidth = 768, kRows = 5, kGap = 24;
  auto bytes = random_bytes(kRows * kWidth / 256 * 144, 9);
  nibble_request r{};
  r.struct_size = sizeof r;
  r.op = NIBBLE_OP_DEQUANTIZE;
  r.weight = make_weight(make_tensor(bytes.data(), NIBBLE_Q4_K, {kWidth, kRows}));
  for (const nibble_kernel& k : dequantize_rows()) {
    if ((k.isa & ~detected_isa()) != 0) continue;
    for (const nibble_format type : {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16}) {
      const std::int64_t size = type == NIBBLE_F32 ? 4 : 2;
      std::vector<std::uint8_t> got(static_cast<std::size_t>(kRows * (kWidth * size + kGap)), 0xa5), expected = got;
      r.dst = make_tensor(got.data(), type, {kWidth, kRows});
      r.dst.byte_stride[1] += kGap;
      ASSERT_EQ(k.execute(&k, nullptr, &r, nullptr, 0, nullptr, nullptr), NIBBLE_OK);
      std::vector<float> row(kWidth);
      for (std::int64_t i = 0; i < kRows; ++i) {
        nibble::decode_row(r.weight, i, 0, 0, 0, kWidth, row.data());
        std::uint8_t* at = expected.data() + i * r.dst.byte_stride[1];
        for (std::int64_t j = 0; j < kWidth; ++j) {
          // What is written must be right; a NaN's other bits are free.
          const float got_value = load_element(type, got.data() + i * r.dst.byte_stride[1] + j * size);
          store_element(type, at + j * size, row[static_cast<std::size_t>(j)]);
          if (std::isnan(got_value) && std::isnan(load_element(type, at + j * size))) {
            std::memcpy(at + j * size, got.data() + i * r.dst.byte_stride[1] + j * size,
                        static_cast<std::size_t>(size));
          }
        }
      }
      EXPECT_EQ(got, expected) << k.name << " to " << format_name(type);
    }
  }
}

}  // namespace
}  // namespace nibble::cpu
