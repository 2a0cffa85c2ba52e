// A block's sums on their way from registers to the split's part.
// Apart from the products because those of warps and of warpgroups lie alike.
#ifndef NIBBLE_BACKENDS_CUDA_FUSED_SUMS_H
#define NIBBLE_BACKENDS_CUDA_FUSED_SUMS_H

#include "backends/cuda/fused_shape.h"

namespace nibble::cuda {

/// Sums [tiles of 8 tokens][set][i] of a lane, a set being columns 2m and 2m + 1 of its 4 in a piece, are those of the
/// set's column i / 2 for token 2c + i % 2 of the tile.
template <class S>
using LaneSums = float[S::kTokenTiles][S::kSumSets][4];

template <class S>
__device__ inline void lower_sums(LaneSums<S>& sums, float by) {
#pragma unroll
  for (int t = 0; t < S::kTokenTiles; ++t) {
#pragma unroll
    for (int m = 0; m < S::kSumSets; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[t][m][i] *= by;
    }
  }
}

/// Where one of them lies in shared memory.
template <class S>
__device__ inline int sum_at(int warp, int tile, int set, int i, int lane) {
  return (((warp * S::kTokenTiles + tile) * S::kSumSets + set) * 4 + i) * 32 + lane;
}

/// Leaves a warp's sums in shared memory, times 2^exponent and their token's power: at once, since either alone may
/// take what is finite beyond f32. taken(tile, m, i): less that.
template <class S, class Taken>
__device__ inline void leave_sums(const FusedWork& w, const LaneSums<S>& sums, int exponent, float* shared,
                                  Taken&& taken) {
  const int lane = lane_of_warp(), warp = warp_of_block();
#pragma unroll
  for (int t = 0; t < S::kTokenTiles; ++t) {
    int of_token[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int token = t * 8 + lane % 4 * 2 + i;
      of_token[i] = exponent + (token < w.tokens ? exponent_of(w.grad_powers[token]) : 0);
    }
#pragma unroll
    for (int m = 0; m < S::kSumSets; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        shared[sum_at<S>(warp, t, m, i, lane)] = times_power_of_two(sums[t][m][i] - taken(t, m, i), of_token[i % 2]);
      }
    }
  }
}

/// Adds up the teams' sums, in their order, and stores them in the split's part; a thread has a column.
template <class S>
__device__ inline void store_sums(const FusedWork& w, const FusedPart<S>& part, const float* shared) {
  constexpr int kAtOnce = kFusedWarps * 32 / S::kSumColumns;  // tokens
  const int thread = static_cast<int>(threadIdx.x), own = thread % S::kSumColumns, column = part.first_column + own;
  if (column >= part.columns) return;
  int g = 0, i = 0;
  find_column<kPieceColumns / S::P::kSets>(own % kPieceColumns, &g, &i);
  const int set = own / kPieceColumns * 2 + i / 2;  // of the block
  float* to = w.parts + part.split * w.part_stride + (part.tile - w.first_tile) * kFusedColumns + column;
  for (int token = thread / S::kSumColumns; token < w.tokens; token += kAtOnce) {
    float sum = 0.0f;
#pragma unroll
    for (int team = 0; team < S::kTeams; ++team) {
      sum += shared[sum_at<S>(team * S::kTeam + S::warp_of(set), token / 8, set % S::kSumSets, i % 2 * 2 + token % 2,
                              g * 4 + token % 8 / 2)];
    }
    to[token * w.part_token_stride] = sum;
  }
}

}  // namespace nibble::cuda

#endif
