// cpu.out_prod.panels.<isa>: rows of the weight are rows of a panel; repeats of a weight are more rows of the result.
// Apart from linear because a panel here is what the decoder gives, as it is.
#include "backends/cpu/decode.h"
#include "backends/cpu/product.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/threads.h"
#include "core/decode.h"

#include <algorithm>
#include <limits>

namespace nibble::cpu {
namespace {

/// The fewer rows use a panel, the longer the pieces of the weight's rows: decoding then costs more than multiplying.
/// With very many, sums no longer stay in a cache, and a deeper panel reads and writes them less often.
struct PanelShape {
  std::int64_t most_rows, chunk, columns;
};
constexpr PanelShape kPanelShapes[] = {
    {kFewRows, 16, 512},  // 32 KiB: stays in a first-level cache
    {48, 128, 512},       // 256 KiB, in a second-level cache
    {1024, 256, 256},     // likewise
    {std::numeric_limits<std::int64_t>::max(), 384, 256},
};

/// The product of one slice of the weight with all that is multiplied by it: tokens x repeats.
Product product_of(const nibble_request& r, Target target, std::int64_t w2, std::int64_t w3) {
  const DecodeTable& table = decode_table(target);
  const nibble_tensor &w = r.weight.packed, &src1 = r.src1, &dst = r.dst;
  const std::int64_t tokens = src1.shape[0], r2 = src1.shape[2] / std::max<std::int64_t>(1, w.shape[2]),
                     r3 = src1.shape[3] / std::max<std::int64_t>(1, w.shape[3]);
  // Row m of the result is a token of one of the repeats; the same three steps lead to it in src1 and in dst.
  const auto offset = [=](std::int64_t m, std::int64_t token, const nibble_tensor& t) {
    const std::int64_t i2 = w2 * r2 + m / tokens % r2, i3 = w3 * r3 + m / tokens / r2;
    return m % tokens * token + i2 * t.byte_stride[2] + i3 * t.byte_stride[3];
  };
  Product p;
  p.target = target;
  p.rows = tokens * r2 * r3;
  p.columns = w.shape[0];
  p.depth = w.shape[1];
  const auto shape = std::ranges::find_if(kPanelShapes, [&](const PanelShape& s) { return p.rows <= s.most_rows; });
  p.chunk = shape->chunk;
  p.panel_columns = shape->columns;
  const auto prefetch_ahead = [&r, w2, w3](std::int64_t k, std::int64_t n, std::int64_t n_count) {
    constexpr std::int64_t kAhead = 8;  // rows whose bytes are on their way
    if (k + kAhead < r.weight.packed.shape[1]) prefetch_row(r.weight, k + kAhead, w2, w3, n, n_count);
  };
  p.decode = [&r, &table, w2, w3, prefetch_ahead](std::int64_t k, std::int64_t k_count, std::int64_t n,
                                                  std::int64_t n_count, float* out, std::int64_t ld) {
    for (std::int64_t i = 0; i < k_count; ++i) {
      prefetch_ahead(k + i, n, n_count);
      table.decode_row(r.weight, k + i, w2, w3, n, n_count, Sink::store_f32, {out + i * ld});
    }
  };
  if (p.rows <= kMostAddedRows && table.has_sink(Sink::add_1)) {
    p.panels = Product::Panels::none;
    p.panel_columns = 2048;  // their sums stay in a first-level cache
    p.multiply_row = [&r, &table, w2, w3, prefetch_ahead, add = add_sink(p.rows)](
                         std::int64_t k, std::int64_t n, std::int64_t n_count, const float* factors, float* sums,
                         std::int64_t ld) {
      prefetch_ahead(k, n, n_count);
      table.decode_row(r.weight, k, w2, w3, n, n_count, add, {sums, factors, ld});
    };
  }
  p.activation = [&src1, offset](std::int64_t m) { return bytes_of(src1) + offset(m, src1.byte_stride[0], src1); };
  p.activation_stride = src1.byte_stride[1];
  p.activation_type = src1.format;
  p.finish = [&r, &dst, &table, offset](std::int64_t m, std::int64_t n, std::int64_t count, float* sums) {
    std::uint8_t* out = bytes_of(dst) + offset(m, dst.byte_stride[1], dst) + n * dst.byte_stride[0];
    const bool accumulate = (r.flags & NIBBLE_FLAG_ACCUMULATE) != 0;
    for (std::int64_t i = 0; accumulate && i < count; ++i) {
      sums[i] += load_element(dst.format, out + i * dst.byte_stride[0]);
    }
    table.round(sums, count, store_sink(dst.format), out);
  };
  return p;
}

nibble_status query(const nibble_kernel* k, const nibble_caps*, const nibble_request* r, nibble_workspace_need* need,
                    nibble_text* why) {
  return contained(why, [&] { query_product(product_of(*r, target_of(k), 0, 0), r, need); });
}

nibble_status execute(const nibble_kernel* k, const nibble_caps*, const nibble_request* r, void* workspace,
                      std::uint64_t bytes, void*, nibble_text* why) {
  return contained(why, [&] {
    for (std::int64_t w3 = 0; w3 < r->weight.packed.shape[3]; ++w3) {
      for (std::int64_t w2 = 0; w2 < r->weight.packed.shape[2]; ++w2) {
        const Product p = product_of(*r, target_of(k), w2, w3);
        run_product(p, cut_product(p, threads_for(r->threads), bytes), workspace);
      }
    }
  });
}

constexpr nibble_kernel row(const char* name, const TargetInfo& target) {
  nibble_kernel k = make_row(NIBBLE_OP_OUT_PROD, name, target);
  k.query = query;
  k.execute = execute;
  return k;
}

constexpr nibble_kernel kRows[] = {
#define NIBBLE_CPU_ROW(name, hwy_target, hwy_namespace, isa, rank) \
  row("cpu.out_prod.panels." #name, kTargets[static_cast<int>(Target::name)]),
    NIBBLE_CPU_TARGETS(NIBBLE_CPU_ROW)
#undef NIBBLE_CPU_ROW
};

}  // namespace

std::span<const nibble_kernel> out_prod_rows() { return kRows; }

}  // namespace nibble::cpu
