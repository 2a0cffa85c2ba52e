// The cases of out_prod: the grid of shapes and types for every format, then what grids do not reach.
// Apart from the other operations' cases: a new operation brings a file like this one.
#include "tests/conformance/products.h"
#include "tests/conformance/suite.h"

namespace nibble::conformance {
namespace {

using test::Contents;

constexpr test::WeightKind kSome[] = {
    {NIBBLE_Q4_K, false}, {NIBBLE_Q8_0, false}, {NIBBLE_NF4, true}, {NIBBLE_F16, false}, {NIBBLE_IQ2_XS, false}};

void add(Suite& suite, const OutProdCase& c) {
  suite.add(NIBBLE_OP_OUT_PROD, {"out_prod", test::label(c.kind), name_of(c)}, [c] { return build_out_prod(c); });
}

/// A few blocks a row: one where a block is long, an odd number of values where there are no blocks.
std::int64_t short_row(test::WeightKind kind) { return row_values(kind, 75); }

/// tokens x K x batch^2 x repeat^2 x orientation x type of src1.
void add_grid(Suite& suite, test::WeightKind kind) {
  for (const Format src1 : {NIBBLE_F32, NIBBLE_F16}) {
    for (int bits = 0; bits < 128; ++bits) {
      const auto bit = [&](int i) { return (bits >> i & 1) != 0; };
      // Reduced: the corners that differ most, and the broadcast with batch 3 by 1 and repeat 2 by 1.
      if (suite.reduced() && bits != 0 && bits != 127 && !(bits == 0b0010111 && src1 == NIBBLE_F32)) {
        suite.leave_out("reduced: of out_prod's grid only the corners");
        continue;
      }
      add(suite, {.kind = kind,
                  .columns = short_row(kind),
                  .k = bit(0) ? 16 : 1,
                  .tokens = bit(1) ? 16 : 1,
                  .batch2 = bit(2) ? 3 : 1,
                  .batch3 = bit(3) ? 3 : 1,
                  .repeat2 = bit(4) ? 2 : 1,
                  .repeat3 = bit(5) ? 2 : 1,
                  .src1 = src1,
                  .transposed = bit(6)});
    }
  }
}

/// Results and src1 of every type.
void add_types(Suite& suite, test::WeightKind kind) {
  for (const Format src1 : {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16}) {
    for (const Format dst : {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16}) {
      for (const bool transposed : {false, true}) {
        add(suite, {.kind = kind,
                    .columns = row_values(kind, 300),
                    .k = 40,
                    .tokens = 5,
                    .src1 = src1,
                    .dst = dst,
                    .transposed = transposed});
      }
    }
  }
}

/// Larger than one panel, chunk or tile of any kernel in every direction, and no multiple of them.
void add_crossing(Suite& suite, test::WeightKind kind) {
  for (const bool transposed : {false, true}) {
    const std::int64_t k = suite.reduced() ? 270 : 601, tokens = suite.reduced() ? 9 : 37;
    add(suite, {.kind = kind, .columns = row_values(kind, 517), .k = k, .tokens = tokens, .transposed = transposed});
    // As many as kernels without a decoded block take at once, a part of their last 8, or more than any takes.
    for (const std::int64_t more : {8, 13, 27, 32, 64, 100, 300}) {
      if (suite.reduced() && more != 13 && more != 300) continue;
      add(suite,
          {.kind = kind, .columns = row_values(kind, 544), .k = k / 3, .tokens = more, .transposed = transposed});
    }
  }
}

void add_views(Suite& suite, test::WeightKind kind) {
  const bool flat = find_format(kind.format)->kind == FormatInfo::Kind::flat;
  const OutProdCase base = {.kind = kind,
                            .columns = row_values(kind, 75),
                            .k = 7,
                            .tokens = 5,
                            .batch2 = 2,
                            .batch3 = 3,
                            .repeat2 = 2,
                            .repeat3 = 1};
  for (const bool transposed : {false, true}) {
    OutProdCase c = base;
    c.transposed = transposed;
    if (!flat) {
      c.weight_padding_blocks = 2;
      add(suite, c);
    }
    c.src1_padding = 3;
    add(suite, c);
    c.dst_padding = 5;
    add(suite, c);
    c.accumulate = true;
    add(suite, c);
    c.swap_dst_outer = true;
    add(suite, c);
  }
  for (const std::int64_t tokens : {5, 40}) {
    add(suite, {.kind = kind, .columns = row_values(kind, 544), .k = 70, .tokens = tokens, .off_alignment = true});
  }
  for (const Activations a : {Activations::expanded_one, Activations::one_per_k}) {
    OutProdCase c = base;
    c.k = 33;
    c.activations = a;
    add(suite, c);
    c.accumulate = true;
    c.dst = NIBBLE_F16;
    add(suite, c);
  }
}

/// Operands whose powers of two lie far apart, where products are nothing out of the way: either power by itself would
/// take a sum beyond f32.
void add_far_apart(Suite& suite, test::WeightKind kind) {
  for (const std::int64_t tokens : {1, 12, 40, 300}) {
    if (suite.reduced() && tokens != 12 && tokens != 300) continue;
    OutProdCase c = {.kind = kind, .columns = row_values(kind, 512), .k = 100, .tokens = tokens};
    c.contents = Contents::huge, c.activations = Activations::tiny;
    add(suite, c);
    c.contents = Contents::tiny, c.activations = Activations::huge;
    add(suite, c);
  }
}

/// Values that do not fit half, and one bad value that must stay where it is.
void add_values(Suite& suite, test::WeightKind kind) {
  for (const bool transposed : {false, true}) {
    for (const Activations a : {Activations::large, Activations::small, Activations::zeros, Activations::one_huge,
                                Activations::falling, Activations::one_infinity, Activations::one_nan}) {
      add(suite, {.kind = kind,
                  .columns = row_values(kind, 300),
                  .k = 20,
                  .tokens = 4,
                  .transposed = transposed,
                  .activations = a});
    }
    for (const std::int64_t tokens : {1, 12, 40}) {
      if (suite.reduced() && tokens != 12) continue;
      add(suite, {.kind = kind,
                  .columns = row_values(kind, 512),
                  .k = 100,
                  .tokens = tokens,
                  .transposed = transposed,
                  .activations = Activations::falling,
                  .contents = test::Contents::wide});
    }
    add(suite, {.kind = kind,
                .columns = row_values(kind, 1024),
                .k = 20,
                .tokens = 3,
                .transposed = transposed,
                .contents = Contents::one_nan_block});
  }
}

/// A sum over no rows at all is zero.
void add_empty(Suite& suite, test::WeightKind kind) {
  add(suite, {.kind = kind, .columns = row_values(kind, 75), .k = 0, .tokens = 3});
}

/// The vocabulary-sized sum of an output head.
void add_deep(Suite& suite) {
  if (suite.reduced()) {
    suite.leave_out("reduced: sums of 600000 products are 6000 deep", 4);
  }
  const std::int64_t k = suite.reduced() ? 6000 : 600000;
  add(suite, {.kind = {NIBBLE_Q4_K, false}, .columns = 256, .k = k, .tokens = 1});
  add(suite,
      {.kind = {NIBBLE_Q4_K, false}, .columns = 256, .k = k, .tokens = 16, .src1 = NIBBLE_F16, .transposed = true});
  add(suite, {.kind = {NIBBLE_Q8_0, false}, .columns = 256, .k = k, .tokens = 1});
  add(suite, {.kind = {NIBBLE_Q8_0, false},
              .columns = 256,
              .k = k,
              .tokens = 2,
              .transposed = true,
              .activations = Activations::expanded_one});
}

}  // namespace

void add_out_prod_cases(Suite& suite) {
  for (const test::WeightKind kind : test::weight_kinds()) {
    add_grid(suite, kind);
    add_crossing(suite, kind);
    add_views(suite, kind);
    add_values(suite, kind);
    add_far_apart(suite, kind);
    add_empty(suite, kind);
  }
  for (const test::WeightKind kind : kSome) add_types(suite, kind);
  add_deep(suite);
}

}  // namespace nibble::conformance
