// The cut and the run of out_prod.
// Apart from the header, which names the numbers; here is where they come from.
#include "backends/gpu/out_prod.h"

#include <algorithm>

namespace nibble::gpu {
namespace {

/// The matrices of dst that share a weight slice, in an order that makes neighbours evenly spaced where it can.
struct Served {
  explicit Served(const nibble_request& r)
      : repeat2(r.src1.shape[2] / r.weight.packed.shape[2]), repeat3(r.src1.shape[3] / r.weight.packed.shape[3]) {}

  std::int64_t repeat2, repeat3;
  [[nodiscard]] std::int64_t count() const { return repeat2 * repeat3; }
  /// The dimension along which neighbours lie, and how many there are.
  [[nodiscard]] int inner_dimension() const { return repeat2 > 1 ? 2 : 3; }
  [[nodiscard]] std::int64_t inner() const { return repeat2 > 1 ? repeat2 : repeat3; }
  /// Offset in elements of matrix `index` of slice (w2, w3) in src1 or dst.
  [[nodiscard]] std::int64_t offset(const Tensor& t, std::int64_t w2, std::int64_t w3, std::int64_t index) const {
    return (w2 * repeat2 + index % repeat2) * element_stride(t, 2) +
           (w3 * repeat3 + index / repeat2) * element_stride(t, 3);
  }
};

Operand src1_operand(const nibble_request& r) {
  return {.type = r.src1.format, .outer_stride = element_stride(r.src1, 0), .k_stride = element_stride(r.src1, 1)};
}

bool accumulates(const nibble_request& r) { return (r.flags & NIBBLE_FLAG_ACCUMULATE) != 0; }

/// Rows that fit beside a tile's other pieces; less than 1 where they do not.
std::int64_t rows_beside(const OutProdPlan& p, std::int64_t k, std::uint64_t bytes) {
  const std::uint64_t taken = p.pieces.scratch + p.pieces.scales + p.pieces.sums + 2 * kPieceAlignment;
  const std::int64_t row = element_bytes(p.operands.type) *
                           ((p.operands.decode ? p.decoded_row : 0) + (p.operands.pack ? p.tokens * p.batches : 0));
  if (row == 0) return k;
  return bytes <= taken ? 0
                        : static_cast<std::int64_t>(
                              std::min<std::uint64_t>((bytes - taken) / static_cast<std::uint64_t>(row), INT64_MAX));
}

void set_tile(OutProdPlan& p, std::int64_t cells, std::int64_t tokens, std::int64_t served) {
  p.tokens = std::clamp<std::int64_t>(cells, 1, tokens);
  p.batches = std::clamp<std::int64_t>(cells / p.tokens, 1, served);
}

/// Matrix columns that a tile should have: all, unless sums or packed pieces would crowd out the weight's block.
std::int64_t wanted_cells(const OutProdPlan& p, std::int64_t k, std::int64_t all, std::uint64_t bytes) {
  constexpr std::int64_t kGoodDepth = 256;  // rows a block that keep a product efficient
  std::int64_t cells = all;
  const auto half = static_cast<std::int64_t>(bytes / 2);
  if (p.operands.stage) cells = std::min(cells, half / (4 * p.decoded_row));
  if (p.operands.pack) cells = std::min(cells, half / 2 / (element_bytes(p.operands.type) * std::min(k, kGoodDepth)));
  return std::max<std::int64_t>(cells, 1);
}

/// A run of one request: what stays the same over its blocks.
class Run {
 public:
  Run(const ProductTools& tools, const nibble_request& r, const OutProdPlan& plan, void* workspace, Stream stream,
      nibble_text* why)
      : tools_(tools), r_(r), plan_(plan), carved_(plan.pieces, workspace), served_(r), stream_(stream), why_(why) {}

  nibble_status all() {
    if (carved_.scales != nullptr) {
      if (const nibble_status s = tools_.decoder->rebuild_scales(r_.weight, carved_.scales, stream_, why_);
          s != NIBBLE_OK)
        return s;
    }
    const Tensor& w = r_.weight.packed;
    for (std::int64_t w3 = 0; w3 < w.shape[3]; ++w3) {
      for (std::int64_t w2 = 0; w2 < w.shape[2]; ++w2) {
        if (const nibble_status s = slice(w2, w3); s != NIBBLE_OK) return s;
      }
    }
    return NIBBLE_OK;
  }

 private:
  struct Tile {
    std::int64_t w2, w3, batch, batches, token, tokens;
  };

  nibble_status slice(std::int64_t w2, std::int64_t w3) {
    decoded_first_ = -1;
    for (std::int64_t batch = 0; batch < served_.count(); batch += plan_.batches) {
      for (std::int64_t token = 0; token < r_.dst.shape[1]; token += plan_.tokens) {
        const Tile t{w2,    w3,
                     batch, std::min(plan_.batches, served_.count() - batch),
                     token, std::min(plan_.tokens, r_.dst.shape[1] - token)};
        for (std::int64_t first = 0; first < r_.weight.packed.shape[1]; first += plan_.rows) {
          if (const nibble_status s = block(t, first); s != NIBBLE_OK) return s;
        }
        if (const nibble_status s = plan_.operands.stage ? store(t) : NIBBLE_OK; s != NIBBLE_OK) return s;
      }
    }
    return NIBBLE_OK;
  }

  /// Adds one block of the weight's rows to a tile.
  nibble_status block(const Tile& t, std::int64_t first) {
    const std::int64_t rows = std::min(plan_.rows, r_.weight.packed.shape[1] - first);
    Operand a = plan_.operands.weight;
    if (plan_.operands.decode) {
      if (const nibble_status s = decode(t, first, rows); s != NIBBLE_OK) return s;
      a = {.data = carved_.decoded, .type = plan_.operands.type, .outer_stride = 1, .k_stride = plan_.decoded_row};
    } else {
      const Tensor& w = r_.weight.packed;
      a.data = bytes_of(w) + first * w.byte_stride[1] + t.w2 * w.byte_stride[2] + t.w3 * w.byte_stride[3];
    }
    return for_each_run(
        t, [&](std::int64_t index, std::int64_t count) { return product(t, a, first, rows, index, count); });
  }

  nibble_status decode(const Tile& t, std::int64_t first, std::int64_t rows) {
    if (decoded_first_ == first) return NIBBLE_OK;
    decoded_first_ = first;
    return tools_.decoder->rows(r_.weight, first, rows, t.w2, t.w3, plan_.operands.type, carved_.decoded,
                                plan_.decoded_row, carved_.scales, stream_, why_);
  }

  /// Calls f(index, count) for runs of a tile's matrices that lie evenly spaced.
  template <class F>
  nibble_status for_each_run(const Tile& t, F&& f) {
    for (std::int64_t index = t.batch; index < t.batch + t.batches;) {
      const std::int64_t count = std::min(t.batch + t.batches - index, served_.inner() - index % served_.inner());
      if (const nibble_status s = f(index, count); s != NIBBLE_OK) return s;
      index += count;
    }
    return NIBBLE_OK;
  }

  nibble_status product(const Tile& t, const Operand& a, std::int64_t first, std::int64_t rows, std::int64_t index,
                        std::int64_t count) {
    const Tensor &src1 = r_.src1, &dst = r_.dst;
    Gemm g{.a = a, .b = plan_.operands.src1, .m = dst.shape[0], .n = t.tokens, .k = rows, .batch = count};
    g.b.batch_stride = element_stride(src1, served_.inner_dimension());
    g.b.data =
        element_at(src1, served_.offset(src1, t.w2, t.w3, index) + t.token * g.b.outer_stride + first * g.b.k_stride);
    if (plan_.operands.pack) {
      const std::int64_t at = (index - t.batch) * t.tokens * rows * element_bytes(plan_.operands.type);
      if (const nibble_status s = pack_src1(g, carved_.packed + at); s != NIBBLE_OK) return s;
    }
    if (plan_.operands.stage) {
      g.c = carved_.sums + (index - t.batch) * t.tokens * g.m;
      g.c_stride = g.m;
      g.c_batch_stride = g.m * t.tokens;
      g.add = first > 0;
    } else {
      g.c = reinterpret_cast<float*>(element_at(dst, dst_offset(t, index)));
      g.c_stride = element_stride(dst, 1);
      g.c_batch_stride = element_stride(dst, served_.inner_dimension());
      g.add = first > 0 || accumulates(r_);
    }
    return multiply(*tools_.engine, g, carved_.scratch, stream_, why_);
  }

  /// Replaces g's b by a copy in the engine's type whose neighbours follow the shorter of its strides.
  nibble_status pack_src1(Gemm& g, void* out) {
    const bool along_k = g.b.k_stride < g.b.outer_stride;
    const Pack p{.in = g.b.data,
                 .type = g.b.type,
                 .inner_stride = along_k ? g.b.k_stride : g.b.outer_stride,
                 .outer_stride = along_k ? g.b.outer_stride : g.b.k_stride,
                 .batch_stride = g.b.batch_stride,
                 .out = out,
                 .out_type = plan_.operands.type,
                 .inner = along_k ? g.k : g.n,
                 .outer = along_k ? g.n : g.k,
                 .batch = g.batch};
    g.b = {.data = out,
           .type = plan_.operands.type,
           .outer_stride = along_k ? g.k : 1,
           .k_stride = along_k ? 1 : g.n,
           .batch_stride = g.n * g.k};
    return pack(p, stream_, why_);
  }

  [[nodiscard]] std::int64_t dst_offset(const Tile& t, std::int64_t index) const {
    return served_.offset(r_.dst, t.w2, t.w3, index) + t.token * element_stride(r_.dst, 1);
  }

  nibble_status store(const Tile& t) {
    return for_each_run(t, [&](std::int64_t index, std::int64_t count) {
      const std::int64_t m = r_.dst.shape[0];
      return finish({.sums = carved_.sums + (index - t.batch) * t.tokens * m,
                     .parts = 1,
                     .out = element_at(r_.dst, dst_offset(t, index)),
                     .type = r_.dst.format,
                     .out_stride = element_stride(r_.dst, 1),
                     .out_batch_stride = element_stride(r_.dst, served_.inner_dimension()),
                     .m = m,
                     .n = t.tokens,
                     .batch = count,
                     .add = accumulates(r_)},
                    stream_, why_);
    });
  }

  const ProductTools& tools_;
  const nibble_request& r_;
  const OutProdPlan& plan_;
  Carved carved_;
  Served served_;
  Stream stream_;
  nibble_text* why_;
  std::int64_t decoded_first_ = -1;  ///< of the slice in hand: a block that serves several tiles is decoded once
};

/// The sum over no rows: zeros, or dst as it is.
nibble_status sum_of_nothing(const nibble_request& r, Stream stream, nibble_text* why) {
  if (accumulates(r)) return NIBBLE_OK;
  const Tensor& dst = r.dst;
  for (std::int64_t i3 = 0; i3 < dst.shape[3]; ++i3) {
    const nibble_status s = finish({.out = element_at(dst, i3 * element_stride(dst, 3)),
                                    .type = dst.format,
                                    .out_stride = element_stride(dst, 1),
                                    .out_batch_stride = element_stride(dst, 2),
                                    .m = dst.shape[0],
                                    .n = dst.shape[1],
                                    .batch = dst.shape[2]},
                                   stream, why);
    if (s != NIBBLE_OK) return s;
  }
  return NIBBLE_OK;
}

bool nothing_to_sum(const nibble_request& r) { return element_count(r.dst) == 0 || r.weight.packed.shape[1] == 0; }

}  // namespace

std::uint64_t out_prod_least_bytes(const ProductTools& tools, const nibble_request& r) {
  if (nothing_to_sum(r)) return 0;
  const Operands o = choose_operands(*tools.engine, r, src1_operand(r), r.dst.shape[1], true);
  const std::int64_t row = padded_row(r.dst.shape[0]);
  return aligned(tools.engine->least_scratch_bytes) +
         (o.decode ? aligned(tools.decoder->scales_bytes(r.weight)) + piece(o.type, row) : 0) +
         (o.pack ? piece(o.type, 1) : 0) + (o.stage ? piece(NIBBLE_F32, r.dst.shape[0]) : 0);
}

OutProdPlan plan_out_prod(const ProductTools& tools, const nibble_request& r, std::uint64_t bytes) {
  OutProdPlan p;
  if (nothing_to_sum(r)) return p;
  const std::int64_t m = r.dst.shape[0], tokens = r.dst.shape[1], k = r.weight.packed.shape[1];
  const std::int64_t served = Served(r).count();
  const std::uint64_t least = out_prod_least_bytes(tools, r);
  p.operands = choose_operands(*tools.engine, r, src1_operand(r), tokens, true);
  p.decoded_row = padded_row(m);
  p.pieces.scratch = scratch_share(*tools.engine, bytes > least ? bytes - least : 0);
  p.pieces.scales = p.operands.decode ? aligned(tools.decoder->scales_bytes(r.weight)) : 0;
  const std::uint64_t fixed = p.pieces.scratch + p.pieces.scales;
  std::int64_t cells = wanted_cells(p, k, tokens * served, bytes > fixed ? bytes - fixed : 0);
  for (;; cells /= 2) {
    set_tile(p, cells, tokens, served);
    p.pieces.sums = p.operands.stage ? piece(NIBBLE_F32, m, p.tokens, p.batches) : 0;
    p.rows = rows_beside(p, k, bytes);
    if (p.rows >= 1 || cells <= 1) break;
  }
  p.rows = balanced_block(k, std::max<std::int64_t>(p.rows, 1));
  p.pieces.decoded = p.operands.decode ? piece(p.operands.type, p.decoded_row, p.rows) : 0;
  p.pieces.packed = p.operands.pack ? piece(p.operands.type, p.rows, p.tokens, p.batches) : 0;
  return p;
}

nibble_status query_out_prod(const ProductTools& tools, const nibble_request& r, nibble_workspace_need* need) {
  need->minimum_bytes = out_prod_least_bytes(tools, r);
  need->bytes = std::max(plan_out_prod(tools, r, workspace_limit(r)).total(), need->minimum_bytes);
  need->alignment = kPieceAlignment;
  return NIBBLE_OK;
}

nibble_status run_out_prod(const ProductTools& tools, const nibble_request& r, void* workspace,
                           std::uint64_t workspace_bytes, Stream stream, nibble_text* why) {
  if (element_count(r.dst) == 0) return NIBBLE_OK;
  if (r.weight.packed.shape[1] == 0) return sum_of_nothing(r, stream, why);
  const OutProdPlan plan =
      plan_within(r, workspace_bytes, [&](std::uint64_t bytes) { return plan_out_prod(tools, r, bytes); });
  return Run(tools, r, plan, workspace, stream, why).all();
}

}  // namespace nibble::gpu
