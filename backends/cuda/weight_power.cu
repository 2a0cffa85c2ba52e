// The power of two by which a weight fits halves, from its scales alone.
// Apart from the decoders because no value is made here, and from the fused products because nothing is multiplied.
#include "backends/cuda/panels.h"
#include "backends/cuda/scaled_half.h"

namespace nibble::cuda {
namespace {

constexpr int kThreads = 256;

/// No value of a row's 256 columns is larger.
template <class F>
__device__ float tile_bound(const FusedWork& w, std::int64_t row, std::int64_t tile, float unit) {
  using P = Panel<F>;
  [[maybe_unused]] const std::uint8_t* bytes = w.weight + row * w.row_stride + tile * P::kRowBytes;
  const auto columns =
      static_cast<int>(min(static_cast<std::int64_t>(kFusedColumns), w.columns - tile * kFusedColumns));
  float largest = 0.0f;
  // What goes beyond f32 counts as its largest number: values of smaller codes are finite all the same.
  const auto take = [&](const Scale& s, float by, float min_by) {
    const float bound = larger_finite(0.0f, s.scale) * by + larger_finite(0.0f, s.min) * min_by;
    largest = fmaxf(largest, fminf(bound, 0x1.fffffep127f));
  };
  if constexpr (requires { F::kScaleBits; }) {
    constexpr float kInteger = static_cast<float>(1 << F::kScaleBits);
    take(typename P::Header(bytes).row_scale(), unit * kInteger, kInteger);
  } else {
    if constexpr (P::kScalesApart) {
      constexpr int kPieces = kFusedColumns / kPieceColumns;
      typename P::Held held[kPieces];
      float scale[kPieces];
      P::load(w, row, tile, columns, 0, held);
      P::make(w, held, scale);
#pragma unroll
      for (int i = 0; i < kPieces; ++i) take({scale[i], 0.0f}, unit, 1.0f);
    } else {
      const int runs = columns / kPieceColumns * P::kSets;
#pragma unroll 4
      for (int run = 0; run < runs; ++run) take(typename P::Header(bytes).scale(run, 0), unit, 1.0f);
    }
  }
  return largest;
}

template <class F>
__global__ void __launch_bounds__(kThreads) bound_kernel(const __grid_constant__ FusedWork w, float* partial) {
  __shared__ float warps[kThreads / 32];
  const int thread = static_cast<int>(threadIdx.x);
  const float unit = Panel<F>::unit_bound(w);
  const std::int64_t tiles = (w.columns + kFusedColumns - 1) / kFusedColumns;
  float largest = 0.0f;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + thread; at < w.rows * tiles;
       at += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    largest = fmaxf(largest, tile_bound<F>(w, at / tiles, at % tiles, unit));
  }
  largest = largest_of_warp(largest);
  if (lane_of_warp() == 0) warps[warp_of_block()] = largest;
  __syncthreads();
  if (thread >= 32) return;
  largest = largest_of_warp(thread < kThreads / 32 ? warps[thread] : 0.0f);
  if (thread == 0) partial[blockIdx.x] = largest;
}

__global__ void __launch_bounds__(32) weight_power_kernel(const float* partial, float* power) {
  float largest = 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < kBoundParts; i += 32) largest = fmaxf(largest, partial[i]);
  largest = largest_of_warp(largest);
  if (threadIdx.x == 0) *power = power_to_reach<14>(largest);
}

}  // namespace

nibble_status weight_power(nibble_format format, const FusedWork& work, float* partial, float* power,
                           gpu::Stream stream, nibble_text* why) {
  nibble_status status = NIBBLE_UNSUPPORTED;
  visit_format(format, [&](auto f) {
    using F = decltype(f);
    if constexpr (F::kEngine != Engine::element) {
      status = gpu::launch(bound_kernel<F>, {"weight's bound", kBoundParts, kThreads}, stream, why, work, partial);
    }
  });
  if (status != NIBBLE_OK) return status;
  return gpu::launch(weight_power_kernel, {"weight's power", 1, 32}, stream, why, partial, power);
}

}  // namespace nibble::cuda
