// The cut and the run of linear.
// Apart from the header, which names the numbers; here is where they come from.
#include "backends/gpu/linear.h"

#include <algorithm>

namespace nibble::gpu {
namespace {

Operand src1_operand(const nibble_request& r) {
  return {.type = r.src1.format, .outer_stride = element_stride(r.src1, 1), .k_stride = element_stride(r.src1, 0)};
}

Operands operands_of(const ProductTools& tools, const nibble_request& r) {
  return choose_operands(*tools.engine, r, src1_operand(r), r.dst.shape[1], false);
}

bool nothing_to_sum(const nibble_request& r) { return element_count(r.dst) == 0 || r.weight.packed.shape[0] == 0; }

/// Outputs that fit beside a tile's other pieces; less than 1 where they do not.
std::int64_t rows_beside(const LinearPlan& p, std::int64_t all, std::uint64_t bytes) {
  const std::uint64_t taken = p.pieces.scratch + p.pieces.scales + p.pieces.packed + 2 * kPieceAlignment;
  const std::int64_t row =
      (p.operands.decode ? element_bytes(p.operands.type) * p.decoded_row : 0) + (p.operands.stage ? 4 * p.tokens : 0);
  if (row == 0) return bytes < taken - 2 * kPieceAlignment ? 0 : all;
  return bytes <= taken ? 0 : static_cast<std::int64_t>((bytes - taken) / static_cast<std::uint64_t>(row));
}

/// Tokens that a tile should have: all, unless packed activations or sums would crowd out the weight's block.
std::int64_t wanted_tokens(const LinearPlan& p, const nibble_request& r, std::uint64_t bytes) {
  constexpr std::int64_t kGoodRows = 256;  // outputs a block that keep a product efficient
  const auto half = static_cast<std::int64_t>(bytes / 2);
  std::int64_t tokens = r.dst.shape[1];
  if (p.operands.pack) tokens = std::min(tokens, half / (element_bytes(p.operands.type) * r.weight.packed.shape[0]));
  if (p.operands.stage) tokens = std::min(tokens, half / 2 / (4 * std::min(r.dst.shape[0], kGoodRows)));
  return std::max<std::int64_t>(tokens, 1);
}

/// A run of one request: what stays the same over its blocks.
class Run {
 public:
  Run(const ProductTools& tools, const nibble_request& r, const LinearPlan& plan, void* workspace, Stream stream,
      nibble_text* why)
      : tools_(tools), r_(r), plan_(plan), carved_(plan.pieces, workspace), stream_(stream), why_(why) {}

  nibble_status all() {
    if (carved_.scales != nullptr) {
      if (const nibble_status s = tools_.decoder->rebuild_scales(r_.weight, carved_.scales, stream_, why_);
          s != NIBBLE_OK)
        return s;
    }
    for (std::int64_t token = 0; token < r_.dst.shape[1]; token += plan_.tokens) {
      if (const nibble_status s = tile(token, std::min(plan_.tokens, r_.dst.shape[1] - token)); s != NIBBLE_OK)
        return s;
    }
    return NIBBLE_OK;
  }

 private:
  nibble_status tile(std::int64_t token, std::int64_t tokens) {
    Operand b = plan_.operands.src1;
    b.data = element_at(r_.src1, token * b.outer_stride);
    if (plan_.operands.pack) {
      if (const nibble_status s = pack_src1(b, tokens); s != NIBBLE_OK) return s;
    }
    for (std::int64_t first = 0; first < r_.dst.shape[0]; first += plan_.rows) {
      if (const nibble_status s = block(b, token, tokens, first); s != NIBBLE_OK) return s;
    }
    return NIBBLE_OK;
  }

  /// Replaces b by a copy in the engine's type, each token's values side by side.
  nibble_status pack_src1(Operand& b, std::int64_t tokens) {
    const std::int64_t in = r_.weight.packed.shape[0];
    const Pack p{.in = b.data,
                 .type = b.type,
                 .inner_stride = b.k_stride,
                 .outer_stride = b.outer_stride,
                 .out = carved_.packed,
                 .out_type = plan_.operands.type,
                 .inner = in,
                 .outer = tokens};
    b = {.data = carved_.packed, .type = plan_.operands.type, .outer_stride = in, .k_stride = 1};
    return pack(p, stream_, why_);
  }

  nibble_status block(const Operand& b, std::int64_t token, std::int64_t tokens, std::int64_t first) {
    const Tensor &w = r_.weight.packed, &dst = r_.dst;
    const std::int64_t rows = std::min(plan_.rows, dst.shape[0] - first);
    Gemm g{.a = plan_.operands.weight, .b = b, .m = rows, .n = tokens, .k = w.shape[0]};
    g.a.data = bytes_of(w) + first * w.byte_stride[1];
    if (plan_.operands.decode) {
      if (const nibble_status s = decode(first, rows); s != NIBBLE_OK) return s;
      g.a = {.data = carved_.decoded, .type = plan_.operands.type, .outer_stride = plan_.decoded_row, .k_stride = 1};
    }
    Finish f{.out = element_at(dst, first + token * element_stride(dst, 1)),
             .type = dst.format,
             .out_stride = element_stride(dst, 1),
             .m = rows,
             .n = tokens};
    if (present(r_.bias)) {
      f.bias = element_at(r_.bias, first * element_stride(r_.bias, 0));
      f.bias_type = r_.bias.format;
      f.bias_stride = element_stride(r_.bias, 0);
    }
    return plan_.operands.stage ? rounded(g, f) : in_place(g, f);
  }

  nibble_status decode(std::int64_t first, std::int64_t rows) {
    return tools_.decoder->rows(r_.weight, first, rows, 0, 0, plan_.operands.type, carved_.decoded, plan_.decoded_row,
                                carved_.scales, stream_, why_);
  }

  /// The sums into the workspace, then with the bias into dst, rounded once.
  nibble_status rounded(Gemm& g, Finish& f) {
    g.c = carved_.sums;
    g.c_stride = g.m;
    f.sums = carved_.sums;
    f.parts = 1;
    if (const nibble_status s = multiply(*tools_.engine, g, carved_.scratch, stream_, why_); s != NIBBLE_OK) return s;
    return finish(f, stream_, why_);
  }

  /// The bias into dst, then the sums added to it.
  nibble_status in_place(Gemm& g, const Finish& f) {
    g.c = static_cast<float*>(f.out);
    g.c_stride = f.out_stride;
    g.add = f.bias != nullptr;
    if (const nibble_status s = g.add ? finish(f, stream_, why_) : NIBBLE_OK; s != NIBBLE_OK) return s;
    return multiply(*tools_.engine, g, carved_.scratch, stream_, why_);
  }

  const ProductTools& tools_;
  const nibble_request& r_;
  const LinearPlan& plan_;
  Carved carved_;
  Stream stream_;
  nibble_text* why_;
};

/// The sum over no inputs: the bias, or zeros.
nibble_status sum_of_nothing(const nibble_request& r, Stream stream, nibble_text* why) {
  Finish f{.out = bytes_of(r.dst),
           .type = r.dst.format,
           .out_stride = element_stride(r.dst, 1),
           .m = r.dst.shape[0],
           .n = r.dst.shape[1]};
  if (present(r.bias)) {
    f.bias = bytes_of(r.bias);
    f.bias_type = r.bias.format;
    f.bias_stride = element_stride(r.bias, 0);
  }
  return finish(f, stream, why);
}

}  // namespace

std::uint64_t linear_least_bytes(const ProductTools& tools, const nibble_request& r) {
  if (nothing_to_sum(r)) return 0;
  const Operands o = operands_of(tools, r);
  const std::int64_t row = padded_row(r.weight.packed.shape[0]);
  return aligned(tools.engine->least_scratch_bytes) +
         (o.decode ? aligned(tools.decoder->scales_bytes(r.weight)) + piece(o.type, row) : 0) +
         (o.pack ? piece(o.type, row) : 0) + (o.stage ? piece(NIBBLE_F32, 1) : 0);
}

LinearPlan plan_linear(const ProductTools& tools, const nibble_request& r, std::uint64_t bytes) {
  LinearPlan p;
  if (nothing_to_sum(r)) return p;
  const std::int64_t in = r.weight.packed.shape[0], out = r.dst.shape[0];
  const std::uint64_t least = linear_least_bytes(tools, r);
  p.operands = operands_of(tools, r);
  p.decoded_row = padded_row(in);
  p.pieces.scratch = scratch_share(*tools.engine, bytes > least ? bytes - least : 0);
  p.pieces.scales = p.operands.decode ? aligned(tools.decoder->scales_bytes(r.weight)) : 0;
  const std::uint64_t fixed = p.pieces.scratch + p.pieces.scales;
  p.tokens = wanted_tokens(p, r, bytes > fixed ? bytes - fixed : 0);
  for (;; p.tokens /= 2) {
    p.pieces.packed = p.operands.pack ? piece(p.operands.type, in, p.tokens) : 0;
    p.rows = rows_beside(p, out, bytes);
    if (p.rows >= 1 || p.tokens <= 1) break;
  }
  p.rows = balanced_block(out, std::max<std::int64_t>(p.rows, 1));
  p.pieces.decoded = p.operands.decode ? piece(p.operands.type, p.decoded_row, p.rows) : 0;
  p.pieces.sums = p.operands.stage ? piece(NIBBLE_F32, p.rows, p.tokens) : 0;
  return p;
}

nibble_status query_linear(const ProductTools& tools, const nibble_request& r, nibble_workspace_need* need) {
  need->minimum_bytes = linear_least_bytes(tools, r);
  need->bytes = std::max(plan_linear(tools, r, workspace_limit(r)).total(), need->minimum_bytes);
  need->alignment = kPieceAlignment;
  return NIBBLE_OK;
}

nibble_status run_linear(const ProductTools& tools, const nibble_request& r, void* workspace,
                         std::uint64_t workspace_bytes, Stream stream, nibble_text* why) {
  if (element_count(r.dst) == 0) return NIBBLE_OK;
  if (nothing_to_sum(r)) return sum_of_nothing(r, stream, why);
  const LinearPlan plan =
      plan_within(r, workspace_bytes, [&](std::uint64_t bytes) { return plan_linear(tools, r, bytes); });
  return Run(tools, r, plan, workspace, stream, why).all();
}

}  // namespace nibble::gpu
