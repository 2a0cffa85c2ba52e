// The cases of linear.
// Apart from the other operations' cases: a new operation brings a file like this one.
#include "tests/conformance/products.h"
#include "tests/conformance/suite.h"

namespace nibble::conformance {
namespace {

constexpr test::WeightKind kSome[] = {
    {NIBBLE_Q4_K, false}, {NIBBLE_Q8_0, false}, {NIBBLE_NF4, true}, {NIBBLE_F16, false}, {NIBBLE_IQ2_XS, false}};

void add(Suite& suite, const LinearCase& c) {
  suite.add(NIBBLE_OP_LINEAR, {"linear", test::label(c.kind), name_of(c)}, [c] { return build_linear(c); });
}

/// tokens x shape x bias x type of src1.
void add_grid(Suite& suite, test::WeightKind kind) {
  constexpr struct {
    bool has_bias;
    Format type;
  } kBiases[] = {{false, NIBBLE_F32}, {true, NIBBLE_F32}, {true, NIBBLE_F16}};
  for (const std::int64_t tokens : {1, 3, 16, 130}) {
    for (const auto& bias : kBiases) {
      for (const Format src1 : {NIBBLE_F32, NIBBLE_F16}) {
        if (suite.reduced() && (bias.has_bias != (tokens == 3) || src1 == NIBBLE_F16)) {
          suite.leave_out("reduced: of linear's grid only one bias and type for each number of tokens", 2);
          continue;
        }
        LinearCase c = {.kind = kind,
                        .in = row_values(kind, 75),
                        .out = 7,
                        .tokens = tokens,
                        .src1 = src1,
                        .has_bias = bias.has_bias,
                        .bias = bias.type};
        add(suite, c);
        c.in = row_values(kind, 300);
        c.out = 65;
        if (!suite.reduced() || tokens != 130) add(suite, c);
      }
    }
  }
}

void add_types(Suite& suite, test::WeightKind kind) {
  for (const Format src1 : {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16}) {
    for (const Format dst : {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16}) {
      for (const Format bias : {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16}) {
        add(suite, {.kind = kind,
                    .in = row_values(kind, 300),
                    .out = 20,
                    .tokens = 5,
                    .src1 = src1,
                    .dst = dst,
                    .has_bias = true,
                    .bias = bias});
      }
    }
  }
}

void add_views_and_values(Suite& suite, test::WeightKind kind) {
  const bool flat = find_format(kind.format)->kind == FormatInfo::Kind::flat;
  for (const bool transposed : {false, true}) {
    LinearCase c = {
        .kind = kind, .in = row_values(kind, 75), .out = 9, .tokens = 5, .has_bias = true, .transposed = transposed};
    c.src1_padding = 3;
    if (!flat) c.weight_padding_blocks = 1;
    add(suite, c);
    c.dst_padding = 5;
    add(suite, c);
    for (const Activations a : {Activations::large, Activations::small, Activations::one_infinity, Activations::one_nan,
                                Activations::expanded_one}) {
      c.activations = a;
      add(suite, c);
    }
  }
  // Larger than one panel, chunk or tile in every direction, and no multiple of them.
  const std::int64_t out = suite.reduced() ? 270 : 533, tokens = suite.reduced() ? 9 : 37;
  add(suite, {.kind = kind, .in = row_values(kind, 517), .out = out, .tokens = tokens});
  add(suite, {.kind = kind, .in = row_values(kind, 300), .out = 70, .tokens = 5, .off_alignment = true});
  add(suite,
      {.kind = kind, .in = row_values(kind, 1024), .out = 20, .tokens = 3, .contents = test::Contents::one_nan_block});
  add(suite, {.kind = kind, .in = 0, .out = 20, .tokens = 3, .has_bias = true});
}

}  // namespace

void add_linear_cases(Suite& suite) {
  for (const test::WeightKind kind : test::weight_kinds()) {
    add_grid(suite, kind);
    add_views_and_values(suite, kind);
  }
  for (const test::WeightKind kind : kSome) add_types(suite, kind);
}

}  // namespace nibble::conformance
