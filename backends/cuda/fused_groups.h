// The fused out_prod by warpgroups, for more tokens: two of them multiply, in the form of values, and four warps bring
// the rows and make the scales ahead of them.
// Apart from fused.h because its warps do everything themselves, with instructions that other devices have too.
#ifndef NIBBLE_BACKENDS_CUDA_FUSED_GROUPS_H
#define NIBBLE_BACKENDS_CUDA_FUSED_GROUPS_H

#include "backends/cuda/bulk.h"
#include "backends/cuda/fused_scales.h"
#include "backends/cuda/fused_sums.h"
#include "backends/cuda/fused_units.h"
#include "backends/cuda/wgmma.h"

namespace nibble::cuda {

/// Warps that bring and make; the last ones of a block.
inline constexpr int kBringers = 4;
inline constexpr int kGroupsThreads = (kFusedWarps + kBringers) * 32;
/// Registers of their threads, and of the others': together what a block of these threads is given.
inline constexpr int kBringerRegisters = 104, kMultiplierRegisters = 200;

/// What a block's warps share beside the stages.
struct GroupBarriers {
  static constexpr int kMost = 8;
  CopyBarrier fetched[kMost];  ///< a stage's rows and gradients are there
  CopyBarrier powered[kMost];  ///< the powers of two are known with which its scales are made
  CopyBarrier scaled[kMost];   ///< its scales are there
  CopyBarrier left[kMost];     ///< all that multiply are done with it
  /// By what a piece's sums must be lowered before a stage's are added, and by which they are too large then.
  struct Power {
    float lowered, power;
  } powers[kMost][kFusedWarps];
  bool lowered[kMost];  ///< whether any piece's are

  __device__ void init() {
    for (int i = 0; i < kMost; ++i) {
      fetched[i].init(32 + 1);
      powered[i].init(32);
      scaled[i].init(32);
      left[i].init(kFusedWarps * 32);
    }
    show_barriers();
  }
};

/// A block's stages, in a ring.
template <class S>
struct GroupStages {
  const FusedPart<S> part;
  std::uint8_t* shared;
  GroupBarriers* barriers;
  int count;

  __device__ GroupStages(const FusedWork& w, std::uint8_t* memory, GroupBarriers* b)
      : part(w, blockIdx.x), shared(memory), barriers(b), count((part.rows + S::kStageRows - 1) / S::kStageRows) {
    static_assert(S::kTeams == 1 && S::kStages >= kBringers && S::kStages <= GroupBarriers::kMost);
  }
  [[nodiscard]] __device__ int slot(int n) const { return n % S::kStages; }
  [[nodiscard]] __device__ int phase(int n) const { return n / S::kStages; }
  [[nodiscard]] __device__ std::uint8_t* at(int n) const { return shared + slot(n) * S::kStage; }
  [[nodiscard]] __device__ std::uint8_t* grads(int n) const { return at(n) + S::kRaw; }
  [[nodiscard]] __device__ StageRows<S> rows(int n) const { return {at(n), part}; }
  [[nodiscard]] __device__ WarpScales<S> scales(int n, int piece) const {
    return {at(n) + S::kRaw + S::kGrads + piece * S::kWarpScales};
  }
  [[nodiscard]] __device__ GroupBarriers::Power& power(int n, int piece) const {
    return barriers->powers[slot(n)][piece];
  }
};

/// One of the warps that bring rows and make scales: every so many-th stage is its own.
template <class S>
class Bringer {
  static constexpr int kPieces = S::kSumColumns / kPieceColumns;

 public:
  __device__ Bringer(const FusedWork& w, const GroupStages<S>& stages)
      : w_(w),
        stages_(stages),
        lane_(lane_of_warp()),
        plain_(stages.part.plain_rows(w) / S::kStageRows),
        maker_(w, stages.part) {}

  __device__ void run() {
    const int own = warp_of_block() - kFusedWarps;
    if (own < stages_.count) fetch(own);
#pragma unroll 1
    for (int n = own; n < stages_.count; n += kBringers) {
      scale(n);
      if (n + kBringers < stages_.count) fetch(n + kBringers);
    }
    // Copies must have landed before their thread is done; where scales lie apart nothing here has waited for the last.
    end_copy_group();
    wait_for_copies<0>();
  }

 private:
  __device__ void fetch(int n) const {
    CopyBarrier& fetched = stages_.barriers->fetched[stages_.slot(n)];
    if (n >= S::kStages) stages_.barriers->left[stages_.slot(n)].wait(stages_.phase(n) - 1);
    if (lane_ == 0) {
      fetched.arrive_expecting(S::kGrads);
      fetched.copy(stages_.grads(n), stages_.part.grads(w_) + n * S::kGrads, S::kGrads);
    }
    constexpr int kAtOnce = 32 / S::kChunks;
    const int own = lane_ / S::kChunks, at = lane_ % S::kChunks * 16;  // a row, bytes
    const std::uint8_t* from = stages_.part.source + (n * S::kStageRows + own) * w_.row_stride + at;
    std::uint8_t* to = stages_.at(n) + own * S::kSlot + at;
    if (n < plain_) {
      if (own < kAtOnce) {
#pragma unroll 8
        for (int row = 0; row < S::kStageRows; row += kAtOnce) {
          if (S::kStageRows % kAtOnce == 0 || row + own < S::kStageRows)
            copy_async(to + row * S::kSlot, chunk_of<S>(from));
          from += kAtOnce * w_.row_stride;
        }
      }
      fetched.arrive_after_copies();
    } else {
      if (own < kAtOnce) {
#pragma unroll 1
        for (int row = 0; row + own < S::kStageRows; row += kAtOnce)
          copy_last_chunk(w_, stages_.part, n * S::kStageRows + own + row, at, to + row * S::kSlot);
      }
      end_copy_group();
      wait_for_copies<0>();
      fetched.arrive();
    }
  }

  /// The powers of two follow from one stage to the next.
  __device__ void scale(int n) const {
    const StageRows<S> rows = stages_.rows(n);
    if constexpr (!S::P::kScalesApart) stages_.barriers->fetched[stages_.slot(n)].wait(stages_.phase(n));
    const auto made = maker_.load(rows, n * S::kStageRows);
    float largest = 0.0f;  // of the piece that this lane counts
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const float x = maker_.largest(made, piece);
      if (lane_ == piece) largest = x;
    }
    float power = 0x1p126f;
    if (n > 0) {
      stages_.barriers->powered[stages_.slot(n - 1)].wait(stages_.phase(n - 1));
      if (lane_ < kPieces) power = stages_.power(n - 1, lane_).power;
    }
    const float lowered = ScaleMaker<S>::make_room(largest, power);
    if (lane_ < kPieces) stages_.power(n, lane_) = {lowered, power};
    const bool any = __any_sync(0xffffffffu, lane_ < kPieces && lowered != 1.0f);
    if (lane_ == 0) stages_.barriers->lowered[stages_.slot(n)] = any;
    stages_.barriers->powered[stages_.slot(n)].arrive();
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece)
      maker_.write(made, piece, stages_.scales(n, piece), __shfl_sync(0xffffffffu, power, piece));
    stages_.barriers->scaled[stages_.slot(n)].arrive();
  }

  const FusedWork& w_;
  const GroupStages<S> stages_;
  int lane_;
  int plain_;  ///< stages; those behind them need care
  const ScaleMaker<S> maker_;
};

/// One of the warps that multiply: it has kSumSets sets of a piece's columns, from kFirstSet on.
template <class S, int kFirstSet>
class Multiplier {
  /// Units that are made at once: all of a stage where there are registers for them.
  static constexpr int kTogether = S::kSumSets == 1 ? S::kUnits : S::kUnits / 2;
  using Values = std::uint32_t[kTogether][S::kSumSets][4];

 public:
  __device__ Multiplier(const GroupStages<S>& stages, const std::uint32_t* table)
      : stages_(stages),
        lane_(lane_of_warp()),
        piece_(warp_of_block() % (S::kSumColumns / kPieceColumns)),
        units_(stages.part.first_piece() + piece_, table) {}

  __device__ void run() {
    pin(sums_);
    // Values by turns, in a form that shows the compiler that none are written while products read them.
#pragma unroll 1
    for (int n = 0;;) {
      enter();
      multiply(0, values_[0]);
      if constexpr (kTogether < S::kUnits) {
        leave(n);
        multiply(kTogether, values_[1]);
        next();
      } else {
        leave(n);
        next();
        if (++n == stages_.count) break;
        enter();
        multiply(0, values_[1]);
        leave(n);
        next();
      }
      if (++n == stages_.count) break;
    }
    wait_for_products<0>();
    pin(sums_);
  }
  /// Leaves the sums in shared memory, without any power of two.
  __device__ void leave_all(const FusedWork& w, float unit_power) const {
    const float power = stages_.power(stages_.count - 1, piece_).power;  // by which they are too large
    const int exponent = -exponent_of(power) - kGradExponent - exponent_of(unit_power);
    leave_sums<S>(w, sums_, exponent, reinterpret_cast<float*>(stages_.shared), [](int, int, int) { return 0.0f; });
  }

 private:
  /// Waits for a stage, and lowers the sums where it needs that.
  __device__ __forceinline__ void enter() {
    GroupBarriers& barriers = *stages_.barriers;
    barriers.fetched[slot_].wait(phase_);
    barriers.scaled[slot_].wait(phase_);
    if (barriers.lowered[slot_]) {  // all of a warpgroup wait, or none
      wait_for_products<0>();
      pin(sums_);
      lower_sums<S>(sums_, barriers.powers[slot_][piece_].lowered);
      pin(sums_);
    }
  }

  /// Makes values of units from `first` on, all at once so that loads do not wait for each other, while the products
  /// before are under way; then starts theirs and waits for the ones before.
  __device__ __forceinline__ void multiply(int first, Values& values) {
    std::uint8_t* stage = stages_.shared + slot_ * S::kStage;
    const StageRows<S> rows(stage, stages_.part);
    const WarpScales<S> scales{stage + S::kRaw + S::kGrads + piece_ * S::kWarpScales};
#pragma unroll
    for (int unit = 0; unit < kTogether; ++unit) {
      units_.for_each_values(rows, scales, first + unit, [&](int, const auto& near, const auto& far) {
#pragma unroll
        for (int m = 0; m < S::kSumSets; ++m) {
          auto& a = values[unit][m];
          a[0] = near[2 * (kFirstSet + m)], a[1] = near[2 * (kFirstSet + m) + 1];
          a[2] = far[2 * (kFirstSet + m)], a[3] = far[2 * (kFirstSet + m) + 1];
        }
      });
    }
    pin(values);
    begin_products();
#pragma unroll
    for (int unit = 0; unit < kTogether; ++unit) {
      const std::uint64_t grads = operand_at(stage + S::kRaw + (first + unit) * S::kTokenTiles * S::kGradTile);
#pragma unroll
      for (int m = 0; m < S::kSumSets; ++m) multiply_group(sums_, m, values[unit][m], grads);
    }
    end_products();
    wait_for_products<1>();
  }

  /// The products of the stage before n are done.
  __device__ void leave(int n) const {
    if (n > 0) stages_.barriers->left[slot_ == 0 ? S::kStages - 1 : slot_ - 1].arrive();
  }
  __device__ void next() {
    slot_ = slot_ + 1 == S::kStages ? 0 : slot_ + 1;
    phase_ ^= slot_ == 0 ? 1 : 0;
  }

  const GroupStages<S> stages_;
  int lane_, piece_;
  const UnitMaker<S> units_;
  int slot_ = 0, phase_ = 0;  ///< of the stage in hand
  LaneSums<S> sums_ = {};
  Values values_[2];
};

/// A warp's part of the block's work: it leaves its sums in shared memory.
template <class S, int kFirstSet>
__device__ inline void multiply_sets(const FusedWork& w, const GroupStages<S>& stages, const std::uint32_t* table,
                                     float unit_power) {
  Multiplier<S, kFirstSet> multiplier(stages, table);
  multiplier.run();
  wait_for_team<kFusedWarps>(0);  // the sums take the place of stages; those that bring have brought all by then
  multiplier.leave_all(w, unit_power);
}

template <class F, int kTiles>
__global__ void __launch_bounds__(kGroupsThreads, 1) fused_groups_kernel(const __grid_constant__ FusedWork work) {
#if NIBBLE_WARPGROUP_CORES
  using S = FusedShape<F, kTiles, Cores::warpgroup>;
  extern __shared__ __align__(128) std::uint8_t shared[];
  __shared__ std::uint32_t table[Panel<F>::Table::kWords];
  __shared__ GroupBarriers barriers;
  if (threadIdx.x == 0) barriers.init();
  const float unit_power = Panel<F>::fill(work, table);
  __syncthreads();
  const GroupStages<S> stages(work, shared, &barriers);
  if (stages.part.first_column >= stages.part.columns) return;
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (group == 2) {
    keep_registers<kBringerRegisters, false>();
    Bringer<S>(work, stages).run();
  } else {
    keep_registers<kMultiplierRegisters, true>();
    if (S::kSumSets == 2 || group == 0) {
      multiply_sets<S, 0>(work, stages, table, unit_power);
    } else {
      multiply_sets<S, 2 - S::kSumSets>(work, stages, table, unit_power);
    }
    wait_for_team<kFusedWarps>(0);
    store_sums<S>(work, stages.part, reinterpret_cast<const float*>(shared));
  }
#endif
}

template <Engine engine>
nibble_status launch_by_groups(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why) {
  return launch_of_width<engine, Cores::warpgroup, 2, 4, 8, 16, 32>(format, work.tokens, [&](auto f, auto tiles) {
    using F = decltype(f);
    constexpr int kTiles = decltype(tiles)::value;
    const std::int64_t blocks = work.tiles * fused_parts(kTiles) * work.splits;
    return gpu::launch(fused_groups_kernel<F, kTiles>,
                       {"fused out_prod by warpgroups", static_cast<std::uint64_t>(blocks), kGroupsThreads,
                        FusedShape<F, kTiles, Cores::warpgroup>::kBytes},
                       stream, why, work);
  });
}

}  // namespace nibble::cuda

#endif
