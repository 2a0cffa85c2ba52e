// The fused out_prod: packed weights go from memory to the tensor cores' registers, and nothing is expanded in between.
// Apart from the row-block path because it reads the weight once for up to 64 tokens and needs no decoded block.
//
// A block takes 256 columns of the weight and a share of its rows, and sums up over them [columns, tokens]; a later
// kernel adds the shares. Its warps work in teams of one for 8 tokens, of two for 16, ...: a team takes every so
// many-th stage of the rows, which copies bring to a ring of its own, and a warp a part of the columns.
//
// The tensor cores multiply halves, which have TF32's 11 bits, in one of three forms:
//   folded, for few tokens and formats with a scale alone: units, exact, by gradient * scale, rounded once
//   two_level, for few tokens and formats of integers that multiply a row's scale and min: codes times integers, exact,
//     by gradient * scale, and integers by gradient * min, each the sum of two halves
//   values, rounded, by gradients, rounded: what more tokens share need not be made for each of them
// Halves have little range. So the gradient comes multiplied by a power of two a token, and a warp multiplies scales
// and mins by one that it lowers, with its sums, when larger ones come. What is 2^-28 of the largest (in the form of
// values, where the gradient itself is rounded: 2^-23) or less loses bits.
//
// Where warpgroups multiply, for more tokens, they do so in the form of values; a warp makes its part of the next
// product while the last one runs.
#ifndef NIBBLE_BACKENDS_CUDA_FUSED_H
#define NIBBLE_BACKENDS_CUDA_FUSED_H

#include "backends/cuda/fused_out_prod.h"
#include "backends/cuda/mma.h"
#include "backends/cuda/panels.h"
#include "backends/cuda/wgmma.h"

#include <algorithm>

namespace nibble::cuda {

inline constexpr int kFusedThreads = 256;
inline constexpr int kFusedWarps = kFusedThreads / 32;
/// Shared memory of a block: two of them on a multiprocessor of 8.0, 9.0, 10.0 and 10.3, one on smaller ones. Of more
/// than 8 tiles' sums a multiprocessor has registers for one block.
constexpr int fused_shared(int tiles) { return (tiles > 8 ? 220 : 98) << 10; }
/// A new power of two leaves room for scales that are 2^kScaleRoom times as large.
inline constexpr int kScaleRoom = 3;

/// Sizes of a block's work, and where everything lies in its shared memory, in bytes: each team's ring of stages, rows
/// and then gradients, and behind the rings each warp's scales and mins of a stage.
template <class F, int kTiles, Cores kCores>
struct FusedShape {
  using P = Panel<F>;
  static constexpr bool kByGroups = kCores == Cores::warpgroup;
  static constexpr FusedForm kForm = fused_form<F>(kTiles, kCores);
  static constexpr bool kHasIntegers = P::kHasMin && requires { F::kScaleBits; };
  /// What multiplies a scale or, without the code, a min in values has less than so many bits.
  static constexpr int kCodeBits = [] {
    if constexpr (P::kHasMin) return P::kBits;
    return 7;
  }();
  static constexpr int kIntegerBits = [] {
    if constexpr (kHasIntegers) return F::kScaleBits;
    return 0;
  }();
  /// Scales times their warp's power of two are less than 2^this, so that no half overflows.
  static constexpr int kScaleExponent =
      kForm != FusedForm::values ? 14 - kGradExponent : (P::kHasMin ? 14 : 15) - kCodeBits - kIntegerBits;
  static constexpr int kTeam = std::min(kTiles, kFusedWarps), kTeams = kFusedWarps / kTeam;
  static constexpr int kPieces = kFusedColumns / kPieceColumns / kTeam;  ///< of a warp
  static constexpr int kRuns = kPieces * P::kSets;                       ///< of a warp, that is scales a row
  static constexpr int kUnits = std::clamp(kTiles / 2, 1, 4);            ///< of a stage
  static constexpr int kStageRows = kUnits * kUnitRows;
  static constexpr int kScales = kUnits * kRuns * kUnitRows;  ///< of a warp in a stage

  /// A row's bytes, from any place in 16 bytes on; 32 bytes past a multiple of 64, so that 4 rows meet different banks.
  static constexpr int kSlot = (P::kRowBytes + 15 + 31) / 64 * 64 + 32;
  static constexpr int kRaw = kStageRows * kSlot;
  static constexpr int kGradTile = grad_tile_bytes(kForm);
  static constexpr int kGrads = kUnits * kTiles * kGradTile;
  static constexpr int kStage = kRaw + kGrads;
  static constexpr int kWarpScales = kForm == FusedForm::two_level ? kScales * 4 + kStageRows * 8
                                     : kForm == FusedForm::folded  ? kScales * 4
                                     : kHasIntegers                ? kScales * 6 + kStageRows * 2
                                     : P::kHasMin                  ? kScales * 4
                                                                   : kScales * 2;
  static constexpr int kStages =
      std::min(4, (fused_shared(kTiles) - kFusedWarps * kWarpScales - 4 * P::kTable) / (kTeams * kStage));
  /// That are fetched before they are needed. A warpgroup may still read the one before the one in hand.
  static constexpr int kAhead = kStages - (kByGroups ? 2 : 1);
  static constexpr int kScalesAt = kTeams * kStages * kStage;
  static constexpr int kSums = kFusedWarps * kTiles * kPieces * 8 * 32 * 4;  ///< take the place of all of it in the end
  static constexpr int kBytes = std::max(kScalesAt + kFusedWarps * kWarpScales, kSums);
  static_assert(kAhead >= 1 && kSlot >= P::kRowBytes + 15 && kSlot % 16 == 0 && kScales % 32 == 0);
};

/// One block's work, as one of its threads does it.
template <class F, int kTiles, Cores kCores>
class Fused {
  using P = Panel<F>;
  using S = FusedShape<F, kTiles, kCores>;
  static constexpr int kSets = P::kSets;
  static constexpr float kMostScale = static_cast<float>(1 << S::kScaleExponent);
  static constexpr int kChunks = (P::kRowBytes + (P::kBlockBytes % 16 == 0 ? 0 : 15) + 15) / 16;
  static constexpr int kChunkLanes = kChunks <= 16 ? 16 : 32;
  static constexpr int kTeamThreads = S::kTeam * 32;
  static constexpr int kPassRows = kTeamThreads / kChunkLanes;
  static_assert(kChunks <= 32 && S::kStageRows % kPassRows == 0);

 public:
  __device__ Fused(const FusedWork& w, std::uint8_t* shared, const std::uint32_t* table, float unit_power)
      : w_(w),
        shared_(shared),
        table_(table),
        unit_power_(unit_power),
        tile_(w.first_tile + blockIdx.x % w.tiles),
        split_(blockIdx.x / w.tiles),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        team_(warp_ / S::kTeam),
        member_(warp_ % S::kTeam),
        first_row_(split_ * w.rows_per_split) {
    rows_ = static_cast<int>(min(w.rows_per_split, w.rows - first_row_));
    columns_ = static_cast<int>(min(static_cast<std::int64_t>(kFusedColumns), w.columns - tile_ * kFusedColumns));
    source_ = w.weight + first_row_ * w.row_stride + tile_ * P::kRowBytes;
    const int thread = member_ * 32 + lane_;
    fetched_ = source_ + (team_ * S::kStageRows + thread / kChunkLanes) * w.row_stride + thread % kChunkLanes * 16;
    fetched_grads_ = w.grads + (first_row_ / kUnitRows * kTiles) * S::kGradTile + team_ * S::kGrads + thread * 16;
    // A stage is plain where all its rows, and their chunks, are inside.
    const std::int64_t readable = (w.weight_end - source_ - kChunks * 16) / max(w.row_stride, std::int64_t{1}) + 1;
    const int plain_rows = static_cast<int>(min(static_cast<std::int64_t>(rows_), max(readable, std::int64_t{0})));
    const int plain = plain_rows / S::kStageRows;  // of all teams
    plain_stages_ = w.aligned ? (plain - team_ + S::kTeams - 1) / S::kTeams : 0;
    shift_ = w.aligned ? static_cast<int>(reinterpret_cast<std::uintptr_t>(source_) & 15u) : 0;
    shift_step_ = w.aligned ? static_cast<int>(w.row_stride & 15) : 0;
  }

  __device__ void run() {
    const int all = (rows_ + S::kStageRows - 1) / S::kStageRows;
    const int stages = (all - team_ + S::kTeams - 1) / S::kTeams;
#pragma unroll 1
    for (int n = -S::kAhead; n < stages; ++n) {  // the first rounds only fetch
      wait_for_copies<S::kAhead - 1>();
      if constexpr (S::kByGroups) show_to_products();
      wait_for_team<S::kTeam>(team_);
      fetch(n + S::kAhead);
      if (n < 0) continue;
      make_scales(n);
      __syncwarp();
      multiply(n);
    }
    if constexpr (S::kByGroups) wait_for_products<0>();
    wait_for_copies<0>();
    __syncthreads();
    leave_sums();
    __syncthreads();
    store();
  }

 private:
  // ---- a team's stages

  [[nodiscard]] __device__ int first_row(int n) const { return (team_ + n * S::kTeams) * S::kStageRows; }
  [[nodiscard]] __device__ std::uint8_t* stage_at(int n) const {
    return shared_ + (team_ * S::kStages + n % S::kStages) * S::kStage;
  }
  /// Bytes from a multiple of 16 to a row's first.
  [[nodiscard]] __device__ int shift_of(int row) const {
    if constexpr (P::kBlockBytes % 16 == 0) return 0;
    return (shift_ + row * shift_step_) & 15;
  }
  [[nodiscard]] __device__ const std::uint8_t* row_at(int n, int row) const {
    return stage_at(n) + row * S::kSlot + shift_of(row);  // rows 16 apart have the same shift
  }

  /// Starts the copies of a stage. Stages are fetched in order.
  __device__ void fetch(int n) {
    const int first = first_row(n);
    if (first < rows_) {
      std::uint8_t* stage = stage_at(n);
      fetch_grads(stage);
      if (n < plain_stages_) {
        fetch_rows(stage);
      } else {
        fetch_last_rows(stage, first);
      }
    }
    fetched_ += S::kTeams * S::kStageRows * w_.row_stride;
    fetched_grads_ += S::kTeams * S::kGrads;
    end_copy_group();
  }

  /// All rows are there, in memory that may be read to a multiple of 16 bytes.
  __device__ void fetch_rows(std::uint8_t* stage) const {
    const int thread = member_ * 32 + lane_, at = thread % kChunkLanes * 16;
    if (kChunks != kChunkLanes && at >= kChunks * 16) return;
    const std::uint8_t* from = fetched_;
    stage += thread / kChunkLanes * S::kSlot + at;
#pragma unroll
    for (int r = 0; r < S::kStageRows; r += kPassRows) {
      copy_async(stage + r * S::kSlot,
                 from - (P::kBlockBytes % 16 == 0 ? 0 : reinterpret_cast<std::uintptr_t>(from) & 15u));
      from += kPassRows * w_.row_stride;
    }
  }

  /// Any rows: zeros behind the last one, and nothing is read behind the weight.
  __device__ void fetch_last_rows(std::uint8_t* stage, int first) const {
    if (w_.aligned) {
      fetch_last_chunks(stage, first);
    } else {
      fetch_bytes(stage, first);
    }
  }

  /// The chunks of fetch_rows, cut where the weight ends: their zeros are the bytes of values that are not there.
  __device__ void fetch_last_chunks(std::uint8_t* stage, int first) const {
    const int thread = member_ * 32 + lane_, at = thread % kChunkLanes * 16;
    if (kChunks != kChunkLanes && at >= kChunks * 16) return;
#pragma unroll 1
    for (int row = thread / kChunkLanes; row < S::kStageRows; row += kPassRows) {
      const std::uint8_t* from = source_ + (first + row) * w_.row_stride + at;
      from -= P::kBlockBytes % 16 == 0 ? 0 : reinterpret_cast<std::uintptr_t>(from) & 15u;
      const std::int64_t left = first + row < rows_ ? w_.weight_end - from : 0;
      const int bytes = static_cast<int>(min(max(left, std::int64_t{0}), std::int64_t{16}));
      copy_async(stage + row * S::kSlot + at, bytes != 0 ? from : w_.weight, bytes);
    }
  }

  __device__ void fetch_bytes(std::uint8_t* stage, int first) const {
    const int thread = member_ * 32 + lane_;
#pragma unroll 1
    for (int i = thread; i < S::kStageRows * P::kRowBytes; i += kTeamThreads) {
      const int row = i / P::kRowBytes, at = i % P::kRowBytes;
      const std::uint8_t* from = source_ + (first + row) * w_.row_stride + at;
      stage[row * S::kSlot + at] = first + row < rows_ && from < w_.weight_end ? *from : 0;
    }
  }

  __device__ void fetch_grads(std::uint8_t* stage) const {
    const int at = (member_ * 32 + lane_) * 16;
#pragma unroll
    for (int i = 0; i < S::kGrads; i += kTeamThreads * 16) {
      if (S::kGrads % (kTeamThreads * 16) == 0 || i + at < S::kGrads) {
        copy_async(stage + S::kRaw + i + at, fetched_grads_ + i);
      }
    }
  }

  // ---- a warp's scales

  // In the order of units, runs and then rows, those of rows c, c + 4, c + 8, c + 12 together. All are halves, but for
  // scales that the gradient is multiplied by:
  //   folded: scales
  //   two_level: integers of scales, integers of mins; a row's scales, a row's mins
  //   values: scales; scales, mins; or integers, mins, what those lost in rounding, and a row's scales

  [[nodiscard]] __device__ std::uint8_t* scales() const { return shared_ + S::kScalesAt + warp_ * S::kWarpScales; }
  [[nodiscard]] __device__ std::uint16_t* half_scales(int array) const {
    return reinterpret_cast<std::uint16_t*>(scales()) + array * S::kScales;
  }
  /// Four of them: of a lane's rows in a set of a piece.
  [[nodiscard]] __device__ uint2 four_halves(int array, int unit, int piece, int set) const {
    return reinterpret_cast<const uint2*>(half_scales(array))[four_scales(unit, piece, set)];
  }
  [[nodiscard]] __device__ float* row_scales() const { return reinterpret_cast<float*>(half_scales(2)); }
  __device__ static std::uint16_t to_half(float x) { return static_cast<std::uint16_t>(to_halves(x, 0.0f)); }

  /// A lane makes those of kEach neighbouring runs, of every so many-th row.
  static constexpr int kLaneRows = std::max(1, S::kStageRows / 32);
  static constexpr int kEach = S::kScales / 32 / kLaneRows;
  [[nodiscard]] __device__ int scale_row(int i) const { return lane_ % std::min(S::kStageRows, 32) + 32 * i; }
  [[nodiscard]] __device__ int first_run() const { return lane_ / std::min(S::kStageRows, 32) * kEach; }
  __device__ static int place_in_unit(int row) { return row % 4 * 4 + row % kUnitRows / 4; }
  __device__ static int row_scale_at(int row) { return row / kUnitRows * kUnitRows + place_in_unit(row); }
  __device__ static int scale_at(int row, int run) {
    return (row / kUnitRows * S::kRuns + run) * kUnitRows + place_in_unit(row);
  }

  __device__ void make_scales(int n) {
    if constexpr (S::kForm == FusedForm::two_level) {
      make_row_scales(n);
    } else if constexpr (S::kHasIntegers) {
      make_integers(n);
    } else {
      make_run_scales(n);
    }
  }

  __device__ void make_run_scales(int n) {
    const int tile_run = member_ * S::kRuns + first_run();
    Scale made[kLaneRows * kEach];
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) {
      const std::int64_t weight_row = first_row_ + min(first_row(n) + scale_row(r), rows_ - 1);
      const typename P::Header header(w_, row_at(n, scale_row(r)), weight_row, tile_);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        Scale& s = made[r * kEach + i];
        s = header.scale(tile_run, i);
        if ((tile_run + i) * (kPieceColumns / kSets) >= columns_) s = {};
      }
    }
    make_room(made);
#pragma unroll
    for (int i = 0; i < kLaneRows * kEach; ++i) {
      const int at = scale_at(scale_row(i / kEach), first_run() + i % kEach);
      const float scale = made[i].scale * power_;
      if constexpr (S::kForm == FusedForm::folded) {
        reinterpret_cast<float*>(scales())[at] = scale;
      } else {
        half_scales(0)[at] = to_half(scale);
        if constexpr (P::kHasMin) half_scales(1)[at] = to_half(made[i].min * power_);
      }
    }
  }

  __device__ void make_row_scales(int n) {
    static_assert(S::kForm != FusedForm::two_level || kLaneRows == 1);
    const std::uint8_t* row = row_at(n, scale_row(0));
    const Scale made[1] = {typename P::Header(w_, row, 0, tile_).row_scale()};
    const typename P::Integers integers(row);
    make_room(made);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = scale_at(scale_row(0), first_run() + i);
      half_scales(0)[at] = integers.scale(member_ * S::kRuns + first_run(), i);
      half_scales(1)[at] = integers.min(member_ * S::kRuns + first_run(), i);
    }
    if (first_run() == 0) {
      const int at = row_scale_at(scale_row(0));
      row_scales()[at] = made[0].scale * power_;
      row_scales()[S::kStageRows + at] = made[0].min * power_;
    }
  }

  __device__ void make_integers(int n) {
    Scale made[kLaneRows];
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) made[r] = typename P::Header(w_, row_at(n, scale_row(r)), 0, tile_).row_scale();
    make_room(made);
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) {
      const typename P::Integers integers(row_at(n, scale_row(r)));
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int at = scale_at(scale_row(r), first_run() + i), tile_run = member_ * S::kRuns + first_run();
        const float min = -(made[r].min * power_) * low_half(integers.min(tile_run, i));
        const std::uint16_t rounded = to_half(min);
        half_scales(0)[at] = integers.scale(tile_run, i);
        half_scales(1)[at] = rounded;
        half_scales(2)[at] = to_half(min - low_half(rounded));
      }
      if (first_run() == 0) half_scales(3)[row_scale_at(scale_row(r))] = to_half(made[r].scale * power_);
    }
  }

  /// The same for all lanes' scales and mins.
  template <int kCount>
  __device__ void make_room(const Scale (&made)[kCount]) {
    // In the form of values a min need not be smaller than what scales are multiplied by.
    constexpr float kMinPart = 1.0f / static_cast<float>(S::kForm == FusedForm::values ? 1 << S::kCodeBits : 1);
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      largest = fmaxf(fmaxf(largest, fabsf(made[i].scale)), fabsf(made[i].min) * kMinPart);
    if (largest * power_ >= kMostScale) {  // also where one is not finite: those count for nothing
      largest = 0.0f;
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        largest = larger_finite(larger_finite(largest, made[i].scale), made[i].min * kMinPart);
    }
    make_room(largest_of_warp(largest));
  }

  /// Lowers the warp's power of two, with its sums, where a scale would be too large.
  __device__ void make_room(float largest) {
    if (largest * power_ < kMostScale) return;
    const float power = power_to_reach<S::kScaleExponent - 1 - kScaleRoom>(largest);
    const float lowered = power * reciprocal_of_power(power_);
    power_ = power;
    if constexpr (S::kByGroups) wait_for_products<0>();
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int m = 0; m < 2 * S::kPieces; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums_[t][m][i] *= lowered;
      }
      if constexpr (S::kForm == FusedForm::two_level) {
#pragma unroll
        for (int i = 0; i < 4; ++i) min_sums_[t][i] *= lowered;
      }
    }
  }

  // ---- products

  __device__ void multiply(int n) {
#pragma unroll
    for (int unit = 0; unit < S::kUnits; ++unit) {
      const std::uint8_t* unit_grads = stage_at(n) + S::kRaw + unit * kTiles * S::kGradTile;
      const std::uint8_t* grads = unit_grads + lane_ * (S::kGradTile / 32);
      if constexpr (S::kByGroups) {
        multiply_by_groups(n, unit, unit_grads);
      } else if constexpr (S::kForm == FusedForm::folded) {
#pragma unroll
        for (int piece = 0; piece < S::kPieces; ++piece) multiply_units(n, unit, piece, grads);
      } else if constexpr (S::kForm == FusedForm::two_level) {
        multiply_levels(n, unit, grads);
      } else {
        multiply_values(n, unit, grads);
      }
    }
  }

  /// Where the 4 scales of a lane's rows in a set of a piece are, counted in fours.
  [[nodiscard]] __device__ int four_scales(int unit, int piece, int set) const {
    return (unit * S::kRuns + piece * kSets + set) * 4 + lane_ % 4;
  }
  [[nodiscard]] __device__ P panel(int piece) const {
    return P((member_ * S::kPieces + piece) * kPieceColumns, lane_ / 4);
  }
  /// Units of rows c and c + 4, and of rows c + 8 and c + 12.
  __device__ void load_units(int n, int unit, int piece, std::uint32_t (&near)[4], std::uint32_t (&far)[4]) const {
    const int row = unit * kUnitRows + lane_ % 4;
    panel(piece).pairs(row_at(n, row), row_at(n, row + 4), table_, near);
    panel(piece).pairs(row_at(n, row + 8), row_at(n, row + 12), table_, far);
  }

  __device__ void multiply_units(int n, int unit, int piece, const std::uint8_t* grads) {
    std::uint32_t near[4], far[4];
    load_units(n, unit, piece, near, far);
    float4 scale[kSets];
#pragma unroll
    for (int s = 0; s < kSets; ++s) scale[s] = reinterpret_cast<const float4*>(scales())[four_scales(unit, piece, s)];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const float4 grad = *reinterpret_cast<const float4*>(grads + t * S::kGradTile);
      uint2 factor[kSets];
#pragma unroll
      for (int s = 0; s < kSets; ++s) {
        factor[s] = {to_halves(grad.x * scale[s].x, grad.y * scale[s].y),
                     to_halves(grad.z * scale[s].z, grad.w * scale[s].w)};
      }
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const uint2 b = factor[kSets == 1 ? 0 : m];
        multiply_halves(sums_[t][2 * piece + m], near[2 * m], near[2 * m + 1], far[2 * m], far[2 * m + 1], b.x, b.y);
      }
    }
  }

  /// The factors of 16 rows for 8 tokens: each as the sum of two halves.
  struct TwoHalves {
    uint2 high, low;
    TwoHalves() = default;
    __device__ TwoHalves(const float4& grad, const float4& scale) {
      const float x = grad.x * scale.x, y = grad.y * scale.y, z = grad.z * scale.z, w = grad.w * scale.w;
      high = {to_halves(x, y), to_halves(z, w)};
      low = {to_halves(x - low_half(high.x), y - high_half(high.x)),
             to_halves(z - low_half(high.y), w - high_half(high.y))};
    }
  };
  __device__ static void multiply_both(float (&sums)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                       std::uint32_t a3, const TwoHalves& b) {
    multiply_halves(sums, a0, a1, a2, a3, b.high.x, b.high.y);
    multiply_halves(sums, a0, a1, a2, a3, b.low.x, b.low.y);
  }

  /// A min counts for all columns of its run, so runs take the place of columns: [runs, 16 rows].
  __device__ void multiply_levels(int n, int unit, const std::uint8_t* grads) {
    const auto* rows = reinterpret_cast<const float4*>(row_scales()) + unit * 4 + lane_ % 4;
    const auto* mins = reinterpret_cast<const uint2*>(half_scales(1)) + unit * S::kRuns * 4 + lane_;
    const uint2 none{0, 0};
    const uint2 near_runs = lane_ / 4 < S::kRuns ? mins[0] : none, far_runs = S::kRuns > 8 ? mins[32] : none;
    TwoHalves factor[kTiles];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const float4 grad = *reinterpret_cast<const float4*>(grads + t * S::kGradTile);
      multiply_both(min_sums_[t], near_runs.x, far_runs.x, near_runs.y, far_runs.y, {grad, rows[S::kStageRows / 4]});
      factor[t] = TwoHalves(grad, rows[0]);
    }
    for_each_times(n, unit, [&](int piece, const auto& near, const auto& far) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          multiply_both(sums_[t][2 * piece + m], near[2 * m], near[2 * m + 1], far[2 * m], far[2 * m + 1], factor[t]);
        }
      }
    });
  }

  /// Calls use(piece, near, far) with codes times their runs' integers.
  template <class Use>
  __device__ void for_each_times(int n, int unit, Use&& use) const {
    const int row = unit * kUnitRows + lane_ % 4;
    const std::uint8_t *row0 = row_at(n, row), *row4 = row_at(n, row + 4), *row8 = row_at(n, row + 8),
                       *row12 = row_at(n, row + 12);
    constexpr bool kShared = P::kShared && S::kPieces > 1;
#pragma unroll
    for (int piece = 0; piece < S::kPieces; piece += kShared ? 2 : 1) {
      if constexpr (kShared) {
        const uint2 even = four_halves(0, unit, piece, 0), odd = four_halves(0, unit, piece + 1, 0);
        std::uint32_t near[2][4], far[2][4];
        panel(piece).times_shared(row0, row4, even.x, odd.x, near[0], near[1]);
        panel(piece).times_shared(row8, row12, even.y, odd.y, far[0], far[1]);
        use(piece, near[0], far[0]);
        use(piece + 1, near[1], far[1]);
      } else {
        std::uint32_t near[4], far[4], near_by[kSets], far_by[kSets];
#pragma unroll
        for (int s = 0; s < kSets; ++s) {
          const uint2 by = four_halves(0, unit, piece, s);
          near_by[s] = by.x, far_by[s] = by.y;
        }
        panel(piece).times(row0, row4, near_by, near);
        panel(piece).times(row8, row12, far_by, far);
        use(piece, near, far);
      }
    }
  }

  /// Calls use(piece, near, far) with values, as halves by the warp's power of two.
  template <class Use>
  __device__ void for_each_values(int n, int unit, Use&& use) const {
    if constexpr (S::kHasIntegers) {
      const uint2 scale = reinterpret_cast<const uint2*>(half_scales(3))[unit * 4 + lane_ % 4];
      for_each_times(n, unit, [&](int piece, auto& near, auto& far) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          // The first sum is rounded where it is nearly the value already, however much the two cancel.
          const int set = kSets == 1 ? 0 : i / 2;
          const uint2 min = four_halves(1, unit, piece, set), lost = four_halves(2, unit, piece, set);
          near[i] = add_halves(multiply_add_pair(near[i], scale.x, min.x), lost.x);
          far[i] = add_halves(multiply_add_pair(far[i], scale.y, min.y), lost.y);
        }
        use(piece, near, far);
      });
    } else {
#pragma unroll
      for (int piece = 0; piece < S::kPieces; ++piece) {
        std::uint32_t near[4], far[4];
        load_units(n, unit, piece, near, far);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int set = kSets == 1 ? 0 : i / 2;
          const uint2 scale = four_halves(0, unit, piece, set);
          if constexpr (P::kHasMin) {
            const uint2 min = four_halves(1, unit, piece, set);
            near[i] = multiply_add_pair(near[i], scale.x, min.x);
            far[i] = multiply_add_pair(far[i], scale.y, min.y);
          } else {
            near[i] = multiply_pair(near[i], scale.x);
            far[i] = multiply_pair(far[i], scale.y);
          }
        }
        use(piece, near, far);
      }
    }
  }

  __device__ void multiply_values(int n, int unit, const std::uint8_t* grads) {
    for_each_values(n, unit, [&](int piece, const auto& near, const auto& far) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const uint2 b = *reinterpret_cast<const uint2*>(grads + t * S::kGradTile);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          multiply_halves(sums_[t][2 * piece + m], near[2 * m], near[2 * m + 1], far[2 * m], far[2 * m + 1], b.x, b.y);
        }
      }
    });
  }

  /// The same while the products of the unit before are under way.
  __device__ void multiply_by_groups(int n, int unit, const std::uint8_t* grads) {
    wait_for_products<1>();  // two units ago these registers were read
    auto& values = values_[unit % 2];
    for_each_values(n, unit, [&](int piece, const auto& near, const auto& far) {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        values[2 * piece + m][0] = near[2 * m], values[2 * piece + m][1] = near[2 * m + 1];
        values[2 * piece + m][2] = far[2 * m], values[2 * piece + m][3] = far[2 * m + 1];
      }
    });
    begin_products();
    const std::uint64_t operand = operand_at(grads);
#pragma unroll
    for (int m = 0; m < 2 * S::kPieces; ++m) multiply_group(sums_, m, values[m], operand);
    end_products();
  }

  // ---- sums

  /// A lane has columns i of its 4 in each piece, 2m and 2m + 1 in sums m, for tokens 2c and 2c + 1 of each tile.
  [[nodiscard]] __device__ static int sum_at(int warp, int tile, int piece, int m, int i, int lane) {
    return ((((warp * kTiles + tile) * S::kPieces + piece) * 2 + m) * 4 + i) * 32 + lane;
  }

  /// Each warp's sums to shared memory, without their powers of two.
  __device__ void leave_sums() {
    auto* to = reinterpret_cast<float*>(shared_);
    const float unit = reciprocal_of_power(power_) / static_cast<float>(1 << kGradExponent) / unit_power_;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int m = 0; m < 2 * S::kPieces; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float sum = sums_[t][m][i];
          if constexpr (S::kForm == FusedForm::two_level) {
            const int run = kSets == 1 ? m / 2 : m;
            sum -= __shfl_sync(0xffffffffu, min_sums_[t][run / 8 * 2 + i % 2], run % 8 * 4 + lane_ % 4);
          }
          to[sum_at(warp_, t, m / 2, m % 2, i, lane_)] = sum * unit;
        }
      }
    }
  }

  /// The teams' sums, in their order; a thread has a column.
  __device__ void store() const {
    const int column = static_cast<int>(threadIdx.x), piece = column / kPieceColumns;
    if (column >= columns_) return;
    int g = 0, i = 0;
    find_column<kPieceColumns / kSets>(column % kPieceColumns, &g, &i);
    const auto* from = reinterpret_cast<const float*>(shared_);
    float* part = w_.parts + split_ * w_.part_stride + (tile_ - w_.first_tile) * kFusedColumns + column;
    for (int token = 0; token < w_.tokens; ++token) {
      float sum = 0.0f;
#pragma unroll
      for (int team = 0; team < S::kTeams; ++team) {
        sum += from[sum_at(team * S::kTeam + piece / S::kPieces, token / 8, piece % S::kPieces, i / 2,
                           i % 2 * 2 + token % 2, g * 4 + token % 8 / 2)];
      }
      part[token * w_.part_token_stride] = sum * w_.grad_powers[token];
    }
  }

  const FusedWork& w_;
  std::uint8_t* shared_;
  const std::uint32_t* table_;
  float unit_power_;
  std::int64_t tile_, split_;
  int lane_, warp_, team_, member_;
  std::int64_t first_row_;                        ///< of this block's share
  int rows_, columns_;                            ///< of it
  const std::uint8_t* source_;                    ///< its first row's bytes of these columns
  int shift_, shift_step_;                        ///< of source_, and from one row to the next
  const std::uint8_t *fetched_, *fetched_grads_;  ///< this thread's first chunks of the next stage
  int plain_stages_;                              ///< of this team; the stages behind them need care
  float power_ = 0x1p126f;                        ///< by which this warp's scales, mins and sums are too large
  float sums_[kTiles][2 * S::kPieces][4] = {};
  float min_sums_[kTiles][4] = {};              ///< of runs in the place of columns, in the form of two levels
  std::uint32_t values_[2][2 * S::kPieces][4];  ///< of this unit and the last one, where warpgroups multiply
};

template <class F, int kTiles, Cores kCores>
__global__ void __launch_bounds__(kFusedThreads, fused_blocks(kTiles))
    fused_kernel(const __grid_constant__ FusedWork work) {
#if NIBBLE_HALF_CORES
  extern __shared__ __align__(16) std::uint8_t shared[];
  __shared__ std::uint32_t table[Panel<F>::kTable];
  const float unit_power = Panel<F>::fill(work, table);
  __syncthreads();
  Fused<F, kTiles, kCores>(work, shared, table, unit_power).run();
#endif
}

template <Cores kCores, class Use>
void for_each_tiles(Use&& use) {
  const auto each = [&]<int... kTiles>(std::integer_sequence<int, kTiles...>) {
    (use(std::integral_constant<int, kTiles>{}), ...);
  };
  if constexpr (kCores == Cores::warp) {
    each(std::integer_sequence<int, 1, 2, 4, 8>{});
  } else {
    each(std::integer_sequence<int, 4, 8, 16>{});
  }
}

template <Engine engine, Cores kCores>
nibble_status launch_fused(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why) {
  nibble_status status = NIBBLE_UNSUPPORTED;
  visit_format(format, [&](auto f) {
    using F = decltype(f);
    if constexpr (F::kEngine == engine) {
      for_each_tiles<kCores>([&](auto tiles) {
        constexpr int kTiles = decltype(tiles)::value;
        if (grad_tiles(work.tokens, kCores) != kTiles) return;
        status = gpu::launch(fused_kernel<F, kTiles, kCores>,
                             {"fused out_prod", static_cast<std::uint64_t>(work.tiles * work.splits), kFusedThreads,
                              FusedShape<F, kTiles, kCores>::kBytes},
                             stream, why, work);
      });
    }
  });
  return status;
}

}  // namespace nibble::cuda

#endif
