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
/// Registers of their threads, and of the others': together a multiprocessor's.
inline constexpr int kBringerRegisters = 88, kMultiplierRegisters = 208;

/// What a block's warps share beside the stages.
struct GroupBarriers {
  static constexpr int kMost = 8;
  CopyBarrier fetched[kMost];  ///< a stage's rows and gradients are there
  CopyBarrier powered[kMost];  ///< the powers of two are known with which its scales are made
  CopyBarrier scaled[kMost];   ///< its scales are there
  CopyBarrier left[kMost];     ///< all that multiply are done with it

  __device__ void init() {
    for (int i = 0; i < kMost; ++i) {
      fetched[i].init(32 + 1);
      powered[i].init(1);
      scaled[i].init(1);
      left[i].init(kFusedWarps);
    }
  }
};

/// By what a warp's sums must be lowered before a stage's are added, and by which they are too large then.
struct GroupPower {
  float lowered, power;
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
    static_assert(S::kTeams == 1 && S::kStages > kBringers && S::kStages <= GroupBarriers::kMost);
  }
  [[nodiscard]] __device__ int slot(int n) const { return n % S::kStages; }
  [[nodiscard]] __device__ int phase(int n) const { return n / S::kStages; }
  [[nodiscard]] __device__ std::uint8_t* at(int n) const { return shared + slot(n) * S::kStage; }
  [[nodiscard]] __device__ std::uint8_t* grads(int n) const { return at(n) + S::kRaw; }
  [[nodiscard]] __device__ StageRows<S> rows(int n) const { return {at(n), part}; }
  [[nodiscard]] __device__ WarpScales<S> scales(int n, int warp) const {
    return {at(n) + S::kRaw + S::kGrads + warp * S::kWarpScales};
  }
  [[nodiscard]] __device__ GroupPower& power(int n, int warp) const {
    return reinterpret_cast<GroupPower*>(at(n) + S::kRaw + S::kGrads + kFusedWarps * S::kWarpScales)[warp];
  }
};

/// One of the warps that bring rows and make scales: every so many-th stage is its own.
template <class S>
class Bringer {
 public:
  __device__ Bringer(const FusedWork& w, const GroupStages<S>& stages)
      : w_(w),
        stages_(stages),
        lane_(static_cast<int>(threadIdx.x) % 32),
        plain_(stages.part.plain_rows(w) / S::kStageRows),
        maker_(w, stages.part) {}

  __device__ void run() {
    const int own = static_cast<int>(threadIdx.x) / 32 - kFusedWarps;
    if (own < stages_.count) fetch(own);
#pragma unroll 1
    for (int n = own; n < stages_.count; n += kBringers) {
      scale(n);
      if (n + kBringers < stages_.count) fetch(n + kBringers);
    }
  }

 private:
  __device__ void fetch(int n) const {
    CopyBarrier& fetched = stages_.barriers->fetched[stages_.slot(n)];
    if (n >= S::kStages) stages_.barriers->left[stages_.slot(n)].wait(stages_.phase(n) - 1);
    if (lane_ == 0) {
      fetched.arrive_expecting(S::kGrads);
      fetched.copy(stages_.grads(n), stages_.part.grads(w_) + n * S::kGrads, S::kGrads);
    }
    const bool plain = n < plain_;
#pragma unroll 4
    for (int i = lane_; i < S::kStageRows * S::kChunks; i += 32) {
      const int row = i / S::kChunks, at = i % S::kChunks * 16;
      std::uint8_t* to = stages_.at(n) + row * S::kSlot + at;
      if (plain) {
        const std::uint8_t* from = stages_.part.source + (n * S::kStageRows + row) * w_.row_stride + at;
        copy_async(to, from - (S::P::kBlockBytes % 16 == 0 ? 0 : reinterpret_cast<std::uintptr_t>(from) & 15u));
      } else {
        copy_last_chunk(w_, stages_.part, n * S::kStageRows + row, at, to);
      }
    }
    fetched.arrive_after_copies();
  }

  /// The powers of two follow from one stage to the next.
  __device__ void scale(int n) const {
    const StageRows<S> rows = stages_.rows(n);
    stages_.barriers->fetched[stages_.slot(n)].wait(stages_.phase(n));
    const auto made = maker_.load(rows, n * S::kStageRows);
    const float largest = maker_.largest(made);  // of the warp that this lane counts
    if (n > 0) stages_.barriers->powered[stages_.slot(n - 1)].wait(stages_.phase(n - 1));
    float power = n > 0 && lane_ < kFusedWarps ? stages_.power(n - 1, lane_).power : 0x1p126f;
    const float lowered = ScaleMaker<S>::make_room(largest, power);
    if (lane_ < kFusedWarps) stages_.power(n, lane_) = {lowered, power};
    __syncwarp();
    if (lane_ == 0) stages_.barriers->powered[stages_.slot(n)].arrive();
#pragma unroll
    for (int warp = 0; warp < kFusedWarps; ++warp)
      maker_.write(made, warp, stages_.scales(n, warp), __shfl_sync(0xffffffffu, power, warp));
    __syncwarp();
    if (lane_ == 0) stages_.barriers->scaled[stages_.slot(n)].arrive();
  }

  const FusedWork& w_;
  const GroupStages<S> stages_;
  int lane_;
  int plain_;  ///< stages; those behind them need care
  const ScaleMaker<S> maker_;
};

/// One of the warps that multiply.
template <class S>
class Multiplier {
  static constexpr int kTogether = 2;  ///< units that are made at once, so that loads do not wait for each other
  static_assert(S::kUnits == 2 * kTogether);

 public:
  __device__ Multiplier(const GroupStages<S>& stages, const std::uint32_t* table)
      : stages_(stages),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        units_(warp_, table) {}

  __device__ void run() {
    pin_sums(sums_);
#pragma unroll 1
    for (int n = 0; n < stages_.count; ++n) {
      stages_.barriers->fetched[stages_.slot(n)].wait(stages_.phase(n));
      stages_.barriers->scaled[stages_.slot(n)].wait(stages_.phase(n));
      const GroupPower power = stages_.power(n, warp_);
      power_ = power.power;
      if (power.lowered != 1.0f) {
        wait_for_products<0>();
        pin_sums(sums_);
        lower_sums<S>(sums_, power.lowered);
        pin_sums(sums_);
      }
      multiply<0>(n);
      multiply<1>(n);
    }
    wait_for_products<0>();
    pin_sums(sums_);
  }
  /// Without their power of two, and that of the units.
  __device__ void leave(float unit_power) const {
    const float unit = reciprocal_of_power(power_) / static_cast<float>(1 << kGradExponent) / unit_power;
    leave_sums<S>(sums_, unit, reinterpret_cast<float*>(stages_.shared), [](int, int, int) { return 0.0f; });
  }

 private:
  /// Makes half of a stage's values while the other half's products, or those of the stage before, are under way.
  template <int kHalf>
  __device__ void multiply(int n) {
    wait_for_products<1>();
    if (kHalf == 1 && n > 0 && lane_ == 0) stages_.barriers->left[stages_.slot(n - 1)].arrive();
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      units_.for_each_values(stages_.rows(n), stages_.scales(n, warp_), kHalf * kTogether + u,
                             [&](int, const auto& near, const auto& far) {
#pragma unroll
                               for (int m = 0; m < 2; ++m) {
                                 auto& a = values_[kHalf][u][m];
                                 a[0] = near[2 * m], a[1] = near[2 * m + 1], a[2] = far[2 * m], a[3] = far[2 * m + 1];
                               }
                             });
    }
    begin_products();
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      const std::uint64_t grads =
          operand_at(stages_.grads(n) + (kHalf * kTogether + u) * S::kTokenTiles * S::kGradTile);
#pragma unroll
      for (int m = 0; m < 2; ++m) multiply_group(sums_, m, values_[kHalf][u][m], grads);
    }
    end_products();
  }

  const GroupStages<S> stages_;
  int lane_, warp_;
  const UnitMaker<S> units_;
  float power_ = 1.0f;  ///< by which the sums are too large
  LaneSums<S> sums_ = {};
  std::uint32_t values_[2][kTogether][2][4];
};

template <class F, int kTiles>
__global__ void __launch_bounds__(kGroupsThreads, 1) fused_groups_kernel(const __grid_constant__ FusedWork work) {
#if NIBBLE_WARPGROUP_CORES
  using S = FusedShape<F, kTiles, Cores::warpgroup>;
  extern __shared__ __align__(128) std::uint8_t shared[];
  __shared__ std::uint32_t table[Panel<F>::kTable];
  __shared__ GroupBarriers barriers;
  if (threadIdx.x == 0) barriers.init();
  const float unit_power = Panel<F>::fill(work, table);
  __syncthreads();
  const GroupStages<S> stages(work, shared, &barriers);
  if (threadIdx.x / 32 >= kFusedWarps) {
    keep_registers<kBringerRegisters, false>();
    Bringer<S>(work, stages).run();
    __syncthreads();
    __syncthreads();
  } else {
    keep_registers<kMultiplierRegisters, true>();
    Multiplier<S> multiplier(stages, table);
    multiplier.run();
    __syncthreads();
    multiplier.leave(unit_power);
    __syncthreads();
    store_sums<S>(work, stages.part, reinterpret_cast<const float*>(shared));
  }
#endif
}

/// Launches for a format of the engine.
template <Engine engine, int... kTiles>
nibble_status launch_by_groups(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why) {
  nibble_status status = NIBBLE_UNSUPPORTED;
  const auto go = [&]<class F, int kCount>(F, std::integral_constant<int, kCount>) {
    if (grad_tiles(work.tokens, Cores::warpgroup) != kCount) return;
    status = gpu::launch(fused_groups_kernel<F, kCount>,
                         {"fused out_prod by warpgroups", static_cast<std::uint64_t>(work.tiles * work.splits),
                          kGroupsThreads, FusedShape<F, kCount, Cores::warpgroup>::kBytes},
                         stream, why, work);
  };
  visit_format(format, [&](auto f) {
    if constexpr (decltype(f)::kEngine == engine) (go(f, std::integral_constant<int, kTiles>{}), ...);
  });
  return status;
}

}  // namespace nibble::cuda

#endif
