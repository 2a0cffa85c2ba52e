// The cases of dequantize, by bits: layouts, tails, statistics and special scales, for every format and result type.
// Apart from the other operations' cases: a new operation brings a file like this one.
#include "core/decode.h"
#include "tests/conformance/suite.h"
#include "tests/support/bits.h"

#include <fmt/format.h>

#include <iterator>

namespace nibble::conformance {
namespace {

using test::Contents;

struct DequantizeCase {
  test::WeightKind kind{};
  Format to = NIBBLE_F32;
  test::WeightLayout layout{};
  Contents contents = Contents::random_bits;
  std::int64_t dst_padding = 0;
  bool swap_dst_outer = false;
  bool off_alignment = false;
};

Problem build(const DequantizeCase& c, const std::string& name) {
  test::Random r(test::label(c.kind) + name);
  Problem p;
  p.request = make_request(NIBBLE_OP_DEQUANTIZE);
  set_weight(p, test::make_host_weight(c.kind, c.layout, c.contents, r));
  p.request.dst = make_view(c.to, c.layout.shape, c.dst_padding, c.swap_dst_outer);
  ExactValues exact;
  for (const float x : test::decode_all(p.request.weight)) exact.bits.push_back(test::rounded_bits(c.to, x));
  p.expected = std::move(exact);
  poison_dst(p);
  if (c.off_alignment) put_off_alignment(p);
  return p;
}

void add(Suite& suite, DequantizeCase c, const std::string& name, const RunOptions& options = {}) {
  for (const Format to : {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16}) {
    c.to = to;
    suite.add(
        NIBBLE_OP_DEQUANTIZE, {"dequantize", test::label(c.kind), fmt::format("{}_{}", format_name(to), name)},
        [c, name] { return build(c, name); }, options);
  }
}

/// Formats whose rows are whole blocks: sizes are in blocks.
constexpr struct {
  const char* name;
  std::int64_t blocks, rows, n2, n3;
  std::int64_t weight_padding_blocks = 0, dst_padding = 0;
  bool swap_dst_outer = false, off_alignment = false;
  Contents contents = Contents::random_bits;
} kRows[] = {
    {.name = "row_1_block", .blocks = 1, .rows = 1, .n2 = 1, .n3 = 1},
    {.name = "row_2_blocks", .blocks = 2, .rows = 1, .n2 = 1, .n3 = 1},
    {.name = "row_3_blocks", .blocks = 3, .rows = 1, .n2 = 1, .n3 = 1},
    {.name = "row_17_blocks", .blocks = 17, .rows = 1, .n2 = 1, .n3 = 1},
    {.name = "contiguous", .blocks = 17, .rows = 9, .n2 = 1, .n3 = 1},
    {.name = "padded_dst", .blocks = 3, .rows = 5, .n2 = 1, .n3 = 1, .dst_padding = 3},
    {.name = "padded_weight", .blocks = 3, .rows = 5, .n2 = 1, .n3 = 1, .weight_padding_blocks = 2},
    {.name = "padded_both", .blocks = 2, .rows = 5, .n2 = 1, .n3 = 1, .weight_padding_blocks = 1, .dst_padding = 16},
    {.name = "rank_3", .blocks = 2, .rows = 3, .n2 = 4, .n3 = 1},
    {.name = "rank_4", .blocks = 1, .rows = 2, .n2 = 3, .n3 = 2, .weight_padding_blocks = 1, .dst_padding = 5},
    {.name = "swapped_outer", .blocks = 1, .rows = 2, .n2 = 3, .n3 = 4, .dst_padding = 1, .swap_dst_outer = true},
    {.name = "off_alignment", .blocks = 3, .rows = 4, .n2 = 1, .n3 = 1, .off_alignment = true},
    {.name = "special_scales", .blocks = 40, .rows = 4, .n2 = 1, .n3 = 1, .contents = Contents::special},
    {.name = "one_nan_block", .blocks = 5, .rows = 2, .n2 = 1, .n3 = 1, .contents = Contents::one_nan_block},
};

void add_rows(Suite& suite, test::WeightKind kind, const FormatInfo& info) {
  for (const auto& row : kRows) {
    add(suite,
        {.kind = kind,
         .layout = {.shape = {row.blocks * info.block_values, row.rows, row.n2, row.n3},
                    .row_padding_blocks = row.weight_padding_blocks},
         .contents = row.contents,
         .dst_padding = row.dst_padding,
         .swap_dst_outer = row.swap_dst_outer,
         .off_alignment = row.off_alignment},
        row.name);
  }
}

/// Tails around every vector's width, for formats of single values.
constexpr std::int64_t kLengths[] = {7, 15, 16, 31, 33, 63, 65, 127, 1000, 1025};

/// Formats that run over the whole tensor: sizes are in values.
constexpr struct {
  const char* name;
  std::array<std::int64_t, 4> shape;
  std::int64_t block_size = 64;
  std::int64_t dst_padding = 0;
  bool swap_dst_outer = false, off_alignment = false;
  Contents contents = Contents::random_bits;
} kFlat[] = {
    {.name = "one_value", .shape = {1, 1, 1, 1}},
    {.name = "two_values", .shape = {2, 1, 1, 1}},
    {.name = "three_values", .shape = {3, 1, 1, 1}},
    {.name = "one_block", .shape = {64, 1, 1, 1}},
    {.name = "partial_block", .shape = {64 * 17 + 5, 1, 1, 1}},
    {.name = "odd_count", .shape = {1003, 1, 1, 1}, .block_size = 32},
    {.name = "block_4096_with_16_values", .shape = {16, 1, 1, 1}, .block_size = 4096},
    {.name = "odd_rows", .shape = {65, 33, 1, 1}},
    {.name = "odd_rows_padded_dst", .shape = {65, 33, 1, 1}, .dst_padding = 7},
    {.name = "even_rows_padded_dst", .shape = {160, 21, 1, 1}, .dst_padding = 32},
    {.name = "rank_4", .shape = {7, 5, 3, 2}, .block_size = 32, .dst_padding = 3},
    {.name = "swapped_outer", .shape = {34, 3, 2, 4}, .block_size = 32, .dst_padding = 1, .swap_dst_outer = true},
    {.name = "off_alignment", .shape = {129, 5, 1, 1}, .off_alignment = true},
    {.name = "special_scales", .shape = {4000, 1, 1, 1}, .block_size = 32, .contents = Contents::special},
    {.name = "one_nan_block", .shape = {300, 1, 1, 1}, .contents = Contents::one_nan_block},
};
constexpr std::int64_t kBlockSizes[] = {32, 64, 128, 256, 512, 1024, 2048, 4096};
/// Around whole groups of nested statistics.
constexpr std::int64_t kNestedBlocks[] = {1, 2, 255, 256, 257, 511, 512, 513};
constexpr struct {
  const char* name;
  float value;
} kOffsets[] = {{"1em6", 1e-6f},        {"1em3", 1e-3f},        {"1", 1.0f},        {"1e4", 1e4f},
                {"minus_1em6", -1e-6f}, {"minus_1em3", -1e-3f}, {"minus_1", -1.0f}, {"minus_1e4", -1e4f}};

void add_flat(Suite& suite, test::WeightKind kind) {
  for (const auto& f : kFlat) {
    add(suite,
        {.kind = kind,
         .layout = {.shape = f.shape, .block_size = f.block_size},
         .contents = f.contents,
         .dst_padding = f.dst_padding,
         .swap_dst_outer = f.swap_dst_outer,
         .off_alignment = f.off_alignment},
        f.name);
  }
  for (const std::int64_t size : kBlockSizes) {
    add(suite, {.kind = kind, .layout = {.shape = {2 * size + 33, 1, 1, 1}, .block_size = size}},
        fmt::format("block_size_{}", size));
  }
}

/// Every block size with lengths around the kernels' words and tiles, and around a group's 256 blocks.
void add_nested_lengths(Suite& suite, test::WeightKind kind) {
  for (const std::int64_t size : kBlockSizes) {
    const std::int64_t lengths[] = {
        1, 2, 63, 64, 65, size * 255, size * 256, size * 257 - 1, size * 257, size * 257 + 31};
    if (suite.reduced() && size > 64) {
      suite.leave_out("reduced: nested block sizes above 64 by length", std::size(lengths));
      continue;
    }
    for (const std::int64_t length : lengths) {
      add(suite, {.kind = kind, .layout = {.shape = {length, 1, 1, 1}, .block_size = size}},
          fmt::format("nested_block_{}_values_{}", size, length));
    }
  }
}

void add_nested(Suite& suite, test::WeightKind kind) {
  add_nested_lengths(suite, kind);
  const int runs = suite.reduced() ? 5 : 100;
  add(suite, {.kind = kind, .layout = {.shape = {64 * 700 + 5, 1, 1, 1}}}, fmt::format("{}_runs", runs),
      {.runs = runs});
  for (const std::int64_t blocks : kNestedBlocks) {
    add(suite, {.kind = kind, .layout = {.shape = {32 * blocks - 1, 1, 1, 1}, .block_size = 32}},
        fmt::format("nested_{}_blocks", blocks));
  }
  for (const auto& offset : kOffsets) {
    // Every scale code with an offset is in cases_tables.cpp; here 600 blocks change groups as well.
    DequantizeCase c = {.kind = kind, .contents = Contents::moderate};
    c.layout = {.shape = {32 * 600 + 9, 1, 1, 1}, .block_size = 32, .nested_offset = offset.value};
    add(suite, c, fmt::format("offset_{}", offset.name));
  }
  for (const std::int64_t size : {1, 64, 1024}) {
    DequantizeCase c = {.kind = kind};
    c.layout = {.shape = {32 * 150 + 1, 1, 1, 1}, .block_size = 32, .nested_block_size = size};
    add(suite, c, fmt::format("nested_block_size_{}", size));
  }
}

/// More rows and matrices than 16 bits count.
void add_many(Suite& suite) {
  constexpr test::WeightKind kKinds[] = {{NIBBLE_Q8_0, false}, {NIBBLE_NF4, true}, {NIBBLE_F16, false}};
  for (const test::WeightKind kind : kKinds) {
    if (suite.reduced()) {
      suite.leave_out("reduced: 70000 rows", 9);
      continue;
    }
    add(suite, {.kind = kind, .layout = {.shape = {32, 70000, 1, 1}}}, "70000_rows");
    add(suite, {.kind = kind, .layout = {.shape = {32, 1, 70000, 1}}, .dst_padding = 1}, "70000_matrices");
    add(suite, {.kind = kind, .layout = {.shape = {32, 1, 1, 70000}}}, "70000_outermost");
  }
}

}  // namespace

void add_dequantize_cases(Suite& suite) {
  for (const test::WeightKind kind : test::weight_kinds()) {
    const FormatInfo& info = *find_format(kind.format);
    if (info.kind == FormatInfo::Kind::flat) {
      add_flat(suite, kind);
    } else {
      add_rows(suite, kind, info);
    }
    if (kind.nested) add_nested(suite, kind);
    if (info.kind != FormatInfo::Kind::element) continue;
    for (const std::int64_t length : kLengths) {
      add(suite, {.kind = kind, .layout = {.shape = {length, 3, 1, 1}}}, fmt::format("rows_of_{}", length));
    }
  }
  add_many(suite);
}

}  // namespace nibble::conformance
