// The fused out_prod: packed weights go from memory to the tensor cores' registers, and nothing is expanded in between.
// Apart from the row-block path because it reads the weight once for up to 64 tokens and needs no decoded block.
//
// A block takes 256 columns of the weight and a share of its rows, and sums up over them [columns, tokens]; a later
// kernel adds the shares. Its warps work in teams of one for 8 tokens, of two for 16, ...: a team takes every so
// many-th stage of the rows, which copies bring to a ring of its own, and a warp a part of the columns.
//
// The tensor cores multiply halves, which have TF32's 11 bits, in one of three forms:
//   folded, for few tokens and formats with a scale alone: units, exact, by gradient * scale, rounded once
//   two_level, for few tokens and formats of integers that multiply a row's scale and min: codes times integers, exact
//     multiples of a half's smallest number, by gradient * scale, and integers by gradient * min, each the sum of two
//     halves
//   values, rounded, by gradients, rounded: what more tokens share need not be made for each of them
// Halves have little range. So the gradient comes multiplied by a power of two a token, and a warp multiplies scales
// and mins by one that it lowers, with its sums, when larger ones come. A product of gradient and scale that is 2^-24
// of the largest or less loses bits; in the form of values, where either is a half by itself, a gradient of 2^-23 and a
// scale of 2^-(kScaleExponent + 10): 2^-24 of NF4 and FP4, 2^-18 of others without mins, 2^-14 and 2^-13 of Q4_K's and
// Q5_K's row scales. An 8-bit code above 1 that takes a scale beyond f32 gives a finite value here.
#ifndef NIBBLE_BACKENDS_CUDA_FUSED_H
#define NIBBLE_BACKENDS_CUDA_FUSED_H

#include "backends/cuda/fused_scales.h"
#include "backends/cuda/fused_sums.h"
#include "backends/cuda/fused_units.h"

namespace nibble::cuda {

/// One block's work, as one of its threads does it.
template <class F, int kTiles>
class Fused {
  using S = FusedShape<F, kTiles, Cores::warp>;
  static constexpr int kChunkLanes = S::kChunks <= 16 ? 16 : 32;
  static constexpr int kTeamThreads = S::kTeam * 32;
  static constexpr int kPassRows = kTeamThreads / kChunkLanes;
  static_assert(S::kStageRows % kPassRows == 0);

 public:
  __device__ Fused(const FusedWork& w, std::uint8_t* shared, const std::uint32_t* table, float unit_power)
      : w_(w),
        part_(w, blockIdx.x),
        shared_(shared),
        unit_power_(unit_power),
        lane_(lane_of_warp()),
        warp_(warp_of_block()),
        team_(warp_ / S::kTeam),
        member_(warp_ % S::kTeam),
        maker_(w, part_),
        units_(member_, table) {
    const int thread = member_ * 32 + lane_;
    fetched_ = part_.source + (team_ * S::kStageRows + thread / kChunkLanes) * w.row_stride + thread % kChunkLanes * 16;
    fetched_grads_ = part_.grads(w) + team_ * S::kGrads + thread * 16;
    const int plain = part_.plain_rows(w) / S::kStageRows;  // of all teams
    plain_stages_ = (plain - team_ + S::kTeams - 1) / S::kTeams;
  }

  __device__ void run() {
    const int all = (part_.rows + S::kStageRows - 1) / S::kStageRows;
    const int stages = (all - team_ + S::kTeams - 1) / S::kTeams;
    maker_.load_ahead(first_row(0), member_);
#pragma unroll 1
    for (int n = 1 - S::kStages; n < stages; ++n) {  // the first rounds only fetch
      wait_for_copies<S::kStages - 2>();
      wait_for_team<S::kTeam>(team_);
      fetch(n + S::kStages - 1);
      if (n < 0) continue;
      const float lowered = maker_.make(rows(n), member_, scales(), power_);
      if (lowered != 1.0f) lower(lowered);
      maker_.load_ahead(first_row(n + 1), member_);
      __syncwarp();
#pragma unroll
      for (int unit = 0; unit < S::kUnits; ++unit) multiply(n, unit);
    }
    wait_for_copies<0>();
    __syncthreads();
    leave();
    __syncthreads();
    store_sums<S>(w_, part_, reinterpret_cast<const float*>(shared_));
  }

 private:
  // ---- a team's stages

  [[nodiscard]] __device__ int first_row(int n) const { return (team_ + n * S::kTeams) * S::kStageRows; }
  [[nodiscard]] __device__ std::uint8_t* stage_at(int n) const {
    return shared_ + (team_ * S::kStages + n % S::kStages) * S::kStage;
  }
  [[nodiscard]] __device__ StageRows<S> rows(int n) const { return {stage_at(n), part_}; }
  [[nodiscard]] __device__ WarpScales<S> scales() const { return {shared_ + S::kScalesAt + warp_ * S::kWarpScales}; }

  /// Starts the copies of a stage. Stages are fetched in order.
  __device__ void fetch(int n) {
    const int first = first_row(n);
    if (first < part_.rows) {
      std::uint8_t* stage = stage_at(n);
      fetch_grads(stage);
      if (n < plain_stages_) {
        fetch_rows(stage);
      } else if (w_.aligned) {
        fetch_last_rows(stage, first);
      } else {
        fetch_bytes(stage, first);
      }
    }
    fetched_ += S::kTeams * S::kStageRows * w_.row_stride;
    fetched_grads_ += S::kTeams * S::kGrads;
    end_copy_group();
  }

  /// All rows are there, in memory that may be read to a multiple of 16 bytes.
  __device__ void fetch_rows(std::uint8_t* stage) const {
    const int thread = member_ * 32 + lane_, at = thread % kChunkLanes * 16;
    if (S::kChunks != kChunkLanes && at >= S::kChunks * 16) return;
    const std::uint8_t* from = fetched_;
    stage += thread / kChunkLanes * S::kSlot + at;
#pragma unroll
    for (int r = 0; r < S::kStageRows; r += kPassRows) {
      copy_async(stage + r * S::kSlot, chunk_of<S>(from));
      from += kPassRows * w_.row_stride;
    }
  }
  __device__ void fetch_last_rows(std::uint8_t* stage, int first) const {
    const int thread = member_ * 32 + lane_, at = thread % kChunkLanes * 16;
    if (S::kChunks != kChunkLanes && at >= S::kChunks * 16) return;
#pragma unroll 1
    for (int row = thread / kChunkLanes; row < S::kStageRows; row += kPassRows)
      copy_last_chunk(w_, part_, first + row, at, stage + row * S::kSlot + at);
  }
  __device__ void fetch_bytes(std::uint8_t* stage, int first) const {
    const int thread = member_ * 32 + lane_;
#pragma unroll 1
    for (int i = thread; i < S::kStageRows * S::P::kRowBytes; i += kTeamThreads) {
      const int row = i / S::P::kRowBytes, at = i % S::P::kRowBytes;
      const std::uint8_t* from = part_.source + (first + row) * w_.row_stride + at;
      stage[row * S::kSlot + at] = first + row < part_.rows && from < w_.weight_end ? *from : 0;
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

  // ---- products

  __device__ void multiply(int n, int unit) {
    const std::uint8_t* grads = stage_at(n) + S::kRaw + unit * kTiles * S::kGradTile + lane_ * (S::kGradTile / 32);
    if constexpr (S::kForm == FusedForm::folded) {
#pragma unroll
      for (int piece = 0; piece < S::kPieces; ++piece) multiply_units(n, unit, piece, grads);
    } else if constexpr (S::kForm == FusedForm::two_level) {
      multiply_levels(n, unit, grads);
    } else {
      multiply_values(n, unit, grads);
    }
  }

  __device__ void multiply_units(int n, int unit, int piece, const std::uint8_t* grads) {
    std::uint32_t near[4], far[4];
    units_.load(rows(n), unit, piece, near, far);
    float4 scale[S::P::kSets];
#pragma unroll
    for (int s = 0; s < S::P::kSets; ++s)
      scale[s] = reinterpret_cast<const float4*>(scales().at)[WarpScales<S>::four_at(unit, piece, s, lane_)];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const float4 grad = *reinterpret_cast<const float4*>(grads + t * S::kGradTile);
      uint2 factor[S::P::kSets];
#pragma unroll
      for (int s = 0; s < S::P::kSets; ++s) {
        factor[s] = {to_halves(grad.x * scale[s].x, grad.y * scale[s].y),
                     to_halves(grad.z * scale[s].z, grad.w * scale[s].w)};
      }
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const uint2 b = factor[S::P::kSets == 1 ? 0 : m];
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
    const auto* row_scales = reinterpret_cast<const float4*>(scales().row_scales()) + unit * 4 + lane_ % 4;
    const auto* mins = reinterpret_cast<const uint2*>(scales().halves(1)) + unit * S::kRuns * 4 + lane_;
    const uint2 none{0, 0};
    const uint2 near_runs = lane_ / 4 < S::kRuns ? mins[0] : none, far_runs = S::kRuns > 8 ? mins[32] : none;
    TwoHalves factor[kTiles];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const float4 grad = *reinterpret_cast<const float4*>(grads + t * S::kGradTile);
      multiply_both(min_sums_[t], near_runs.x, far_runs.x, near_runs.y, far_runs.y,
                    {grad, row_scales[S::kStageRows / 4]});
      factor[t] = TwoHalves(grad, row_scales[0]);
    }
    units_.for_each_times(rows(n), scales(), unit, [&](int piece, const auto& near, const auto& far) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          multiply_both(sums_[t][2 * piece + m], near[2 * m], near[2 * m + 1], far[2 * m], far[2 * m + 1], factor[t]);
        }
      }
    });
  }

  __device__ void multiply_values(int n, int unit, const std::uint8_t* grads) {
    units_.for_each_values(rows(n), scales(), unit, [&](int piece, const auto& near, const auto& far) {
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

  // ---- sums

  __device__ void lower(float by) {
    lower_sums<S>(sums_, by);
    if constexpr (S::kForm == FusedForm::two_level) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int i = 0; i < 4; ++i) min_sums_[t][i] *= by;
      }
    }
  }

  /// Each warp's sums, without any power of two.
  __device__ void leave() {
    constexpr int kLeast = S::kForm == FusedForm::two_level ? -24 : 0;  // an integer 1 was 2^this
    const int exponent = -exponent_of(power_) - kGradExponent - exponent_of(unit_power_) - kLeast;
    leave_sums<S>(w_, sums_, exponent, reinterpret_cast<float*>(shared_), [&](int t, int m, int i) {
      if constexpr (S::kForm != FusedForm::two_level) return 0.0f;
      const int run = S::P::kSets == 1 ? m / 2 : m;
      return __shfl_sync(0xffffffffu, min_sums_[t][run / 8 * 2 + i % 2], run % 8 * 4 + lane_ % 4);
    });
  }

  const FusedWork& w_;
  const FusedPart<S> part_;
  std::uint8_t* shared_;
  float unit_power_;
  int lane_, warp_, team_, member_;
  ScaleMaker<S> maker_;
  const UnitMaker<S> units_;
  const std::uint8_t *fetched_, *fetched_grads_;  ///< this thread's first chunks of the next stage
  int plain_stages_;                              ///< of this team; the stages behind them need care
  float power_ = 0x1p126f;                        ///< by which this warp's scales, mins and sums are too large
  LaneSums<S> sums_ = {};
  float min_sums_[kTiles][4] = {};  ///< of runs in the place of columns, in the form of two levels
};

template <class F, int kTiles>
__global__ void __launch_bounds__(kFusedWarps * 32, 2) fused_kernel(const __grid_constant__ FusedWork work) {
#if NIBBLE_HALF_CORES
  extern __shared__ __align__(16) std::uint8_t shared[];
  __shared__ std::uint32_t table[Panel<F>::Table::kWords];
  const float unit_power = Panel<F>::fill(work, table);
  __syncthreads();
  Fused<F, kTiles>(work, shared, table, unit_power).run();
#else
  __trap();  // no device comes here (multiplies_halves), and none may leave sums as they were
#endif
}

template <Engine engine>
nibble_status launch_by_warps(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why) {
  return launch_of_width<engine, Cores::warp, 1, 2, 4, 8>(format, work.tokens, [&](auto f, auto tiles) {
    using F = decltype(f);
    constexpr int kTiles = decltype(tiles)::value;
    return gpu::launch(fused_kernel<F, kTiles>,
                       {"fused out_prod", static_cast<std::uint64_t>(work.tiles * work.splits), kFusedWarps * 32,
                        FusedShape<F, kTiles, Cores::warp>::kBytes},
                       stream, why, work);
  });
}

}  // namespace nibble::cuda

#endif
