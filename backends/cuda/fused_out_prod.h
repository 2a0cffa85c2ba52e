// out_prod for few tokens without expanding the weight: the cut, the run, and what the kernel is told.
// Apart from the kernel because that is device code, and the cut is tested on the host.
#ifndef NIBBLE_BACKENDS_CUDA_FUSED_OUT_PROD_H
#define NIBBLE_BACKENDS_CUDA_FUSED_OUT_PROD_H

#include "backends/gpu/gemm_plan.h"
#include "backends/gpu/runtime.h"
#include "backends/gpu/scales.h"
#include "core/formats/formats.h"

#include <nibble/abi.h>

#include <cstdint>

namespace nibble::cuda {

/// Columns of a block's tile, and those that a lane's codes of one step are spread over.
inline constexpr int kFusedColumns = 256;
inline constexpr int kPieceColumns = 32;
/// Rows that one step of the tensor cores sums.
inline constexpr int kUnitRows = 16;
/// The tensor cores of a warp, or those of a warpgroup together, which devices of compute capability 9.0 alone have.
enum class Cores : std::uint8_t { warp, warpgroup };
/// What a launch serves at most: larger ones would keep too many sums in registers.
constexpr int most_tokens(Cores cores) { return cores == Cores::warp ? 64 : 256; }
inline constexpr int kMostFusedTokens = most_tokens(Cores::warpgroup);

/// Tiles of 8 tokens that a kernel for so many is made for.
constexpr int grad_tiles(std::int64_t tokens, Cores cores) {
  int tiles = cores == Cores::warp ? 1 : 2;
  while (8 * tiles < tokens) tiles *= 2;
  return tiles;
}
/// Blocks of such a kernel that a multiprocessor holds at once.
constexpr int fused_blocks(Cores cores) { return cores == Cores::warp ? 2 : 1; }
/// Blocks that share a tile of columns, since one has no registers for all sums.
constexpr int fused_parts(int tiles) { return tiles > 16 ? 2 : 1; }
/// What the tensor cores multiply by what; see fused.h.
enum class FusedForm : std::uint8_t { folded, two_level, values };
template <class F>
constexpr FusedForm fused_form(int tiles, Cores cores) {
  if (tiles > 2 || cores == Cores::warpgroup) return FusedForm::values;
  if constexpr (F::kEngine == Engine::runs) {
    if constexpr (requires { F::kScaleBits; }) return tiles == 1 ? FusedForm::two_level : FusedForm::values;
    if constexpr (F::kCombine == Combine::sum) return FusedForm::values;
  }
  return FusedForm::folded;
}

constexpr int grad_tile_bytes(FusedForm form) { return form == FusedForm::values ? 32 * 8 : 32 * 16; }
inline constexpr int kGradExponent = 9;
/// Rows of a plan's splits are whole multiples of this, and so are the packed gradient's.
inline constexpr std::int64_t kSplitStep = 64;

/// The gradient as the kernels read it: for each unit of rows and each tile of tokens what the 32 lanes hold, lane
/// 4 * token + c the rows c, c + 4, c + 8 and c + 12, times a power of two that brings a token's largest element to
/// 2^kGradExponent or up to twice as much. Rows and tokens that are not there are zeros. f32, but halves for the form
/// of values. For warpgroups a tile is two arrays of the lanes' halves, first rows c and c + 4, then the others.
struct GradLayout {
  Cores cores = Cores::warp;
  int tiles = 1;
  FusedForm form = FusedForm::folded;
  [[nodiscard]] std::int64_t bytes(std::int64_t rows) const {
    return (rows + kSplitStep - 1) / kSplitStep * kSplitStep / kUnitRows * tiles * grad_tile_bytes(form);
  }
};
GradLayout grad_layout(nibble_format format, std::int64_t tokens, Cores cores);

struct PackedGrads {
  const void* grad = nullptr;  ///< of the first token
  nibble_format type = NIBBLE_F32;
  std::int64_t row_stride = 0, token_stride = 0;  ///< in elements
  std::int64_t rows = 0;
  int tokens = 0;
  GradLayout layout = {};
  float* maxima = nullptr;         ///< [max_chunks(rows, tokens), tokens], to work in
  std::uint8_t* packed = nullptr;  ///< of layout.bytes(rows)
  float* powers = nullptr;         ///< [tokens]: packed times these, over 2^kGradExponent, is the gradient
};
/// Tokens whose maxima of all chunks every block that packs may read; those of more are joined first.
inline constexpr std::int64_t kJoinedByAll = 16;
/// Rows whose maxima a block finds: so many that others read few maxima, so few that a short gradient fills a device.
constexpr std::int64_t chunk_rows(std::int64_t rows, std::int64_t tokens) {
  const std::int64_t each = (rows / 256 + 31) / 32 * 32, most = tokens > kJoinedByAll ? 256 : 512;
  return each < 32 ? 32 : each > most ? most : each;
}
constexpr std::int64_t max_chunks(std::int64_t rows, std::int64_t tokens) {
  return (rows + chunk_rows(rows, tokens) - 1) / chunk_rows(rows, tokens);
}
/// Powers of two alone, one for each of any number of tokens: gradients times them are less than 2^15. Works in
/// `maxima`, [max_chunks(rows, tokens), tokens].
nibble_status grad_powers(const PackedGrads& grads, gpu::Stream stream, nibble_text* why);
nibble_status pack_grads(const PackedGrads& grads, gpu::Stream stream, nibble_text* why);

/// One launch: tiles x splits blocks, times fused_parts.
struct FusedWork {
  const std::uint8_t* weight = nullptr;
  const std::uint8_t* weight_end = nullptr;  ///< behind its last byte
  std::int64_t row_stride = 0;               ///< bytes
  std::int64_t rows = 0, columns = 0;        ///< of the whole weight
  std::int64_t first_tile = 0, tiles = 0;    ///< of kFusedColumns columns, in this launch
  std::int64_t splits = 0, rows_per_split = 0;
  const std::uint8_t* grads = nullptr;  ///< packed
  const float* grad_powers = nullptr;   ///< [tokens]
  int tokens = 0;
  bool aligned = false;          ///< rows lie so that 16 bytes can be copied at a time
  float* parts = nullptr;        ///< [splits, tokens, columns of this launch]
  std::int64_t part_stride = 0;  ///< from one split to the next
  std::int64_t part_token_stride = 0;
  gpu::EitherScales scales = {};  ///< of a bitsandbytes weight
  const float* code = nullptr;    ///< 8-bit ones: 256 values
};

/// What every launch of a call has in common.
FusedWork work_of(const nibble_request& r);

/// How a request is cut to a number of bytes. The workspace, in its order: gradients, powers, maxima, parts.
struct FusedPlan {
  nibble_format format = NIBBLE_F32;  ///< the weight's
  Cores cores = Cores::warp;
  std::int64_t rows = 0;
  std::int64_t tokens = 0;  ///< of a launch
  std::int64_t tiles = 0;   ///< of a launch
  std::int64_t splits = 0;
  std::int64_t rows_per_split = 0;
  [[nodiscard]] std::uint64_t grads_bytes() const {
    return gpu::aligned(static_cast<std::uint64_t>(grad_layout(format, tokens, cores).bytes(rows)));
  }
  [[nodiscard]] std::uint64_t powers_bytes() const { return gpu::piece(NIBBLE_F32, tokens); }
  [[nodiscard]] std::uint64_t maxima_bytes() const { return gpu::piece(NIBBLE_F32, tokens, max_chunks(rows, tokens)); }
  [[nodiscard]] std::uint64_t parts_bytes() const {
    return gpu::piece(NIBBLE_F32, splits, tokens, tiles * kFusedColumns);
  }
  [[nodiscard]] std::uint64_t total() const {
    return rows == 0 ? 0 : grads_bytes() + powers_bytes() + maxima_bytes() + parts_bytes();
  }
};
FusedPlan plan_fused(const nibble_request& r, Cores cores, std::int64_t processors, std::uint64_t bytes);
/// What a call does with its workspace; see gpu::plan_within. Splits are rounded after they were found to fit, so a
/// search within what the plan takes would end with fewer.
FusedPlan plan_fused_within(const nibble_request& r, Cores cores, std::int64_t processors,
                            std::uint64_t workspace_bytes);

/// What every product of halves asks of a device and a request; `k` is of one matrix.
nibble_status multiplies_halves(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                                nibble_text* why);

/// What a row needs; see abi.h.
template <Cores kCores>
struct FusedRow {
  static nibble_status supports(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                                nibble_text* why);
  static nibble_status query(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                             nibble_workspace_need* need, nibble_text* why);
  static nibble_status execute(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                               void* workspace, std::uint64_t workspace_bytes, void* stream, nibble_text* why);
};

// The launches, each with its formats' kernels.
nibble_status fused_runs(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why);
nibble_status fused_grid(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why);
nibble_status fused_base3(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why);
nibble_status fused_flat(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why);
nibble_status fused_groups_runs(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why);
nibble_status fused_groups_others(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why);

}  // namespace nibble::cuda

#endif
