// The cut and the run of the fused out_prod.
// Apart from the header, which names the numbers; here is where they come from.
#include "backends/cuda/fused_out_prod.h"

#include "backends/gpu/decode.h"
#include "backends/gpu/images.h"
#include "backends/gpu/product_rows.h"
#include "backends/gpu/text.h"
#include "backends/gpu/weight_rows.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace nibble::cuda {
namespace {

using gpu::element_stride;
using gpu::fail;

/// What a row takes, in launches of most_tokens: with more of them expanding the weight costs less (measured:
/// bench/results).
constexpr std::int64_t most_taken(Cores cores) { return cores == Cores::warp ? 128 : 1024; }

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

using Launch = nibble_status (*)(nibble_format, const FusedWork&, gpu::Stream, nibble_text*);
Launch launch_of(nibble_format format, [[maybe_unused]] Cores cores) {
  const Engine engine = gpu::layout_of(format).engine;
#if NIBBLE_HAVE_WARPGROUPS
  if (cores == Cores::warpgroup) return engine == Engine::runs ? fused_groups_runs : fused_groups_others;
#endif
  switch (engine) {
    case Engine::runs:
      return fused_runs;
    case Engine::grid:
      return fused_grid;
    case Engine::base3:
      return fused_base3;
    case Engine::flat4:
    case Engine::flat8:
      return fused_flat;
    case Engine::element:
      break;
  }
  return nullptr;
}

/// The tokens from `token` on, columns from `work.first_tile` on: the product of each split, then their sum.
nibble_status run_piece(const nibble_request& r, Cores cores, FusedWork work, std::int64_t token, gpu::Stream stream,
                        nibble_text* why) {
  const std::int64_t column = work.first_tile * kFusedColumns;
  const std::int64_t columns = std::min(work.tiles * kFusedColumns, work.columns - column);
  work.part_token_stride = columns;
  work.part_stride = columns * work.tokens;
  if (work.splits != 0) {
    const Launch launch = launch_of(r.weight.packed.format, cores);
    if (const nibble_status s = launch(r.weight.packed.format, work, stream, why); s != NIBBLE_OK) return s;
  }
  return gpu::finish({.sums = work.parts,
                      .parts = work.splits,
                      .out = gpu::element_at(r.dst, token * element_stride(r.dst, 1) + column),
                      .type = r.dst.format,
                      .out_stride = element_stride(r.dst, 1),
                      .m = columns,
                      .n = work.tokens,
                      .add = (r.flags & NIBBLE_FLAG_ACCUMULATE) != 0},
                     stream, why);
}

/// Splits of so many tiles, `least` or more, that keep a device with room for so many blocks at a time busy: for one
/// round of them, or a few more where that leaves fewer places empty by more than what starting costs.
std::int64_t filling_splits(std::int64_t tiles, std::int64_t blocks, std::int64_t least) {
  constexpr double kStart = 0.02;  // of a round
  std::int64_t best = least;
  double most = 0.0;
  for (std::int64_t rounds = ceil_div(least * tiles, blocks), last = rounds + 3; rounds <= last; ++rounds) {
    const std::int64_t splits = std::max(rounds * blocks / tiles, least);
    const double busy = static_cast<double>(splits * tiles) / static_cast<double>(rounds * blocks) -
                        kStart * static_cast<double>(rounds);
    if (busy > most) most = busy, best = splits;
  }
  return best;
}

/// Of bytes from row to row, so that 16 can be copied at a time and what is read of a block is aligned.
std::int64_t stride_multiple(const gpu::Layout& layout) {
  if (gpu::keeps_scales_beside(layout.engine)) return 16;
  return std::max<std::int64_t>(2, std::gcd<std::int64_t>(16, layout.block_units));
}

/// A plan's pieces of a workspace.
struct FusedMemory {
  FusedMemory(const FusedPlan& p, void* workspace) {
    auto* at = static_cast<std::uint8_t*>(workspace);
    const auto take = [&at](std::uint64_t bytes) { return std::exchange(at, at + bytes); };
    grads = take(p.grads_bytes());
    powers = reinterpret_cast<float*>(take(p.powers_bytes()));
    maxima = reinterpret_cast<float*>(take(p.maxima_bytes()));
    parts = reinterpret_cast<float*>(at);
  }
  std::uint8_t* grads;
  float *powers, *maxima, *parts;
};

}  // namespace

FusedWork work_of(const nibble_request& r) {
  const nibble_weight& w = r.weight;
  const gpu::Layout layout = gpu::layout_of(w.packed.format);
  const bool beside = gpu::keeps_scales_beside(layout.engine);
  const std::int64_t code_bits = w.packed.format == NIBBLE_BLOCKWISE8 ? 8 : 4;
  FusedWork work{.weight = bytes_of(w.packed),
                 .row_stride = beside ? w.packed.shape[0] * code_bits / 8 : w.packed.byte_stride[1],
                 .rows = w.packed.shape[1],
                 .columns = w.packed.shape[0]};
  const std::int64_t row_bytes = beside ? work.row_stride : work.columns / layout.block_values * layout.block_units;
  work.weight_end = work.weight + (work.rows - 1) * work.row_stride + row_bytes;
  work.aligned =
      reinterpret_cast<std::uintptr_t>(work.weight) % 16 == 0 && work.row_stride % stride_multiple(layout) == 0;
  if (beside) {
    work.scales = gpu::scales_of(w);
    work.code = code_bits == 8 ? reinterpret_cast<const float*>(bytes_of(w.code)) : nullptr;
  }
  return work;
}

GradLayout grad_layout(nibble_format format, std::int64_t tokens, Cores cores) {
  GradLayout layout{.cores = cores, .tiles = grad_tiles(tokens, cores)};
  visit_format(format, [&](auto f) { layout.form = fused_form<decltype(f)>(layout.tiles, cores); });
  return layout;
}

FusedPlan plan_fused(const nibble_request& r, Cores cores, std::int64_t processors, std::uint64_t bytes) {
  FusedPlan p{.format = r.weight.packed.format,
              .cores = cores,
              .rows = r.weight.packed.shape[1],
              .tokens = std::min<std::int64_t>(r.dst.shape[1], most_tokens(cores)),
              .tiles = ceil_div(r.weight.packed.shape[0], kFusedColumns)};
  if (p.rows == 0 || p.tiles == 0) return p;  // no splits: zeros, or dst as it is
  const auto fits = [&](std::int64_t splits, std::int64_t tiles, std::int64_t tokens) {
    p.splits = splits, p.tiles = tiles, p.tokens = tokens;
    return p.total() <= bytes;
  };
  // Fewer splits first, then fewer columns at a time, then fewer tokens: the first two read the weight once.
  const std::int64_t least = ceil_div(p.rows, gpu::kMostSummed);
  const std::int64_t tiles = p.tiles, tokens = p.tokens;
  const std::int64_t blocks = std::max<std::int64_t>(processors, 1) * fused_blocks(cores);
  std::int64_t splits = std::min(filling_splits(tiles * fused_parts(grad_tiles(p.tokens, cores)), blocks, least),
                                 std::max(least, ceil_div(p.rows, kSplitStep)));
  while (!fits(splits, tiles, tokens) && splits > least) splits = std::max(least, splits / 2);
  for (std::int64_t t = tiles; !fits(splits, t, tokens) && t > 1;) t = ceil_div(t, 2);
  for (std::int64_t n = tokens; !fits(splits, p.tiles, n) && n > 1;) n = ceil_div(n, 2);
  p.rows_per_split = ceil_div(ceil_div(p.rows, p.splits), kSplitStep) * kSplitStep;
  p.splits = ceil_div(p.rows, p.rows_per_split);
  return p;
}

FusedPlan plan_fused_within(const nibble_request& r, Cores cores, std::int64_t processors,
                            std::uint64_t workspace_bytes) {
  return gpu::plan_within(r, workspace_bytes,
                          [&](std::uint64_t bytes) { return plan_fused(r, cores, processors, bytes); });
}

nibble_status multiplies_halves(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                                nibble_text* why) {
  if (const nibble_status s = gpu::product_supports(k, caps, r, why); s != NIBBLE_OK) return s;
  if (caps->arch_major < 8) {
    return fail(why, NIBBLE_UNSUPPORTED,
                "needs tensor cores for halves: compute capability {}.{} is too old, expected 8.0 or later",
                caps->arch_major, caps->arch_minor);
  }
  // Of an older architecture there is code without a body: an intermediate form stands for later devices too.
  if (const std::uint32_t code = gpu::code_for(NIBBLE_CUDA_IMAGES, caps->arch_major, caps->arch_minor); code < 80) {
    return fail(
        why, NIBBLE_UNSUPPORTED,
        "needs tensor cores for halves: compute capability {}.{} runs this build's code for {}.{}, expected 8.0 "
        "or later",
        caps->arch_major, caps->arch_minor, code / 10, code % 10);
  }
  if (r->weight.packed.shape[0] % kPieceColumns != 0) {
    return fail(why, NIBBLE_UNSUPPORTED, "rows of {} values: expected a multiple of {}", r->weight.packed.shape[0],
                kPieceColumns);
  }
  return NIBBLE_OK;
}

template <Cores kCores>
nibble_status FusedRow<kCores>::supports(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                                         nibble_text* why) {
  if (const nibble_status s = multiplies_halves(k, caps, r, why); s != NIBBLE_OK) return s;
  if (kCores == Cores::warpgroup) {
    if (caps->arch_major != 9 || caps->arch_minor != 0) {
      return fail(why, NIBBLE_UNSUPPORTED, "multiplies by warpgroups: compute capability {}.{}, expected 9.0",
                  caps->arch_major, caps->arch_minor);
    }
    // Strides alone: a choice is kept for other addresses, and what starts elsewhere is multiplied by warps.
    const std::int64_t stride = work_of(*r).row_stride;
    const std::int64_t multiple = stride_multiple(gpu::layout_of(r->weight.packed.format));
    if (stride % multiple != 0) {
      return fail(why, NIBBLE_UNSUPPORTED, "rows of the weight are {} bytes apart: expected a multiple of {}", stride,
                  multiple);
    }
  }
  if (r->dst.shape[1] > most_taken(kCores)) {
    return fail(why, NIBBLE_UNSUPPORTED, "{} tokens: expected {} or fewer", r->dst.shape[1], most_taken(kCores));
  }
  return NIBBLE_OK;
}

template <Cores kCores>
nibble_status FusedRow<kCores>::query(const nibble_kernel*, const nibble_caps* caps, const nibble_request* r,
                                      nibble_workspace_need* need, nibble_text*) {
  need->minimum_bytes = plan_fused(*r, kCores, caps->processors, 0).total();
  need->bytes =
      std::max(plan_fused(*r, kCores, caps->processors, gpu::workspace_limit(*r)).total(), need->minimum_bytes);
  need->alignment = gpu::kPieceAlignment;
  return NIBBLE_OK;
}

template <Cores kCores>
nibble_status FusedRow<kCores>::execute(const nibble_kernel*, const nibble_caps* caps, const nibble_request* r,
                                        void* workspace, std::uint64_t workspace_bytes, void* stream,
                                        nibble_text* why) {
  if (element_count(r->dst) == 0) return NIBBLE_OK;
  if (kCores == Cores::warpgroup && !work_of(*r).aligned) {  // warps need no more memory
    return FusedRow<Cores::warp>::execute(nullptr, caps, r, workspace, workspace_bytes, stream, why);
  }
  const gpu::DeviceGuard device(r->weight.packed.device_index, why);
  if (device.status() != NIBBLE_OK) return device.status();
  const FusedPlan plan = plan_fused_within(*r, kCores, caps->processors, workspace_bytes);
  const FusedMemory memory(plan, workspace);
  FusedWork work = work_of(*r);
  work.grads = memory.grads;
  work.grad_powers = memory.powers;
  work.parts = memory.parts;
  work.splits = plan.splits;
  work.rows_per_split = plan.rows_per_split;
  const std::int64_t all_tiles = ceil_div(work.columns, kFusedColumns);
  for (std::int64_t token = 0; token < r->dst.shape[1]; token += plan.tokens) {
    work.tokens = static_cast<int>(std::min(plan.tokens, r->dst.shape[1] - token));
    const PackedGrads grads = {.grad = gpu::element_at(r->src1, token * element_stride(r->src1, 0)),
                               .type = r->src1.format,
                               .row_stride = element_stride(r->src1, 1),
                               .token_stride = element_stride(r->src1, 0),
                               .rows = work.rows,
                               .tokens = work.tokens,
                               .layout = grad_layout(r->weight.packed.format, work.tokens, kCores),
                               .maxima = memory.maxima,
                               .packed = memory.grads,
                               .powers = memory.powers};
    if (work.rows != 0) {
      if (const nibble_status s = pack_grads(grads, stream, why); s != NIBBLE_OK) return s;
    }
    for (work.first_tile = 0; work.first_tile < all_tiles; work.first_tile += plan.tiles) {
      work.tiles = std::min(plan.tiles, all_tiles - work.first_tile);
      if (const nibble_status s = run_piece(*r, kCores, work, token, stream, why); s != NIBBLE_OK) return s;
    }
  }
  return NIBBLE_OK;
}

template struct FusedRow<Cores::warp>;
#if NIBBLE_HAVE_WARPGROUPS
template struct FusedRow<Cores::warpgroup>;
#endif

}  // namespace nibble::cuda
