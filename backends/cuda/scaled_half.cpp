// The cut and the run of out_prod by halves.
// Apart from the header, which names the numbers; here is where they come from.
#include "backends/cuda/scaled_half.h"

#include "backends/gpu/blas.h"
#include "backends/gpu/decode.h"
#include "backends/gpu/text.h"
#include "backends/gpu/weight_rows.h"

#include <algorithm>
#include <utility>

namespace nibble::cuda {
namespace {

using gpu::aligned;
using gpu::element_stride;
using gpu::fail;
using gpu::piece;

const gpu::GemmEngine& engine() { return gpu::kBlasHalf; }

/// The plan for so many tokens at a time; less than one row where they do not fit.
ScaledPlan plan_for(const nibble_request& r, std::int64_t tokens, std::uint64_t scratch, std::uint64_t bytes) {
  const std::int64_t columns = r.weight.packed.shape[0], rows = r.weight.packed.shape[1];
  ScaledPlan p{.tokens = tokens, .decoded_row = gpu::padded_row(columns), .scratch = scratch};
  p.scales = aligned(gpu::kTwoStepDecoder.scales_bytes(r.weight));
  p.powers = piece(NIBBLE_F32, tokens);
  p.bounds = piece(NIBBLE_F32, kBoundParts) + piece(NIBBLE_F32, 1);
  p.maxima = piece(NIBBLE_F32, max_chunks(rows, tokens), tokens);
  p.sums = piece(NIBBLE_F32, columns, tokens);
  const std::uint64_t taken = p.total() + 2 * gpu::kPieceAlignment;
  const auto room = static_cast<std::int64_t>(bytes > taken ? bytes - taken : 0);
  p.rows = std::min(rows, room / (2 * (p.decoded_row + tokens)));
  return p;
}

void set_rows(ScaledPlan& p, std::int64_t all, std::int64_t most) {
  p.rows = gpu::balanced_block(all, std::max<std::int64_t>(most, 1));
  p.decoded = piece(NIBBLE_F16, p.decoded_row, p.rows);
  p.packed = piece(NIBBLE_F16, p.tokens, p.rows);
}

ScaledPlan least_plan(const nibble_request& r) {
  ScaledPlan p = plan_for(r, 1, aligned(engine().least_scratch_bytes), 0);
  set_rows(p, r.weight.packed.shape[1], 1);
  return p;
}

/// One call, over its pieces of the workspace.
class Run {
 public:
  Run(const nibble_request& r, const ScaledPlan& plan, void* workspace, gpu::Stream stream, nibble_text* why)
      : r_(r), plan_(plan), stream_(stream), why_(why) {
    auto* at = static_cast<std::uint8_t*>(workspace);
    const auto take = [&at](std::uint64_t bytes) { return std::exchange(at, at + bytes); };
    scratch_ = {take(plan.scratch), plan.scratch};
    scales_ = plan.scales != 0 ? reinterpret_cast<float*>(at) : nullptr;
    take(plan.scales);
    powers_ = reinterpret_cast<float*>(take(plan.powers));
    partial_ = reinterpret_cast<float*>(take(plan.bounds));
    power_ = partial_ + kBoundParts;
    maxima_ = reinterpret_cast<float*>(take(plan.maxima));
    sums_ = reinterpret_cast<float*>(take(plan.sums));
    decoded_ = take(plan.decoded);
    packed_ = take(plan.packed);
  }

  nibble_status all() {
    if (scales_ != nullptr) {
      if (const nibble_status s = gpu::rebuild_scales(r_.weight, scales_, stream_, why_); s != NIBBLE_OK) return s;
    }
    if (const nibble_status s = weight_power(r_.weight.packed.format, work_of(r_), partial_, power_, stream_, why_);
        s != NIBBLE_OK) {
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
    const Tensor& src1 = r_.src1;
    const std::int64_t rows = r_.weight.packed.shape[1];
    const PackedGrads grads = {.grad = gpu::element_at(src1, token * element_stride(src1, 0)),
                               .type = src1.format,
                               .row_stride = element_stride(src1, 1),
                               .token_stride = element_stride(src1, 0),
                               .rows = rows,
                               .tokens = static_cast<int>(tokens),
                               .maxima = maxima_,
                               .powers = powers_};
    if (const nibble_status s = grad_powers(grads, stream_, why_); s != NIBBLE_OK) return s;
    for (std::int64_t first = 0; first < rows; first += plan_.rows) {
      if (const nibble_status s = block(grads, first, std::min(plan_.rows, rows - first)); s != NIBBLE_OK) return s;
    }
    return gpu::finish({.sums = sums_,
                        .parts = 1,
                        .out = gpu::element_at(r_.dst, token * element_stride(r_.dst, 1)),
                        .type = r_.dst.format,
                        .out_stride = element_stride(r_.dst, 1),
                        .m = r_.dst.shape[0],
                        .n = tokens,
                        .add = (r_.flags & NIBBLE_FLAG_ACCUMULATE) != 0,
                        .powers = powers_,
                        .power = power_},
                       stream_, why_);
  }

  nibble_status block(const PackedGrads& grads, std::int64_t first, std::int64_t rows) {
    nibble_status s =
        gpu::decode_rows_scaled(r_.weight, first, rows, decoded_, plan_.decoded_row, scales_, power_, stream_, why_);
    if (s != NIBBLE_OK) return s;
    const bool along_rows = grads.row_stride < grads.token_stride;
    s = gpu::pack(
        {.in = static_cast<const std::uint8_t*>(grads.grad) + first * grads.row_stride * gpu::element_bytes(grads.type),
         .type = grads.type,
         .inner_stride = along_rows ? grads.row_stride : grads.token_stride,
         .outer_stride = along_rows ? grads.token_stride : grads.row_stride,
         .out = packed_,
         .out_type = NIBBLE_F16,
         .inner = along_rows ? rows : grads.tokens,
         .outer = along_rows ? grads.tokens : rows,
         .inner_powers = along_rows ? nullptr : powers_,
         .outer_powers = along_rows ? powers_ : nullptr},
        stream_, why_);
    if (s != NIBBLE_OK) return s;
    return gpu::multiply(engine(),
                         {.a = {.data = decoded_, .type = NIBBLE_F16, .outer_stride = 1, .k_stride = plan_.decoded_row},
                          .b = {.data = packed_,
                                .type = NIBBLE_F16,
                                .outer_stride = along_rows ? rows : 1,
                                .k_stride = along_rows ? 1 : grads.tokens},
                          .c = sums_,
                          .c_stride = r_.dst.shape[0],
                          .m = r_.dst.shape[0],
                          .n = grads.tokens,
                          .k = rows,
                          .add = first > 0},
                         scratch_, stream_, why_);
  }

  const nibble_request& r_;
  const ScaledPlan& plan_;
  gpu::Stream stream_;
  nibble_text* why_;
  gpu::Scratch scratch_;
  float *scales_, *powers_, *partial_, *power_, *maxima_, *sums_;
  std::uint8_t *decoded_, *packed_;
};

/// The kernel that looks through a weight's scales reads those within its blocks as pairs of bytes.
bool scales_start_evenly(const nibble_request& r) {
  return gpu::keeps_scales_beside(gpu::layout_of(r.weight.packed.format).engine) ||
         reinterpret_cast<std::uintptr_t>(bytes_of(r.weight.packed)) % 2 == 0;
}

std::uint64_t least_packed_bytes(const nibble_request& r, const nibble_caps& caps) {
  return plan_fused(r, Cores::warp, caps.processors, 0).total();
}

/// A choice is kept for other addresses, so what starts oddly is multiplied packed, by warps.
nibble_status multiply_packed(const nibble_caps* caps, const nibble_request* r, void* workspace, std::uint64_t bytes,
                              void* stream, nibble_text* why) {
  if (const std::uint64_t least = least_packed_bytes(*r, *caps); bytes < least) {
    return fail(why, NIBBLE_OUT_OF_MEMORY,
                "workspace of {} bytes for a weight at an odd address: expected {} or more, or an even address", bytes,
                least);
  }
  return FusedRow<Cores::warp>::execute(nullptr, caps, r, workspace, bytes, stream, why);
}

bool nothing_to_do(const nibble_request& r) { return element_count(r.dst) == 0; }

}  // namespace

ScaledPlan plan_scaled(const nibble_request& r, std::uint64_t bytes) {
  constexpr std::int64_t kGoodDepth = 1024;  // rows a block that keep a product efficient
  if (nothing_to_do(r)) return {};
  const std::int64_t rows = r.weight.packed.shape[1];
  const std::uint64_t least = least_plan(r).total();
  const std::uint64_t scratch = gpu::scratch_share(engine(), bytes > least ? bytes - least : 0);
  std::int64_t tokens = r.dst.shape[1];
  ScaledPlan p = plan_for(r, tokens, scratch, bytes);
  while (p.rows < std::min(rows, kGoodDepth) && tokens > 1) {
    tokens = (tokens + 1) / 2;
    p = plan_for(r, tokens, scratch, bytes);
  }
  if (p.rows < 1) return least_plan(r);
  set_rows(p, rows, p.rows);
  return p;
}

nibble_status scaled_supports(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                              nibble_text* why) {
  if (const nibble_status s = multiplies_halves(k, caps, r, why); s != NIBBLE_OK) return s;
  if (r->weight.packed.shape[1] == 0) return fail(why, NIBBLE_UNSUPPORTED, "the weight has no rows");
  // Strides alone: addresses are not known yet.
  if (const std::int64_t stride = work_of(*r).row_stride; stride % 2 != 0) {
    return fail(why, NIBBLE_UNSUPPORTED, "rows of the weight are {} bytes apart: expected a multiple of 2", stride);
  }
  return NIBBLE_OK;
}

nibble_status query_scaled(const nibble_kernel*, const nibble_caps* caps, const nibble_request* r,
                           nibble_workspace_need* need, nibble_text*) {
  need->minimum_bytes = nothing_to_do(*r) ? 0 : least_plan(*r).total();
  // An odd address may come, within the limit.
  const std::uint64_t limit = gpu::workspace_limit(*r), packed = std::min(limit, least_packed_bytes(*r, *caps));
  need->bytes = std::max({plan_scaled(*r, limit).total(), packed, need->minimum_bytes});
  need->alignment = gpu::kPieceAlignment;
  return NIBBLE_OK;
}

nibble_status execute_scaled(const nibble_kernel*, const nibble_caps* caps, const nibble_request* r, void* workspace,
                             std::uint64_t workspace_bytes, void* stream, nibble_text* why) {
  if (nothing_to_do(*r)) return NIBBLE_OK;
  if (!scales_start_evenly(*r)) return multiply_packed(caps, r, workspace, workspace_bytes, stream, why);
  const gpu::DeviceGuard device(r->weight.packed.device_index, why);
  if (device.status() != NIBBLE_OK) return device.status();
  const ScaledPlan plan =
      gpu::plan_within(*r, workspace_bytes, [r](std::uint64_t bytes) { return plan_scaled(*r, bytes); });
  return Run(*r, plan, workspace, stream, why).all();
}

}  // namespace nibble::cuda
