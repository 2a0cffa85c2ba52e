// A warp's scales and mins of a stage, made from the rows and read by the products.
// Apart from the products because one warp makes them for itself or for others.
#ifndef NIBBLE_BACKENDS_CUDA_FUSED_SCALES_H
#define NIBBLE_BACKENDS_CUDA_FUSED_SCALES_H

#include "backends/cuda/fused_shape.h"

namespace nibble::cuda {

/// In the order of units, runs and then rows, those of rows c, c + 4, c + 8, c + 12 together. All are halves, but for
/// scales that the gradient is multiplied by:
///   folded: scales
///   two_level: integers of scales (where kInPlace, over their code's place), integers of mins times 2^-24; a row's
///   scales, a row's mins values: scales; scales, mins; or integers, mins with what those lost in rounding, and a row's
///   scales
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
  /// Mins of a lane's rows, then what those lost, which lie together.
  [[nodiscard]] __device__ uint4 mins_and_lost(int unit, int piece, int set, int lane) const {
    return reinterpret_cast<const uint4*>(halves(1))[four_at(unit, piece, set, lane)];
  }
  __device__ static int min_at(int at) { return at / 4 * 8 + at % 4; }
  __device__ static int lost_at(int at) { return min_at(at) + 4; }
};

/// Makes them; all lanes of a warp together.
template <class S>
class ScaleMaker {
  using P = typename S::P;
  static constexpr float kMostScale = static_cast<float>(1 << S::kScaleExponent);
  /// In the form of values a min need not be smaller than what scales are multiplied by.
  static constexpr float kMinPart = 1.0f / static_cast<float>(S::kForm == FusedForm::values ? 1 << S::kCodeBits : 1);

 public:
  __device__ ScaleMaker(const FusedWork& w, const FusedPart<S>& part) : w_(w), part_(part), lane_(lane_of_warp()) {}

  /// Lowers a power of two where `largest` would be too large: by what it returns.
  __device__ static float make_room(float largest, float& power) {
    if (largest * power < kMostScale) return 1.0f;
    const float before = power;
    power = power_to_reach<S::kScaleExponent - 1 - kScaleRoom>(largest);
    return power * reciprocal_of_power(before);
  }

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

  // The same in steps, for where the power of two follows from other warps'.

  /// A lane's rows of a stage.
  [[nodiscard]] __device__ auto load(const StageRows<S>& rows, int first) const {
    static_assert(kLaneRows == 2);
    if constexpr (S::kHasIntegers) {
      struct {
        Scale scales[2];
        typename P::Integers integers[2];
      } loaded = {{header_of(rows, first, 0).row_scale(), header_of(rows, first, 1).row_scale()},
                  {typename P::Integers(rows(row_of(0))), typename P::Integers(rows(row_of(1)))}};
      return loaded;
    } else {
      struct {
        typename P::Header headers[2];
      } loaded = {{header_of(rows, first, 0), header_of(rows, first, 1)}};
      return loaded;
    }
  }
  /// The largest of a member's scales and parts of mins; infinities and NaN count for nothing.
  template <class Loaded>
  [[nodiscard]] __device__ float largest(const Loaded& loaded, int member) const {
    float x = 0.0f;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if constexpr (S::kHasIntegers) {
        x = larger(x, loaded.scales[r]);
      } else {
#pragma unroll
        for (int i = 0; i < kEach; ++i) x = larger(x, scale_of(loaded.headers[r], member * S::kRuns, i));
      }
    }
    return largest_of_warp(x);
  }
  template <class Loaded>
  __device__ void write(const Loaded& loaded, int member, const WarpScales<S>& to, float power) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if constexpr (S::kHasIntegers) {
        write_integers(loaded.scales[r], loaded.integers[r], r, member, to, power);
      } else {
#pragma unroll
        for (int i = 0; i < kEach; ++i) write_run(scale_of(loaded.headers[r], member * S::kRuns, i), r, i, to, power);
      }
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

  [[nodiscard]] __device__ auto header_of(const StageRows<S>& rows, int first, int r) const {
    const std::int64_t weight_row = part_.first_row + min(first + row_of(r), part_.rows - 1);
    return typename P::Header(w_, rows(row_of(r)), weight_row, part_.tile);
  }
  /// Zeros behind the last column.
  template <class Header>
  [[nodiscard]] __device__ Scale scale_of(const Header& header, int tile_run, int i) const {
    const Scale scale = header.scale(tile_run, i);
    return (tile_run + i) * (kPieceColumns / P::kSets) < part_.columns ? scale : Scale{};
  }

  __device__ float make_run_scales(const StageRows<S>& rows, int first, int member, const WarpScales<S>& to,
                                   float& power) const {
    const int tile_run = member * S::kRuns + first_run();
    Scale made[kLaneRows * kEach];
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) {
      const auto header = header_of(rows, first, r);
#pragma unroll
      for (int i = 0; i < kEach; ++i) made[r * kEach + i] = scale_of(header, tile_run, i);
    }
    const float lowered = make_room(made, power);
#pragma unroll
    for (int i = 0; i < kLaneRows * kEach; ++i) write_run(made[i], i / kEach, i % kEach, to, power);
    return lowered;
  }
  __device__ void write_run(const Scale& made, int r, int i, const WarpScales<S>& to, float power) const {
    const int at = scale_at(row_of(r), first_run() + i);
    const float scale = made.scale * power;
    if constexpr (S::kForm == FusedForm::folded) {
      to.floats()[at] = scale;
    } else {
      to.halves(0)[at] = to_half(scale);
      if constexpr (P::kHasMin) to.halves(1)[at] = to_half(made.min * power);
    }
  }

  __device__ float make_row_scales(const StageRows<S>& rows, int member, const WarpScales<S>& to, float& power) const {
    static_assert(S::kForm != FusedForm::two_level || kLaneRows == 1);
    const std::uint8_t* row = rows(row_of(0));
    const Scale made[1] = {typename P::Header(w_, row, 0, part_.tile).row_scale()};
    const typename P::Integers integers(row);
    const float lowered = make_room(made, power);
    const int tile_run = member * S::kRuns + first_run();
    const auto scales = integers.template scales<kEach>(tile_run);
    const auto mins = integers.template mins<kEach>(tile_run);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = scale_at(row_of(0), first_run() + i);
      to.halves(0)[at] = scales.half(i);
      to.halves(1)[at] = mins.tiny(i);
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
      write_integers(made[r], typename P::Integers(rows(row_of(r))), r, member, to, power);
    }
    return lowered;
  }
  template <class Integers>
  __device__ void write_integers(const Scale& row_scale, const Integers& integers, int r, int member,
                                 const WarpScales<S>& to, float power) const {
    const int tile_run = member * S::kRuns + first_run();
    const auto scales = integers.template scales<kEach>(tile_run);
    const auto mins = integers.template mins<kEach>(tile_run);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = scale_at(row_of(r), first_run() + i);
      const float min = -(row_scale.min * power) * low_half(mins.half(i));
      const std::uint16_t rounded = to_half(min);
      to.halves(0)[at] = scales.half(i);
      to.halves(1)[to.min_at(at)] = rounded;
      to.halves(1)[to.lost_at(at)] = to_half(min - low_half(rounded));
    }
    if (first_run() == 0) to.halves(3)[row_scale_at(row_of(r))] = to_half(row_scale.scale * power);
  }

  /// Lowers the power of two where one of all lanes' scales and mins would be too large.
  template <int kCount>
  __device__ static float make_room(const Scale (&made)[kCount], float& power) {
    return make_room(largest_of_warp(largest_of(made, power)), power);
  }
  template <int kCount>
  __device__ static float largest_of(const Scale (&made)[kCount], float power) {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      largest = fmaxf(fmaxf(largest, fabsf(made[i].scale)), fabsf(made[i].min) * kMinPart);
    if (largest * power >= kMostScale) {  // also where one is not finite: those count for nothing
      largest = 0.0f;
#pragma unroll
      for (int i = 0; i < kCount; ++i) largest = larger(largest, made[i]);
    }
    return largest;
  }
  __device__ static float larger(float largest, const Scale& made) {
    return larger_finite(larger_finite(largest, made.scale), made.min * kMinPart);
  }

  const FusedWork& w_;
  FusedPart<S> part_;
  int lane_;
};

}  // namespace nibble::cuda

#endif
