// Sizes of a fused product's work, and where everything lies in a block's shared memory.
// Apart from the kernels because those of warps and of warpgroups, and their launches, share them.
#ifndef NIBBLE_BACKENDS_CUDA_FUSED_SHAPE_H
#define NIBBLE_BACKENDS_CUDA_FUSED_SHAPE_H

#include "backends/cuda/fused_out_prod.h"
#include "backends/cuda/panels.h"

#include <algorithm>
#include <type_traits>

namespace nibble::cuda {

/// Warps of a block that multiply.
inline constexpr int kFusedWarps = 8;
/// A new power of two leaves room for scales that are 2^kScaleRoom times as large.
inline constexpr int kScaleRoom = 3;

/// In bytes: each team's ring of stages, and each warp's scales and mins of a stage.
template <class F, int kTiles, Cores kCores>
struct FusedShape {
  using P = Panel<F>;
  static constexpr int kTokenTiles = kTiles;
  static constexpr bool kByGroups = kCores == Cores::warpgroup;
  static constexpr FusedForm kForm = fused_form<F>(kTiles, kCores);
  static constexpr bool kHasIntegers = P::kHasMin && requires { F::kScaleBits; };
  /// What multiplies a scale or, without the code, a min in values has less than so many bits.
  static constexpr int kCodeBits = [] {
    if constexpr (P::kHasMin) return P::kBits;
    if constexpr (F::kEngine == Engine::flat4) return 1;
    return 7;
  }();
  static constexpr int kIntegerBits = [] {
    if constexpr (kHasIntegers) return F::kScaleBits;
    return 0;
  }();
  /// Scales times their warp's power of two are less than 2^this, so that no half overflows.
  static constexpr int kScaleExponent =
      kForm != FusedForm::values ? 14 - kGradExponent : (P::kHasMin ? 14 : 15) - kCodeBits - kIntegerBits;
  static constexpr int kTeam = kByGroups ? kFusedWarps : std::min(kTiles, kFusedWarps);
  static constexpr int kTeams = kFusedWarps / kTeam;
  static constexpr int kPieces = kFusedColumns / kPieceColumns / kTeam;        ///< of a warp
  static constexpr int kRuns = kPieces * P::kSets;                             ///< of a warp, that is scales a row
  static constexpr int kUnits = kByGroups ? 4 : std::clamp(kTiles / 2, 1, 4);  ///< of a stage
  static constexpr int kStageRows = kUnits * kUnitRows;
  static constexpr int kScales = kUnits * kRuns * kUnitRows;  ///< of a warp in a stage

  /// Columns of a block's sums, and sets of 16 of them of a warp that multiplies.
  static constexpr int kSumColumns = kFusedColumns / fused_parts(kTiles);
  static constexpr int kSumSets = 2 * kPieces / fused_parts(kTiles);
  /// The warp with set `set` of those of a team's columns. Where it has one set, a warpgroup's warps have the same set
  /// of different pieces.
  __device__ static constexpr int warp_of(int set) {
    return kSumSets == 1 ? set % 2 * (kFusedWarps / 2) + set / 2 : set / kSumSets;
  }

  /// What copies bring of a row: 16 bytes at a time, from a multiple of 16 on.
  static constexpr int kChunks = (P::kRowBytes + (P::kBlockBytes % 16 == 0 ? 0 : 15) + 15) / 16;
  /// 32 bytes past a multiple of 64, so that 4 rows meet different banks.
  static constexpr int kSlot = (P::kRowBytes + 15 + 31) / 64 * 64 + 32;
  static constexpr int kRaw = kStageRows * kSlot;
  static constexpr int kGradTile = grad_tile_bytes(kForm);
  static constexpr int kGrads = kUnits * kTiles * kGradTile;
  static constexpr int kWarpScales = kForm == FusedForm::two_level ? kScales * 4 + kStageRows * 8
                                     : kForm == FusedForm::folded  ? kScales * 4
                                     : kHasIntegers                ? kScales * 6 + kStageRows * 2
                                     : P::kHasMin                  ? kScales * 4
                                                                   : kScales * 2;
  /// Rows, then gradients; for warpgroups the scales of all pieces too, since other warps make them ahead.
  static constexpr int kStage = kRaw + kGrads + (kByGroups ? kSumColumns / kPieceColumns * kWarpScales : 0);
  static constexpr int kOtherScales = kByGroups ? 0 : kFusedWarps * kWarpScales;
  /// Two blocks on a multiprocessor of 9.0, 10.0 and 10.3, one on smaller ones (8.0's too where a format needs most of
  /// this); of warpgroups one.
  static constexpr int kMostShared = (kByGroups ? 224 : 98) << 10;
  static constexpr int kStages =
      std::min(kByGroups ? 6 : 4, (kMostShared - kOtherScales - 4 * P::Table::kWords) / (kTeams * kStage));
  static constexpr int kScalesAt = kTeams * kStages * kStage;
  /// Of all warps, in the place of all of it in the end.
  static constexpr int kSums = kFusedWarps * kSumSets * kTiles * 4 * 32 * 4;
  static constexpr int kBytes = std::max(kScalesAt + kOtherScales, kSums);
  static_assert(kStages >= 2 && kSlot >= P::kRowBytes + 15 && kSlot % 16 == 0);
  static_assert(kScales % 32 == 0 && kWarpScales % 16 == 0);
  static_assert(kChunks <= 32 && kChunks * 16 <= kSlot && kStage % 16 == 0);
};

/// Launches the kernel of a format of the engine, and of the width among kTiles that so many tokens take: by what
/// launch(f, tiles) answers, given those as types.
template <Engine engine, Cores kCores, int... kTiles, class Launch>
nibble_status launch_of_width(nibble_format format, int tokens, Launch&& launch) {
  nibble_status status = NIBBLE_UNSUPPORTED;
  const auto go = [&](auto f, auto tiles) {
    if (grad_tiles(tokens, kCores) == decltype(tiles)::value) status = launch(f, tiles);
  };
  visit_format(format, [&](auto f) {
    if constexpr (decltype(f)::kEngine == engine) (go(f, std::integral_constant<int, kTiles>{}), ...);
  });
  return status;
}

/// A block's part of the work: a tile of columns, or half of one, in a share of the rows.
template <class S>
struct FusedPart {
  static constexpr int kParts = kFusedColumns / S::kSumColumns;
  std::int64_t tile, split, first_row;
  int first_column;  ///< of the tile
  int rows, columns;
  const std::uint8_t* source;  ///< its first row's bytes of these columns
  int shift, shift_step;       ///< of source from a multiple of 16, and from one row to the next

  __device__ FusedPart(const FusedWork& w, std::int64_t block)
      : tile(w.first_tile + block / kParts % w.tiles),
        split(block / kParts / w.tiles),
        first_row(split * w.rows_per_split),
        first_column(static_cast<int>(block % kParts) * S::kSumColumns) {
    // Hidden from the optimizer: knowing that this is 128 or 0, nvcc 13.0 loses a division in IQ2_XS's and IQ2_S's
    // scales.
    asm("" : "+r"(first_column));
    rows = static_cast<int>(min(w.rows_per_split, w.rows - first_row));
    columns = static_cast<int>(min(static_cast<std::int64_t>(kFusedColumns), w.columns - tile * kFusedColumns));
    source = w.weight + first_row * w.row_stride + tile * S::P::kRowBytes;
    shift = w.aligned ? static_cast<int>(reinterpret_cast<std::uintptr_t>(source) & 15u) : 0;
    shift_step = w.aligned ? static_cast<int>(w.row_stride & 15) : 0;
  }
  [[nodiscard]] __device__ int first_piece() const {
    return static_cast<int>(static_cast<unsigned>(first_column) / kPieceColumns);
  }
  /// Rows whose chunks may all be read.
  [[nodiscard]] __device__ int plain_rows(const FusedWork& w) const {
    const std::int64_t readable = (w.weight_end - source - S::kChunks * 16) / max(w.row_stride, std::int64_t{1}) + 1;
    return w.aligned ? static_cast<int>(min(static_cast<std::int64_t>(rows), max(readable, std::int64_t{0}))) : 0;
  }
  [[nodiscard]] __device__ const std::uint8_t* grads(const FusedWork& w) const {
    return w.grads + (first_row / kUnitRows * S::kTokenTiles) * S::kGradTile;
  }
};

/// The rows of a stage in shared memory.
template <class S>
struct StageRows {
  const std::uint8_t* stage;
  int shift, shift_step;
  __device__ StageRows(const std::uint8_t* at, const FusedPart<S>& part)
      : stage(at), shift(part.shift), shift_step(part.shift_step) {}
  [[nodiscard]] __device__ const std::uint8_t* operator()(int row) const {
    // Rows 16 apart, and so those of all stages, have the same shift.
    const int by = S::P::kBlockBytes % 16 == 0 ? 0 : (shift + row * shift_step) & 15;
    return stage + row * S::kSlot + by;
  }
};

/// The chunk, aligned to 16 bytes, in which a byte of a row lies.
template <class S>
__device__ inline const std::uint8_t* chunk_of(const std::uint8_t* byte) {
  return byte - (S::P::kBlockBytes % 16 == 0 ? 0 : reinterpret_cast<std::uintptr_t>(byte) & 15u);
}

/// A chunk of a row near the weight's end: zeros behind the last row, and nothing is read behind the weight. `at`
/// counts bytes. What is not a whole chunk of the weight is stored at once, the rest copied like all others.
template <class S>
__device__ inline void copy_last_chunk(const FusedWork& w, const FusedPart<S>& part, int row, int at,
                                       std::uint8_t* to) {
  const std::uint8_t* from = chunk_of<S>(part.source + row * w.row_stride + at);
  const std::int64_t left = row < part.rows ? w.weight_end - from : 0;
  if (left >= 16) {
    copy_async(to, from);
    return;
  }
  *reinterpret_cast<uint4*>(to) = make_uint4(0, 0, 0, 0);
  for (int i = 0; i < left; ++i) to[i] = from[i];
}

}  // namespace nibble::cuda

#endif
