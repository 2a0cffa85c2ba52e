// Any bytes as a weight in any format: every decoding row of the CPU gives the reference's values, bit by bit.
// Apart from the parsers' fuzzers: here nothing may be refused, and rows watch each other.
#include "backends/cpu/rows.h"
#include "core/ops/ops.h"
#include "tests/fuzz/bytes.h"
#include "tests/support/bits.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace nibble::fuzz {
namespace {

/// Memory of a weight's parts, each of exactly its size.
struct Parts {
  std::vector<std::uint8_t> packed, code, absmax, nested_absmax, nested_code;
};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

void add_statistics(Bytes& in, std::int64_t values, Parts& parts, Weight& w) {
  const auto floats = [&](std::vector<std::uint8_t>& bytes, std::int64_t count) {
    bytes = in.fill(static_cast<std::size_t>(4 * count));
    return make_tensor(bytes.data(), NIBBLE_F32, {count});
  };
  w.block_size = std::int64_t{32} << in.u8() % 8;
  const bool nested = in.u8() % 2 != 0;
  const std::int64_t blocks = ceil_div(values, w.block_size);
  if (w.packed.format == NIBBLE_BLOCKWISE8) w.code = floats(parts.code, 256);
  if (!nested) {
    w.absmax = floats(parts.absmax, blocks);
    return;
  }
  w.nested_block_size = std::int64_t{1} << in.u8() % 9;
  w.nested_offset = static_cast<float>(in.u8()) / 64.0f;
  w.nested_code = floats(parts.nested_code, 256);
  w.nested_absmax = floats(parts.nested_absmax, ceil_div(blocks, w.nested_block_size));
  parts.absmax = in.fill(static_cast<std::size_t>(blocks));
  w.absmax = make_tensor(parts.absmax.data(), NIBBLE_U8, {blocks});
}

/// A weight of 1 to 3 rows. Blocks may lie at any address, elements at multiples of their size.
Weight read_weight(Bytes& in, Parts& parts) {
  const FormatInfo& f = *find_format(cpu::kFormatIds[in.u8() % std::size(cpu::kFormatIds)]);
  const bool flat = f.kind == FormatInfo::Kind::flat;
  const std::int64_t rows = 1 + in.u8() % 3, blocks = 1 + in.u16() % (f.block_values > 2 ? 6 : 700);
  const std::size_t skew = f.block_values > 1 ? in.u8() % 4 : 0;
  // A flat weight may end inside a byte.
  const std::int64_t n0 = blocks * f.block_values - (flat && f.block_values == 2 ? in.u8() % 2 : 0);
  const std::int64_t bytes = flat ? ceil_div(n0 * rows, f.block_values) : blocks * rows * f.block_bytes;
  Weight w = make_weight(make_tensor(nullptr, f.id, {n0, rows}));
  if (flat) add_statistics(in, n0 * rows, parts, w);
  parts.packed = in.fill(skew + static_cast<std::size_t>(bytes));
  w.packed.data = parts.packed.data();
  w.packed.byte_offset = skew;
  return w;
}

[[noreturn]] void report(const char* row, const Tensor& dst, const std::string& fault) {
  std::fprintf(stderr, "%s to %s: %s\n", row, format_name(dst.format).c_str(), fault.c_str());
  std::abort();
}

void compare(const nibble_kernel& row, const nibble_request& r, const std::vector<std::uint8_t>& expected) {
  std::vector<std::uint8_t> got(expected.size());
  nibble_request own = r;
  own.dst.data = got.data();
  char words[128] = "";
  nibble_text why{.struct_size = sizeof why, .reserved = 0, .capacity = sizeof words, .data = words};
  if (row.execute(&row, nullptr, &own, nullptr, 0, nullptr, &why) != NIBBLE_OK) report(row.name, r.dst, words);
  test::for_each_element(r.dst, [&](std::size_t index, std::int64_t at) {
    const std::uint32_t want = test::element_bits(r.dst.format, expected.data() + at),
                        have = test::element_bits(r.dst.format, got.data() + at);
    if (!test::same_bits(r.dst.format, have, want)) {
      report(row.name, r.dst,
             format_name(r.weight.packed.format) + test::place_text(r.dst, index) + " is " +
                 test::show(r.dst.format, have) + ": expected " + test::show(r.dst.format, want));
    }
  });
}

void decode_by_all(Bytes in) {
  const Format to = cpu::kResultTypes[in.u8() % std::size(cpu::kResultTypes)];
  nibble_request r{};
  r.struct_size = sizeof r;
  r.op = NIBBLE_OP_DEQUANTIZE;
  r.threads = 1;
  Parts parts;
  r.weight = read_weight(in, parts);
  r.dst = make_tensor(nullptr, to, {r.weight.packed.shape[0], r.weight.packed.shape[1]});
  const OpInfo& op = *find_op(r.op);
  if (const Status s = op.validate(r); !s) report("validate", r.dst, s.message());
  std::vector<std::uint8_t> expected(test::extent_bytes(r.dst));
  r.dst.data = expected.data();
  op.reference(r, nullptr);
  for (const nibble_kernel& row : cpu::dequantize_rows()) {
    if ((row.isa & ~cpu::detected_isa()) == 0) compare(row, r, expected);
  }
}

}  // namespace
}  // namespace nibble::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nibble::fuzz::decode_by_all({data, size});
  return 0;
}
