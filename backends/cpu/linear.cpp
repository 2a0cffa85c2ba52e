// cpu.linear.panels.<isa>: rows of the weight are columns of a panel, so decoded pieces are transposed.
// Apart from out_prod because of that transposition and the bias.
#include "backends/cpu/decode.h"
#include "backends/cpu/product.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/threads.h"
#include "core/decode.h"

namespace nibble::cpu {
namespace {

Product product_of(const nibble_request& r, Target target) {
  const DecodeTable& table = decode_table(target);
  const nibble_tensor &w = r.weight.packed, &x = r.src1, &dst = r.dst;
  Product p;
  p.target = target;
  p.rows = x.shape[1];
  p.columns = w.shape[1];
  p.depth = w.shape[0];
  p.panels = p.rows <= kFewRows ? Product::Panels::dots : Product::Panels::transposed;
  if (p.rows <= kFewRows) p.chunk = 512;  // sixteen pieces of rows in a first-level cache
  p.decode = [&r, &table](std::int64_t k, std::int64_t k_count, std::int64_t n, std::int64_t n_count, float* out,
                          std::int64_t ld) {
    for (std::int64_t i = 0; i < n_count; ++i)
      table.decode_row(r.weight, n + i, 0, 0, k, k_count, Sink::store_f32, {out + i * ld});
  };
  p.activation = [&x](std::int64_t m) { return bytes_of(x) + m * x.byte_stride[1]; };
  p.activation_stride = x.byte_stride[0];
  p.activation_type = x.format;
  p.finish = [&r, &dst, &table](std::int64_t m, std::int64_t n, std::int64_t count, float* sums) {
    if (present(r.bias)) {
      const std::uint8_t* bias = bytes_of(r.bias) + n * r.bias.byte_stride[0];
      for (std::int64_t i = 0; i < count; ++i) sums[i] += load_element(r.bias.format, bias + i * r.bias.byte_stride[0]);
    }
    std::uint8_t* out = bytes_of(dst) + m * dst.byte_stride[1] + n * dst.byte_stride[0];
    table.round(sums, count, store_sink(dst.format), out);
  };
  return p;
}

nibble_status query(const nibble_kernel* k, const nibble_caps*, const nibble_request* r, nibble_workspace_need* need,
                    nibble_text* why) {
  return contained(why, [&] { query_product(product_of(*r, target_of(k)), r, need); });
}

nibble_status execute(const nibble_kernel* k, const nibble_caps*, const nibble_request* r, void* workspace,
                      std::uint64_t bytes, void*, nibble_text* why) {
  return contained(why, [&] {
    const Product p = product_of(*r, target_of(k));
    run_product(p, cut_product(p, threads_for(r->threads), bytes), workspace);
  });
}

constexpr nibble_kernel row(const char* name, const TargetInfo& target) {
  nibble_kernel k = make_row(NIBBLE_OP_LINEAR, name, target);
  k.query = query;
  k.execute = execute;
  return k;
}

constexpr nibble_kernel kRows[] = {
#define NIBBLE_CPU_ROW(name, hwy_target, hwy_namespace, isa, rank) \
  row("cpu.linear.panels." #name, kTargets[static_cast<int>(Target::name)]),
    NIBBLE_CPU_TARGETS(NIBBLE_CPU_ROW)
#undef NIBBLE_CPU_ROW
};

}  // namespace

std::span<const nibble_kernel> linear_rows() { return kRows; }

}  // namespace nibble::cpu
