// The shared decisions of out_prod and linear.
// Apart from the header so that it stays a page of vocabulary.
#include "backends/gpu/gemm_plan.h"

#include <algorithm>

namespace nibble::gpu {
namespace {

bool is_element(nibble_format f) { return f == NIBBLE_F32 || f == NIBBLE_F16 || f == NIBBLE_BF16; }

/// A GGUF row may start at any byte; an engine wants whole elements.
bool whole_strides(const Tensor& t) {
  return std::all_of(t.byte_stride + 1, t.byte_stride + 4,
                     [&](std::int64_t s) { return s % element_bytes(t.format) == 0; });
}

}  // namespace

std::int64_t balanced_block(std::int64_t count, std::int64_t most) {
  constexpr std::int64_t kRows = 32;
  if (count <= most || most < kRows) return std::clamp<std::int64_t>(most, 1, std::max<std::int64_t>(count, 1));
  most -= most % kRows;
  const std::int64_t blocks = (count + most - 1) / most;
  const std::int64_t each = (count + blocks - 1) / blocks;
  return (each + kRows - 1) / kRows * kRows;
}

Carved::Carved(const Pieces& pieces, void* workspace) {
  auto* at = static_cast<std::uint8_t*>(workspace);
  const auto take = [&](std::uint64_t bytes) {
    auto* taken = at;
    at += bytes;
    return bytes != 0 ? taken : nullptr;
  };
  scratch = {take(pieces.scratch), pieces.scratch};
  scales = reinterpret_cast<float*>(take(pieces.scales));
  sums = reinterpret_cast<float*>(take(pieces.sums));
  decoded = take(pieces.decoded);
  packed = take(pieces.packed);
}

Operands choose_operands(const GemmEngine& engine, const nibble_request& r, const Operand& src1, std::int64_t n,
                         bool along_rows) {
  const Tensor& w = r.weight.packed;
  Operands o{.src1 = src1, .type = engine.operand_type, .stage = r.dst.format != NIBBLE_F32};
  const std::int64_t m = along_rows ? w.shape[0] : w.shape[1], k = along_rows ? w.shape[1] : w.shape[0];
  const bool src1_read = engine.reads(src1, n, k);
  if (is_element(w.format) && whole_strides(w)) {
    const std::int64_t row = element_stride(w, 1);
    o.weight = {.type = w.format, .outer_stride = along_rows ? 1 : row, .k_stride = along_rows ? row : 1};
    const nibble_format other = src1_read ? src1.type : o.type;
    o.decode =
        !engine.reads(o.weight, m, k) || !(engine.multiplies(w.format, other) || engine.multiplies(w.format, o.type));
  }
  o.pack = !src1_read || !engine.multiplies(o.decode ? o.type : w.format, src1.type);
  return o;
}

std::uint64_t scratch_share(const GemmEngine& engine, std::uint64_t spare) {
  constexpr std::uint64_t kShare = 8;
  return aligned(std::clamp(spare / kShare, engine.least_scratch_bytes, engine.scratch_bytes));
}

}  // namespace nibble::gpu
