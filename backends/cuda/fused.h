// The fused out_prod: packed weights go from memory to the tensor cores' registers, and nothing is expanded in between.
// Apart from the row-block path because it reads the weight once for up to 16 tokens and needs no decoded block.
//
// A block takes 256 columns of the weight and a share of its rows, and sums up over them [columns, tokens]; a second
// kernel adds the shares. A warp takes 32 columns (a piece), a lane 4 of them in 8 of a stage's 32 rows. Rows come
// through a ring of buffers that copies fill ahead. Operands are rounded to TF32 where they have more bits:
//   a format with a scale alone (folded): the codes' own small numbers, exact, by gradient * scale
//   another: decoded values by the gradient
// A stage with a gradient or a scale that is not finite is multiplied as decoded values, so that what comes out is not
// finite where theirs is not.
// A gradient times a scale beyond the range of f32 is not finite either, whatever its codes are.
#ifndef NIBBLE_BACKENDS_CUDA_FUSED_H
#define NIBBLE_BACKENDS_CUDA_FUSED_H

#include "backends/cuda/fused_out_prod.h"
#include "backends/cuda/mma.h"
#include "backends/cuda/panels.h"
#include "backends/gpu/gemm_load.h"

namespace nibble::cuda {

inline constexpr int kFusedThreads = 256;
inline constexpr int kStageRows = 32;
inline constexpr int kStages = 4;
/// Columns of `grads` and of scales are padded so that a warp's lanes meet different banks.
inline constexpr int kGradPitch = kStageRows + 4;

/// Where everything lies in a block's shared memory, in bytes.
template <class F, int kTiles>
struct FusedShared {
  using P = Panel<F>;
  /// A row's bytes, from any place in 16 bytes on; 32 bytes past a multiple of 64, so that 4 rows meet different banks.
  static constexpr int kSlot = (P::kRowBytes + 15 + 31) / 64 * 64 + 32;
  static constexpr int kRaw = kStageRows * kSlot;
  static constexpr int kGrads = 8 * kTiles * kGradPitch * 4;
  static constexpr int kScalePitch = P::kScales + 1;
  static constexpr int kScales = kStageRows * kScalePitch * static_cast<int>(sizeof(typename P::Scale));
  static constexpr int kGradsAt = kStages * kRaw;
  static constexpr int kScalesAt = kGradsAt + 2 * kGrads;
  static constexpr int kBytes = kScalesAt + 2 * kScales;
  static_assert(kSlot >= P::kRowBytes + 15 && kSlot % 16 == 0 && kScalesAt % 16 == 0);
};

/// One block's work.
template <class F, int kTiles>
class Fused {
  using P = Panel<F>;
  using S = FusedShared<F, kTiles>;
  using Scale = typename P::Scale;
  static constexpr int kSets = P::kSets;  ///< runs of a piece
  static constexpr int kChunks = (P::kRowBytes + 15 + 15) / 16;
  static constexpr int kChunkLanes = kChunks <= 16 ? 16 : 32;
  static constexpr int kPassRows = kFusedThreads / kChunkLanes;
  static_assert(kChunks <= 32);

 public:
  __device__ Fused(const FusedWork& w, std::uint8_t* shared, const float* table)
      : w_(w),
        shared_(shared),
        table_(table),
        tile_(w.first_tile + blockIdx.x % w.tiles),
        split_(blockIdx.x / w.tiles),
        lane_(static_cast<int>(threadIdx.x) % 32),
        panel_(static_cast<int>(threadIdx.x) / 32 * kPieceColumns, lane_ / 4),
        place_(grad_place(w.along_rows)) {
    first_row_ = split_ * w.rows_per_split;
    rows_ = static_cast<int>(min(w.rows_per_split, w.rows - first_row_));
    const int columns =
        static_cast<int>(min(static_cast<std::int64_t>(kFusedColumns), w.columns - tile_ * kFusedColumns));
    pieces_ = columns / kPieceColumns;
    bytes_ = columns / P::kBlockValues * P::kBlockBytes;
    source_ = w.weight + first_row_ * w.row_stride + tile_ * P::kRowBytes;
    shift_ = w.aligned ? static_cast<int>(reinterpret_cast<std::uintptr_t>(source_) & 15u) : 0;
    shift_step_ = w.aligned ? static_cast<int>(w.row_stride & 15) : 0;
    const int row = static_cast<int>(threadIdx.x) / kChunkLanes, at = static_cast<int>(threadIdx.x) % kChunkLanes * 16;
    const int shift = shift_of(row);
    copied_ = source_ + row * w.row_stride - shift + at;
    copies_ = at < shift + bytes_;
    grad_at_ = (first_row_ + place_.row) * w.grad_row_stride + place_.token * w.grad_token_stride;
    grad_step_ = place_.row_step * w.grad_row_stride + place_.token_step * w.grad_token_stride;
  }

  __device__ void run() {
    const int stages = (rows_ + kStageRows - 1) / kStageRows;
    for (int s = 0; s < kStages - 1; ++s) fetch(s);
    load_grads(0);
    bool finite = store_grads(0);
    load_grads(1);
    wait_for_copies<kStages - 2>();
    __syncthreads();
    finite = make_scales(0) && finite;
#pragma unroll 1
    for (int s = 0; s < stages; ++s) {
      wait_for_copies<kStages - 3>();
      const bool all_finite = __syncthreads_and(finite) != 0;
      fetch(s + kStages - 1);
      finite = store_grads(s + 1);
      load_grads(s + 2);
      finite = make_scales(s + 1) && finite;
      if (static_cast<int>(threadIdx.x) / 32 >= pieces_) continue;
      if (all_finite) {
        multiply<true>(s);
      } else {
        multiply<false>(s);
      }
    }
    if (static_cast<int>(threadIdx.x) / 32 < pieces_) store();
  }

 private:
  /// Bytes from a multiple of 16 to a row's first; rows 32 apart have the same.
  __device__ int shift_of(int row) const {
    if constexpr (P::kBlockBytes % 16 == 0) return 0;
    return (shift_ + row * shift_step_) & 15;
  }
  __device__ const std::uint8_t* row_at(int stage, int row) const {
    return shared_ + stage % kStages * S::kRaw + row * S::kSlot + shift_of(row);
  }

  /// 16 bytes of a row; what lies behind the row is not used. Nothing is read behind the weight, and rows that are not
  /// there are zeros.
  __device__ void copy_chunk(std::uint8_t* to, const std::uint8_t* from, bool inside) const {
    if (!inside) {
      *reinterpret_cast<uint4*>(to) = make_uint4(0, 0, 0, 0);
    } else if (from + 16 <= w_.weight_end) {
      copy_async(to, from);
    } else {
      for (int i = 0; from + i < w_.weight_end; ++i) to[i] = from[i];
    }
  }

  /// Starts the copies of a stage; zeros past the last row and the last column. Stages are fetched in order.
  __device__ void fetch(int stage) {
    std::uint8_t* ring = shared_ + stage % kStages * S::kRaw;
    if (w_.aligned) {
      const int row = static_cast<int>(threadIdx.x) / kChunkLanes,
                at = static_cast<int>(threadIdx.x) % kChunkLanes * 16;
      const std::uint8_t* from = copied_;
      if (at < kChunks * 16) {
#pragma unroll
        for (int r = 0; r < kStageRows; r += kPassRows) {
          copy_chunk(ring + (row + r) * S::kSlot + at, from, copies_ && stage * kStageRows + row + r < rows_);
          from += kPassRows * w_.row_stride;
        }
      }
      copied_ += kStageRows * w_.row_stride;
    } else {
      for (int i = static_cast<int>(threadIdx.x); i < kStageRows * P::kRowBytes; i += kFusedThreads) {
        const int row = i / P::kRowBytes, at = i % P::kRowBytes;
        const std::int64_t from = static_cast<std::int64_t>(stage) * kStageRows + row;
        ring[row * S::kSlot + at] = from < rows_ && at < bytes_ ? source_[from * w_.row_stride + at] : 0;
      }
    }
    end_copy_group();
  }

  /// A thread's elements of a stage's gradient: the first, and how far they are from each other. Neighbouring threads
  /// read along the shorter stride.
  struct GradPlace {
    int row, token, row_step, token_step;
  };
  __device__ static GradPlace grad_place(bool along_rows) {
    const int thread = static_cast<int>(threadIdx.x);
    if (along_rows) return {thread % kStageRows, thread / kStageRows, 0, kFusedThreads / kStageRows};
    constexpr int kTokens = 8 * kTiles;
    return {thread / kTokens, thread % kTokens, kFusedThreads / kTokens, 0};
  }

  /// Stages are loaded in order.
  __device__ void load_grads(int stage) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const int row = stage * kStageRows + place_.row + i * place_.row_step,
                token = place_.token + i * place_.token_step;
      const bool inside = row < rows_ && token < w_.tokens;
      grads_[i] = inside ? gpu::load_as_f32(w_.grad, w_.grad_type, grad_at_ + i * grad_step_) : 0.0f;
    }
    grad_at_ += kStageRows * w_.grad_row_stride;
  }

  /// In the order in which a lane uses them: those of rows c, c + 4, c + 8, ... follow each other. False where one is
  /// not finite.
  __device__ bool store_grads(int stage) {
    auto* to = reinterpret_cast<float*>(shared_ + S::kGradsAt + stage % 2 * S::kGrads);
    bool finite = true;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const int row = place_.row + i * place_.row_step, token = place_.token + i * place_.token_step;
      to[token * kGradPitch + row % 4 * (kStageRows / 4) + row / 4] =
          P::kFolded ? grads_[i] : __uint_as_float(to_tf32(grads_[i]));
      finite = finite && is_finite(grads_[i]);
    }
    return finite;
  }

  __device__ Scale* scales_of(int stage) const {
    return reinterpret_cast<Scale*>(shared_ + S::kScalesAt + stage % 2 * S::kScales);
  }

  /// False where one is not finite.
  __device__ bool make_scales(int stage) {
    bool finite = true;
    if constexpr (P::kScales != 0) {
      constexpr int kCount = kStageRows * P::kScales;
#pragma unroll
      for (int i = 0; i < kCount; i += kFusedThreads) {
        const int at = i + static_cast<int>(threadIdx.x);
        if (kCount % kFusedThreads != 0 && at >= kCount) break;
        const int row = at / P::kScales, run = at % P::kScales;
        Scale s{};
        if (stage * kStageRows + row < rows_ && run * (kFusedColumns / P::kScales) < pieces_ * kPieceColumns) {
          s = P::scale(w_, row_at(stage, row), run, first_row_ + stage * kStageRows + row, tile_);
          finite = finite && is_finite(s);
        }
        scales_of(stage)[row * S::kScalePitch + run] = s;
      }
    }
    return finite;
  }

  template <bool kFinite>
  __device__ void multiply(int stage) {
    const int g = lane_ / 4, c = lane_ % 4;
    const auto* grads =
        reinterpret_cast<const float4*>(shared_ + S::kGradsAt + stage % 2 * S::kGrads) + g * (kGradPitch / 4) + c * 2;
#pragma unroll(kFinite ? 2 : 1)
    for (int pair = 0; pair < 2; ++pair) {
      float grad[kTiles][4];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const float4 four = grads[t * 8 * (kGradPitch / 4) + pair];
        grad[t][0] = four.x, grad[t][1] = four.y, grad[t][2] = four.z, grad[t][3] = four.w;
      }
      if constexpr (P::kFolded && kFinite) {
        multiply_units(stage, 16 * pair + c, grad);
      } else {
        multiply_values<kFinite>(stage, 16 * pair + c, grad);
      }
    }
  }

  /// Rows row, row + 4, row + 8, row + 12 of a stage.
  __device__ void multiply_units(int stage, int row, const float (&grad)[kTiles][4]) {
    const Scale* scales = scales_of(stage) + row * S::kScalePitch + panel_.scale_at;
    std::uint32_t b[kTiles][kSets][4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int s = 0; s < kSets; ++s) {
        const float scale = scales[4 * r * S::kScalePitch + s];
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          b[t][s][r] = finite_to_tf32(grad[t][r] * scale);
        }
      }
    }
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      std::uint32_t a[2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) panel_.units(row_at(stage, row + 4 * (2 * step + half)), table_, a[half]);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          const std::uint32_t(&factor)[4] = b[t][kSets == 1 ? 0 : m];
          multiply_tf32(sums_[t][m], a[0][2 * m], a[0][2 * m + 1], a[1][2 * m], a[1][2 * m + 1], factor[2 * step],
                        factor[2 * step + 1]);
        }
      }
    }
  }

  /// The same rows as decoded values.
  template <bool kFinite>
  __device__ void multiply_values(int stage, int row, const float (&grad)[kTiles][4]) {
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      std::uint32_t a[2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = row + 4 * (2 * step + half);
        panel_.template values<kFinite>(row_at(stage, at), scales_of(stage) + at * S::kScalePitch, table_, a[half]);
      }
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const std::uint32_t b0 = operand(grad[t][2 * step]), b1 = operand(grad[t][2 * step + 1]);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          multiply_tf32(sums_[t][m], a[0][2 * m], a[0][2 * m + 1], a[1][2 * m], a[1][2 * m + 1], b0, b1);
        }
      }
    }
  }

  /// A gradient as it is multiplied by decoded values: staged so, but for folded formats.
  __device__ static std::uint32_t operand(float grad) { return P::kFolded ? to_tf32(grad) : __float_as_uint(grad); }

  /// A lane has 4 columns of two tokens of each tile.
  __device__ void store() const {
    const std::int64_t column =
        (tile_ - w_.first_tile) * kFusedColumns + static_cast<int>(threadIdx.x) / 32 * kPieceColumns;
    float* part = w_.parts + split_ * w_.part_stride + column;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int token = 8 * t + 2 * (lane_ % 4) + i;
        if (token >= w_.tokens) continue;
        float* to = part + token * w_.part_token_stride;
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          *reinterpret_cast<float2*>(to + panel_.column(2 * m)) = make_float2(sums_[t][m][i], sums_[t][m][2 + i]);
        }
      }
    }
  }

  const FusedWork& w_;
  std::uint8_t* shared_;
  const float* table_;
  std::int64_t tile_, split_;
  int lane_;
  P panel_;
  std::int64_t first_row_;      ///< of this block's share
  int rows_;                    ///< likewise
  const std::uint8_t* source_;  ///< its first row's bytes of these columns
  int pieces_, bytes_;          ///< of a row, in these columns
  int shift_, shift_step_;
  const std::uint8_t* copied_;  ///< what this thread copies next
  bool copies_;
  GradPlace place_;
  std::int64_t grad_at_, grad_step_;  ///< this thread's next element, and from one to the next
  float grads_[kTiles];               ///< of a stage ahead, on their way
  float sums_[kTiles][2][4] = {};
};

template <class F, int kTiles>
__global__ void __launch_bounds__(kFusedThreads, 4) fused_kernel(const __grid_constant__ FusedWork work) {
#if NIBBLE_TF32_CORES
  extern __shared__ __align__(16) std::uint8_t shared[];
  __shared__ float table[Panel<F>::kTable];
  Panel<F>::fill(work, table);
  Fused<F, kTiles>(work, shared, table).run();
#endif
}

/// Launches for a format of the engine.
template <Engine engine>
nibble_status launch_fused(nibble_format format, const FusedWork& work, gpu::Stream stream, nibble_text* why) {
  nibble_status status = NIBBLE_UNSUPPORTED;
  visit_format(format, [&](auto f) {
    using F = decltype(f);
    if constexpr (F::kEngine == engine) {
      const auto go = [&](auto kernel, int bytes) {
        return gpu::launch(kernel,
                           {"fused out_prod", static_cast<std::uint64_t>(work.tiles * work.splits), kFusedThreads,
                            static_cast<std::uint32_t>(bytes)},
                           stream, why, work);
      };
      if (work.tokens <= 8) {
        status = go(fused_kernel<F, 1>, FusedShared<F, 1>::kBytes);
      } else {
        status = go(fused_kernel<F, 2>, FusedShared<F, 2>::kBytes);
      }
    }
  });
  return status;
}

}  // namespace nibble::cuda

#endif
