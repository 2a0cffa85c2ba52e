// Filling weights with bytes.
// Apart from the header so that tests compile it once.
#include "tests/support/weights.h"

#include "core/decode.h"
#include "tests/support/bits.h"

#include <algorithm>
#include <cmath>

namespace nibble::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// Where a block's half scales are; -1: there is none. IQ1_M's is scattered, MXFP4 and NVFP4 have bytes.
struct HalfScales {
  Format format;
  int at[2];
};
constexpr HalfScales kHalfScales[] = {
    {NIBBLE_Q1_0, {0, -1}},   {NIBBLE_Q2_0, {0, -1}},   {NIBBLE_Q4_0, {0, -1}},  {NIBBLE_Q4_1, {0, 2}},
    {NIBBLE_Q5_0, {0, -1}},   {NIBBLE_Q5_1, {0, 2}},    {NIBBLE_Q8_0, {0, -1}},  {NIBBLE_Q2_K, {80, 82}},
    {NIBBLE_Q3_K, {108, -1}}, {NIBBLE_Q4_K, {0, 2}},    {NIBBLE_Q5_K, {0, 2}},   {NIBBLE_Q6_K, {208, -1}},
    {NIBBLE_TQ1_0, {52, -1}}, {NIBBLE_TQ2_0, {64, -1}}, {NIBBLE_IQ1_S, {0, -1}}, {NIBBLE_IQ2_XXS, {0, -1}},
    {NIBBLE_IQ2_XS, {0, -1}}, {NIBBLE_IQ2_S, {0, -1}},  {NIBBLE_IQ3_S, {0, -1}}, {NIBBLE_IQ3_XXS, {0, -1}},
    {NIBBLE_IQ4_NL, {0, -1}}, {NIBBLE_IQ4_XS, {0, -1}}};

constexpr std::uint32_t kSpecialHalves[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x8400,
                                            0x3c00, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xfe01};
constexpr std::uint32_t kSpecialFloats[] = {0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000,
                                            0x80800000, 0x3f800000, 0x33000000, 0x33000001, 0x38800000, 0x387fe000,
                                            0x477fe000, 0x477fefff, 0x477ff000, 0x47800000,  // about half's limits
                                            0x3f808000, 0x3f818000, 0x3f807fff, 0x7f7fffff, 0xff7fffff, 0x7f800000,
                                            0xff800000, 0x7fc00000, 0x7f800001, 0xffc12345};

void put_half(std::uint8_t* at, std::uint32_t bits) { put_element_bits(NIBBLE_F16, at, bits); }

/// +-2^-9 to 2^-8: times the largest code and sub-scale of any format that is at most 16.
std::uint32_t moderate_half(Random& r) { return static_cast<std::uint32_t>(r.next() & 0x83ffu) | 6u << 10; }

/// +-2^-14 to 2^6.
std::uint32_t wide_half(Random& r) {
  return static_cast<std::uint32_t>(r.next() & 0x83ffu) | static_cast<std::uint32_t>(1 + r.below(20)) << 10;
}

/// The same far from 1: values of up to 2^20, or the least normal ones.
std::uint32_t far_half(Contents contents, Random& r) {
  return static_cast<std::uint32_t>(r.next() & 0x83ffu) | (contents == Contents::huge ? 22u : 1u) << 10;
}

/// What normal numbers are multiplied by: a few are 5.
float far_factor(Contents contents, Format format) {
  const bool half = format == NIBBLE_F16;
  if (contents == Contents::huge) return half ? 0x1p12f : 0x1p123f;
  return contents == Contents::tiny ? (half ? 0x1p-10f : 0x1p-105f) : 1.0f;
}
/// And statistics, at most 2.
float far_statistic(Contents contents) {
  if (contents == Contents::huge) return 0x1p126f;
  return contents == Contents::tiny ? 0x1p-115f : 1.0f;
}

std::uint32_t pick(std::span<const std::uint32_t> list, Random& r) { return list[r.below(list.size())]; }

/// MXFP4's and NVFP4's byte scales.
void set_byte_scales(Format format, std::uint8_t* block, Contents contents, Random& r) {
  constexpr std::uint8_t kSpecialE8m0[] = {0, 1, 2, 127, 254, 255},
                         kSpecialE4m3[] = {0, 1, 7, 8, 0x7e, 0x7f, 0x80, 0xff};
  if (format == NIBBLE_MXFP4) {
    const int least = contents == Contents::huge ? 249 : contents == Contents::tiny ? 10 : 122;
    block[0] = contents == Contents::special ? kSpecialE8m0[r.below(6)] : static_cast<std::uint8_t>(least + r.below(5));
    if (contents == Contents::huge) {  // no code above 1.5: 6 times the largest of these scales is beyond f32
      for (int i = 1; i < 17; ++i) block[i] &= 0xbbu;
    }
  } else if (format == NIBBLE_NVFP4) {
    for (int i = 0; i < 4; ++i) {
      block[i] =
          contents == Contents::special ? kSpecialE4m3[r.below(8)] : static_cast<std::uint8_t>(0x28 + r.below(0x10));
    }
  }
}

/// One block of a GGUF format; its codes are random already.
void set_scales(Format format, std::uint8_t* block, Contents contents, std::int64_t number, Random& r) {
  if (contents == Contents::random_bits) return;
  set_byte_scales(format, block, contents, r);
  std::uint32_t bits = moderate_half(r);
  if (contents == Contents::special) bits = pick(kSpecialHalves, r);
  if (contents == Contents::wide) bits = wide_half(r);
  if (contents == Contents::huge || contents == Contents::tiny) bits = far_half(contents, r);
  if (contents == Contents::one_nan_block && number == 1) bits = 0x7e00;
  set_half_scales(format, block, bits);
}

/// One value of f32, f16 or bf16.
void set_element(Format format, std::uint8_t* at, Contents contents, std::int64_t number, Random& r) {
  if (contents == Contents::random_bits) return;
  if (contents != Contents::special) {
    store_element(
        format, at,
        contents == Contents::one_nan_block && number == 1 ? std::nanf("") : r.normal() * far_factor(contents, format));
  } else if (format == NIBBLE_F16) {
    put_half(at, pick(kSpecialHalves, r));
  } else {
    const std::uint32_t bits = pick(kSpecialFloats, r);
    put_element_bits(format, at, format == NIBBLE_BF16 ? bits >> 16 : bits);
  }
}

/// An f32 scale of bitsandbytes statistics. Half of the random ones are moderate: most bit patterns are far from 1.
float statistic(Contents contents, std::int64_t number, Random& r) {
  if (contents == Contents::special) return float_from_bits(pick(kSpecialFloats, r));
  if (contents == Contents::one_nan_block && number == 1) return std::nanf("");
  if (contents == Contents::random_bits && r.below(2) == 0)
    return float_from_bits(static_cast<std::uint32_t>(r.next()));
  const double scale = r.uniform(0.01, 2.0) * far_statistic(contents);
  return static_cast<float>(contents == Contents::wide ? std::ldexp(scale, -static_cast<int>(r.below(21))) : scale);
}

Bytes statistics(std::int64_t count, Contents contents, Random& r) {
  Bytes bytes(static_cast<std::size_t>(count) * 4);
  for (std::int64_t i = 0; i < count; ++i) store_element(NIBBLE_F32, bytes.data() + 4 * i, statistic(contents, i, r));
  return bytes;
}

/// 256 codes from -1 to 1; where all bits are asked, some of them anything.
Bytes code_table(Contents contents, Random& r) {
  Bytes bytes(256 * 4);
  for (int i = 0; i < 256; ++i) {
    const bool odd = (contents == Contents::random_bits || contents == Contents::special) && i % 8 == 3;
    store_element(NIBBLE_F32, bytes.data() + 4 * i,
                  odd ? statistic(contents, -1, r) : static_cast<float>(i - 128) / 127.5f);
  }
  return bytes;
}

void fill_flat(WeightKind kind, const WeightLayout& layout, Contents contents, Random& r, HostWeight& h) {
  Weight& w = h.weight;
  const auto view = [](Bytes& bytes, Format format, std::int64_t count) {
    return make_tensor(bytes.data(), format, {count});
  };
  const std::int64_t blocks = (element_count(w.packed) + layout.block_size - 1) / layout.block_size;
  w.block_size = layout.block_size;
  if (kind.format == NIBBLE_BLOCKWISE8) {
    h.code = code_table(contents, r);
    w.code = view(h.code, NIBBLE_F32, 256);
  }
  if (!kind.nested) {
    h.absmax = statistics(blocks, contents, r);
    w.absmax = view(h.absmax, NIBBLE_F32, blocks);
    return;
  }
  const std::int64_t groups = (blocks + layout.nested_block_size - 1) / layout.nested_block_size;
  h.absmax.resize(static_cast<std::size_t>(blocks));
  r.fill(h.absmax);
  h.nested_code = code_table(contents, r);
  h.nested_absmax = statistics(groups, contents, r);
  w.absmax = view(h.absmax, NIBBLE_U8, blocks);
  w.nested_code = view(h.nested_code, NIBBLE_F32, 256);
  w.nested_absmax = view(h.nested_absmax, NIBBLE_F32, groups);
  w.nested_block_size = layout.nested_block_size;
  w.nested_offset = layout.nested_offset;
}

void fill_blocks(const FormatInfo& info, const WeightLayout& layout, Contents contents, Random& r, HostWeight& h) {
  Tensor& t = h.weight.packed;
  const std::int64_t padding = layout.row_padding_blocks * info.block_bytes, blocks = t.shape[0] / info.block_values;
  for (int d = 1; d < 4; ++d)
    t.byte_stride[d] = d == 1 ? t.byte_stride[1] + padding : t.byte_stride[d - 1] * t.shape[d - 1];
  const std::int64_t rows = t.shape[1] * t.shape[2] * t.shape[3];
  for (std::int64_t row = 0; row < rows; ++row) {
    std::uint8_t* at = h.packed.data() + row * t.byte_stride[1];
    for (std::int64_t b = 0; b < blocks; ++b) {
      std::uint8_t* block = at + b * info.block_bytes;
      if (info.kind == FormatInfo::Kind::element) {
        set_element(info.id, block, contents, row * blocks + b, r);
      } else {
        set_scales(info.id, block, contents, row * blocks + b, r);
      }
    }
    if (row + 1 < rows) std::fill_n(at + blocks * info.block_bytes, padding, std::uint8_t{0xff});
  }
}

}  // namespace

std::span<const std::uint32_t> special_halves() { return kSpecialHalves; }
std::span<const std::uint32_t> special_floats() { return kSpecialFloats; }

std::vector<WeightKind> weight_kinds() {
  std::vector<WeightKind> kinds;
  for (const FormatInfo& f : formats()) {
    if (f.kind == FormatInfo::Kind::not_a_weight) continue;
    kinds.push_back({f.id, false});
    if (f.id == NIBBLE_NF4 || f.id == NIBBLE_FP4) kinds.push_back({f.id, true});
  }
  return kinds;
}

std::string label(WeightKind kind) { return format_name(kind.format) + (kind.nested ? ".nested" : ""); }

bool set_half_scales(Format format, std::uint8_t* block, std::uint32_t bits) {
  if (format == NIBBLE_IQ1_M) {
    for (std::uint32_t i = 0; i < 4; ++i) {
      std::uint8_t* high = block + 49 + 2 * i;
      *high = static_cast<std::uint8_t>((*high & 15u) | (bits >> 4 * i & 15u) << 4);
    }
    return true;
  }
  const auto* found =
      std::find_if(std::begin(kHalfScales), std::end(kHalfScales), [&](const auto& s) { return s.format == format; });
  if (found == std::end(kHalfScales)) return false;
  for (const int at : found->at) {
    if (at >= 0) put_half(block + at, bits);
  }
  return true;
}

HostWeight make_host_weight(WeightKind kind, const WeightLayout& layout, Contents contents, Random& random) {
  const FormatInfo& info = *find_format(kind.format);
  HostWeight h;
  Tensor& t = h.weight.packed;
  t = make_tensor(nullptr, kind.format, layout.shape);
  while (t.rank > 1 && t.shape[t.rank - 1] == 1) --t.rank;  // a matrix has rank 2, as its users say it
  const bool flat = info.kind == FormatInfo::Kind::flat;
  const std::int64_t rows = t.shape[1] * t.shape[2] * t.shape[3];
  const std::int64_t padding =
      flat ? 0 : std::max<std::int64_t>(rows - 1, 0) * layout.row_padding_blocks * info.block_bytes;
  h.packed.resize(storage_bytes(kind.format, layout.shape).value() + static_cast<std::size_t>(padding));
  t.data = h.packed.data();
  random.fill(h.packed);
  if (flat) {
    fill_flat(kind, layout, contents, random, h);
  } else {
    fill_blocks(info, layout, contents, random, h);
  }
  return h;
}

std::vector<float> decode_all(const Weight& weight) {
  const Tensor& t = weight.packed;
  std::vector<float> values(static_cast<std::size_t>(element_count(t)));
  float* out = values.data();
  for (std::int64_t i3 = 0; i3 < t.shape[3]; ++i3) {
    for (std::int64_t i2 = 0; i2 < t.shape[2]; ++i2) {
      for (std::int64_t i1 = 0; i1 < t.shape[1]; ++i1, out += t.shape[0])
        decode_row(weight, i1, i2, i3, 0, t.shape[0], out);
    }
  }
  return values;
}

}  // namespace nibble::test
