// What a warp multiplies of a stage: units, units times integers, or values, in the order of the tensor cores.
// Apart from the products because warps and warpgroups multiply the same.
#ifndef NIBBLE_BACKENDS_CUDA_FUSED_UNITS_H
#define NIBBLE_BACKENDS_CUDA_FUSED_UNITS_H

#include "backends/cuda/fused_scales.h"

namespace nibble::cuda {

/// A lane's columns of a warp's pieces. Arrays of four are of the columns: `near` of rows c and c + 4, `far` of rows
/// c + 8 and c + 12.
template <class S>
class UnitMaker {
  using P = typename S::P;
  static constexpr int kSets = P::kSets;
  static constexpr std::uint32_t kAbove = S::kForm == FusedForm::two_level ? kTiny : kOn1024;

 public:
  __device__ UnitMaker(int member, const std::uint32_t* table)
      : table_(table), lane_(lane_of_warp()), member_(member) {}

  __device__ void load(const StageRows<S>& rows, int unit, int piece, std::uint32_t (&near)[4],
                       std::uint32_t (&far)[4]) const {
    const int row = unit * kUnitRows + lane_ % 4;
    panel(piece).pairs(rows(row), rows(row + 4), table_, near);
    panel(piece).pairs(rows(row + 8), rows(row + 12), table_, far);
  }

  /// Calls use(piece, near, far) with codes times their runs' integers, in the form of two levels times 2^-24 too.
  template <class Use>
  __device__ void for_each_times(const StageRows<S>& rows, const WarpScales<S>& scales, int unit, Use&& use) const {
    const int row = unit * kUnitRows + lane_ % 4;
    const std::uint8_t *row0 = rows(row), *row4 = rows(row + 4), *row8 = rows(row + 8), *row12 = rows(row + 12);
#pragma unroll
    for (int piece = 0; piece < S::kPieces; ++piece) {
      std::uint32_t near[4], far[4], near_by[kSets], far_by[kSets];
#pragma unroll
      for (int s = 0; s < kSets; ++s) {
        const uint2 by = scales.four_halves(0, unit, piece, s, lane_);
        near_by[s] = by.x, far_by[s] = by.y;
      }
      panel(piece).template times<kAbove>(row0, row4, near_by, near);
      panel(piece).template times<kAbove>(row8, row12, far_by, far);
      use(piece, near, far);
    }
  }

  /// Calls use(piece, near, far) with values times the warp's power of two.
  template <class Use>
  __device__ void for_each_values(const StageRows<S>& rows, const WarpScales<S>& scales, int unit, Use&& use) const {
    if constexpr (S::kHasIntegers) {
      const uint2 scale = reinterpret_cast<const uint2*>(scales.halves(3))[unit * 4 + lane_ % 4];
      for_each_times(rows, scales, unit, [&](int piece, auto& near, auto& far) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          // The first sum is rounded where it is nearly the value already, however much the two cancel.
          const int set = kSets == 1 ? 0 : i / 2;
          const uint4 min = scales.mins_and_lost(unit, piece, set, lane_);
          near[i] = add_halves(multiply_add_pair(near[i], scale.x, min.x), min.z);
          far[i] = add_halves(multiply_add_pair(far[i], scale.y, min.y), min.w);
        }
        use(piece, near, far);
      });
    } else {
#pragma unroll
      for (int piece = 0; piece < S::kPieces; ++piece) {
        std::uint32_t near[4], far[4];
        load(rows, unit, piece, near, far);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int set = kSets == 1 ? 0 : i / 2;
          const uint2 scale = scales.four_halves(0, unit, piece, set, lane_);
          if constexpr (P::kHasMin) {
            const uint2 min = scales.four_halves(1, unit, piece, set, lane_);
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

 private:
  [[nodiscard]] __device__ P panel(int piece) const {
    return P(static_cast<unsigned>(member_ * S::kPieces + piece) * kPieceColumns, lane_ / 4);
  }

  const typename P::Table table_;
  int lane_, member_;
};

}  // namespace nibble::cuda

#endif
