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

/// What a lane's scales are made of; nothing where rows have them.
template <class P, int kRows, int kEach>
struct HeldScales {};
template <class P, int kRows, int kEach>
requires(P::kScalesApart) struct HeldScales<P, kRows, kEach> {
  typename P::Held at[kRows][kEach];
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

  /// Where rows do not have their scales: starts to load what make() makes them of, of the stage whose first row in the
  /// share is `first`. A stage ahead, since nobody waits for it here.
  __device__ void load_ahead(int first, int member) {
    if constexpr (P::kScalesApart) {
#pragma unroll
      for (int r = 0; r < kLaneRows; ++r) load_apart(first, r, member * S::kRuns + first_run(), ahead_.at[r]);
    }
  }
  /// Those of member's columns, times `power`, which is lowered where a scale would be too large: by what it returns,
  /// the same for all lanes.
  __device__ float make(const StageRows<S>& rows, int member, const WarpScales<S>& to, float& power) const {
    if constexpr (S::kForm == FusedForm::two_level) {
      return make_row_scales(rows, member, to, power);
    } else if constexpr (S::kHasIntegers) {
      return make_integers(rows, member, to, power);
    } else {
      return make_run_scales(rows, member, to, power);
    }
  }

  // The same in steps, for where the power of two follows from other warps'.

  /// Loads what a lane's rows of a stage have for all of the block's pieces; `first` is the stage's first row in the
  /// share, and the rows must be there but where they do not have their scales.
  [[nodiscard]] __device__ auto load(const StageRows<S>& rows, int first) const {
    static_assert(kLaneRows == 2);
    if constexpr (S::kHasIntegers) {
      const typename P::Header headers[2] = {P::Header(rows(row_of(0))), P::Header(rows(row_of(1)))};
      struct {
        Scale scales[2];
        typename P::Integers integers[2];
      } loaded = {{headers[0].row_scale(), headers[1].row_scale()},
                  {typename P::Integers(rows(row_of(0))), typename P::Integers(rows(row_of(1)))}};
      return loaded;
    } else if constexpr (P::kScalesApart) {
      return load_made(first);
    } else {
      struct {
        typename P::Header headers[2];
      } loaded = {{P::Header(rows(row_of(0))), P::Header(rows(row_of(1)))}};
      return loaded;
    }
  }
  /// The largest of a piece's scales and parts of mins; infinities and NaN count for nothing.
  template <class Loaded>
  [[nodiscard]] __device__ float largest(const Loaded& loaded, int piece) const {
    float x = 0.0f;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if constexpr (S::kHasIntegers) {
        x = larger(x, loaded.scales[r]);
      } else {
#pragma unroll
        for (int i = 0; i < kEach; ++i) x = larger(x, scale_of(loaded, r, piece, i));
      }
    }
    return largest_of_warp(x);
  }
  template <class Loaded>
  __device__ void write(const Loaded& loaded, int piece, const WarpScales<S>& to, float power) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if constexpr (S::kHasIntegers) {
        write_integers(loaded.scales[r], loaded.integers[r], r, part_.first_piece() + piece, to, power);
      } else {
#pragma unroll
        for (int i = 0; i < kEach; ++i) write_run(scale_of(loaded, r, piece, i), r, i, to, power);
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

  /// Scales behind the last column are zeros.
  [[nodiscard]] __device__ bool is_there(int tile_run) const {
    return tile_run * (kPieceColumns / P::kSets) < part_.columns;
  }
  template <class Header>
  [[nodiscard]] __device__ Scale scale_of(const Header& header, int tile_run, int i) const {
    const Scale scale = header.scale(tile_run, i);
    return is_there(tile_run + i) ? scale : Scale{};
  }
  template <class Loaded>
  [[nodiscard]] __device__ Scale scale_of(const Loaded& loaded, int r, int piece, int i) const {
    if constexpr (P::kScalesApart) {
      return {loaded.made[r][piece], 0.0f};
    } else {
      return scale_of(loaded.headers[r], (part_.first_piece() + piece) * S::kRuns, i);
    }
  }

  /// What the scales of the lane's row r are made of; behind the share its last row's, for the gradient is zero there.
  template <class Held, int kCount>
  __device__ void load_apart(int first, int r, int tile_run, Held (&held)[kCount]) const {
    const std::int64_t row = part_.first_row + min(first + row_of(r), part_.rows - 1);
    P::load(w_, row, part_.tile, part_.columns, tile_run, held);
  }
  [[nodiscard]] __device__ auto load_made(int first) const {
    static_assert(kEach == 1);
    constexpr int kPieces = S::kSumColumns / kPieceColumns;
    typename P::Held held[2][kPieces];
#pragma unroll
    for (int r = 0; r < 2; ++r) load_apart(first, r, part_.first_piece(), held[r]);
    struct {
      float made[2][kPieces];
    } loaded;
#pragma unroll
    for (int r = 0; r < 2; ++r) P::make(w_, held[r], loaded.made[r]);
    return loaded;
  }

  __device__ float make_run_scales(const StageRows<S>& rows, int member, const WarpScales<S>& to, float& power) const {
    const int tile_run = member * S::kRuns + first_run();
    Scale made[kLaneRows * kEach] = {};
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) {
      if constexpr (P::kScalesApart) {
        float scale[kEach];
        P::make(w_, ahead_.at[r], scale);
#pragma unroll
        for (int i = 0; i < kEach; ++i) made[r * kEach + i].scale = scale[i];
      } else {
#pragma unroll
        for (int i = 0; i < kEach; ++i)
          made[r * kEach + i] = scale_of(typename P::Header(rows(row_of(r))), tile_run, i);
      }
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
    const Scale made[1] = {typename P::Header(row).row_scale()};
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
    for (int r = 0; r < kLaneRows; ++r) made[r] = typename P::Header(rows(row_of(r))).row_scale();
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
  HeldScales<P, kLaneRows, kEach> ahead_ = {};
};

}  // namespace nibble::cuda

#endif
