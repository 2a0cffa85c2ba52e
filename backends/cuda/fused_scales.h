// A warp's scales and mins of a stage, made from the rows and read by the products.
// Apart from the products because one warp makes them for itself or for others.
#ifndef NIBBLE_BACKENDS_CUDA_FUSED_SCALES_H
#define NIBBLE_BACKENDS_CUDA_FUSED_SCALES_H

#include "backends/cuda/fused_shape.h"

namespace nibble::cuda {

/// In the order of units, runs and then rows, those of rows c, c + 4, c + 8, c + 12 together. All are halves, but for
/// scales that the gradient is multiplied by:
///   folded: scales
///   two_level: integers of scales, integers of mins; a row's scales, a row's mins
///   values: scales; scales, mins; or integers, mins, what those lost in rounding, and a row's scales
template <class S>
struct WarpScales {
  std::uint8_t* at;

  [[nodiscard]] __device__ std::uint16_t* halves(int array) const {
    return reinterpret_cast<std::uint16_t*>(at) + array * S::kScales;
  }
  [[nodiscard]] __device__ float* floats() const { return reinterpret_cast<float*>(at); }
  [[nodiscard]] __device__ float* row_scales() const { return reinterpret_cast<float*>(halves(2)); }
  /// Where the 4 of a lane's rows in a set of a piece are, counted in fours.
  __device__ static int four_at(int unit, int piece, int set, int lane) {
    return (unit * S::kRuns + piece * S::P::kSets + set) * 4 + lane % 4;
  }
  [[nodiscard]] __device__ uint2 four_halves(int array, int unit, int piece, int set, int lane) const {
    return reinterpret_cast<const uint2*>(halves(array))[four_at(unit, piece, set, lane)];
  }
};

/// Makes them; all lanes of a warp together.
template <class S>
class ScaleMaker {
  using P = typename S::P;
  static constexpr float kMostScale = static_cast<float>(1 << S::kScaleExponent);

 public:
  __device__ ScaleMaker(const FusedWork& w, const FusedPart<S>& part)
      : w_(w), part_(part), lane_(static_cast<int>(threadIdx.x) % 32) {}

  /// Those of member's columns, times `power`, which is lowered where a scale would be too large: by what it returns,
  /// the same for all lanes. `first` is the stage's first row in the share.
  __device__ float make(const StageRows<S>& rows, int first, int member, const WarpScales<S>& to, float& power) const {
    if constexpr (S::kForm == FusedForm::two_level) {
      return make_row_scales(rows, member, to, power);
    } else if constexpr (S::kHasIntegers) {
      return make_integers(rows, member, to, power);
    } else {
      return make_run_scales(rows, first, member, to, power);
    }
  }

 private:
  /// A lane makes those of kEach neighbouring runs, of every so many-th row.
  static constexpr int kLaneRows = std::max(1, S::kStageRows / 32);
  static constexpr int kEach = S::kScales / 32 / kLaneRows;
  [[nodiscard]] __device__ int row_of(int i) const { return lane_ % std::min(S::kStageRows, 32) + 32 * i; }
  [[nodiscard]] __device__ int first_run() const { return lane_ / std::min(S::kStageRows, 32) * kEach; }
  __device__ static int place_in_unit(int row) { return row % 4 * 4 + row % kUnitRows / 4; }
  __device__ static int row_scale_at(int row) { return row / kUnitRows * kUnitRows + place_in_unit(row); }
  __device__ static int scale_at(int row, int run) {
    return (row / kUnitRows * S::kRuns + run) * kUnitRows + place_in_unit(row);
  }
  __device__ static std::uint16_t to_half(float x) { return static_cast<std::uint16_t>(to_halves(x, 0.0f)); }

  __device__ float make_run_scales(const StageRows<S>& rows, int first, int member, const WarpScales<S>& to,
                                   float& power) const {
    const int tile_run = member * S::kRuns + first_run();
    Scale made[kLaneRows * kEach];
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) {
      const std::int64_t weight_row = part_.first_row + min(first + row_of(r), part_.rows - 1);
      const typename P::Header header(w_, rows(row_of(r)), weight_row, part_.tile);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        Scale& s = made[r * kEach + i];
        s = header.scale(tile_run, i);
        if ((tile_run + i) * (kPieceColumns / P::kSets) >= part_.columns) s = {};
      }
    }
    const float lowered = make_room(made, power);
#pragma unroll
    for (int i = 0; i < kLaneRows * kEach; ++i) {
      const int at = scale_at(row_of(i / kEach), first_run() + i % kEach);
      const float scale = made[i].scale * power;
      if constexpr (S::kForm == FusedForm::folded) {
        to.floats()[at] = scale;
      } else {
        to.halves(0)[at] = to_half(scale);
        if constexpr (P::kHasMin) to.halves(1)[at] = to_half(made[i].min * power);
      }
    }
    return lowered;
  }

  __device__ float make_row_scales(const StageRows<S>& rows, int member, const WarpScales<S>& to, float& power) const {
    static_assert(S::kForm != FusedForm::two_level || kLaneRows == 1);
    const std::uint8_t* row = rows(row_of(0));
    const Scale made[1] = {typename P::Header(w_, row, 0, part_.tile).row_scale()};
    const typename P::Integers integers(row);
    const float lowered = make_room(made, power);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = scale_at(row_of(0), first_run() + i);
      to.halves(0)[at] = integers.scale(member * S::kRuns + first_run(), i);
      to.halves(1)[at] = integers.min(member * S::kRuns + first_run(), i);
    }
    if (first_run() == 0) {
      const int at = row_scale_at(row_of(0));
      to.row_scales()[at] = made[0].scale * power;
      to.row_scales()[S::kStageRows + at] = made[0].min * power;
    }
    return lowered;
  }

  __device__ float make_integers(const StageRows<S>& rows, int member, const WarpScales<S>& to, float& power) const {
    Scale made[kLaneRows];
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) made[r] = typename P::Header(w_, rows(row_of(r)), 0, part_.tile).row_scale();
    const float lowered = make_room(made, power);
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) {
      const typename P::Integers integers(rows(row_of(r)));
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int at = scale_at(row_of(r), first_run() + i), tile_run = member * S::kRuns + first_run();
        const float min = -(made[r].min * power) * low_half(integers.min(tile_run, i));
        const std::uint16_t rounded = to_half(min);
        to.halves(0)[at] = integers.scale(tile_run, i);
        to.halves(1)[at] = rounded;
        to.halves(2)[at] = to_half(min - low_half(rounded));
      }
      if (first_run() == 0) to.halves(3)[row_scale_at(row_of(r))] = to_half(made[r].scale * power);
    }
    return lowered;
  }

  /// Lowers the power of two where one of all lanes' scales and mins would be too large.
  template <int kCount>
  __device__ static float make_room(const Scale (&made)[kCount], float& power) {
    // In the form of values a min need not be smaller than what scales are multiplied by.
    constexpr float kMinPart = 1.0f / static_cast<float>(S::kForm == FusedForm::values ? 1 << S::kCodeBits : 1);
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      largest = fmaxf(fmaxf(largest, fabsf(made[i].scale)), fabsf(made[i].min) * kMinPart);
    if (largest * power >= kMostScale) {  // also where one is not finite: those count for nothing
      largest = 0.0f;
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        largest = larger_finite(larger_finite(largest, made[i].scale), made[i].min * kMinPart);
    }
    largest = largest_of_warp(largest);
    if (largest * power < kMostScale) return 1.0f;
    const float before = power;
    power = power_to_reach<S::kScaleExponent - 1 - kScaleRoom>(largest);
    return power * reciprocal_of_power(before);
  }

  const FusedWork& w_;
  FusedPart<S> part_;
  int lane_;
};

}  // namespace nibble::cuda

#endif
