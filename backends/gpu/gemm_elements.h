// The element-wise kernels around a product: operands widened and packed, results rounded and stored.
// Apart from the products because they are needed whichever engine multiplies.
#ifndef NIBBLE_BACKENDS_GPU_GEMM_ELEMENTS_H
#define NIBBLE_BACKENDS_GPU_GEMM_ELEMENTS_H

#include "backends/gpu/device.h"
#include "backends/gpu/gemm.h"
#include "backends/gpu/gemm_load.h"

#include <type_traits>

namespace nibble::gpu {

/// Calls f(i, j, batch) for this thread's share of an array of inner x outer x batches, i along inner. It divides once:
/// afterwards the step from one of its elements to the next is carried from i to j to batch.
template <class F>
__device__ void for_each_element(std::int64_t inner, std::int64_t outer, std::int64_t batches, F&& f) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t step_i = step % inner, step_j = step / inner % outer, step_batch = step / inner / outer;
  std::int64_t i = first % inner, j = first / inner % outer, batch = first / inner / outer;
  while (batch < batches) {
    f(i, j, batch);
    i += step_i;
    j += step_j;
    batch += step_batch;
    if (i >= inner) {
      i -= inner;
      ++j;
    }
    if (j >= outer) {
      j -= outer;
      ++batch;
    }
  }
}

__global__ void pack_kernel(Pack p) {
  for_each_element(p.inner, p.outer, p.batch, [&](std::int64_t i, std::int64_t j, std::int64_t batch) {
    float x = load_as_f32(p.in, p.type, batch * p.batch_stride + j * p.outer_stride + i * p.inner_stride);
    if (p.inner_powers != nullptr) x *= p.inner_powers[i];
    if (p.outer_powers != nullptr) x *= p.outer_powers[j];
    store_rounded(p.out, p.out_type, (batch * p.outer + j) * p.inner + i, x);
  });
}

/// Eight neighbours, all of them aligned to 16 bytes.
__device__ inline void load_eight(const void* data, nibble_format type, std::int64_t index, float (&out)[8]) {
  const auto* at = static_cast<const std::uint8_t*>(data) + index * (type == NIBBLE_F32 ? 4 : 2);
  if (type == NIBBLE_F32) {
    const float4 x = reinterpret_cast<const float4*>(at)[0], y = reinterpret_cast<const float4*>(at)[1];
    out[0] = x.x, out[1] = x.y, out[2] = x.z, out[3] = x.w, out[4] = y.x, out[5] = y.y, out[6] = y.z, out[7] = y.w;
    return;
  }
  const uint4 x = *reinterpret_cast<const uint4*>(at);
  const std::uint32_t words[4] = {x.x, x.y, x.z, x.w};
  for (int i = 0; i < 8; ++i) {
    const std::uint32_t bits = words[i / 2] >> i % 2 * 16 & 0xffffu;
    out[i] = type == NIBBLE_F16 ? float_from_half(bits) : float_from_bfloat16(bits);
  }
}

/// The same as pack_kernel, eight neighbours a thread and step, to halves or bfloat16.
template <class Out>
__global__ void pack_eight_kernel(Pack p) {
  for_each_element(p.inner / 8, p.outer, p.batch, [&](std::int64_t eight, std::int64_t j, std::int64_t batch) {
    float x[8];
    load_eight(p.in, p.type, batch * p.batch_stride + j * p.outer_stride + eight * 8, x);
    const float outer = p.outer_powers != nullptr ? p.outer_powers[j] : 1.0f;
    if (p.inner_powers != nullptr) {
      float powers[8];
      load_eight(p.inner_powers, NIBBLE_F32, eight * 8, powers);
      for (int i = 0; i < 8; ++i) x[i] *= powers[i];
    }
    for (int i = 0; i < 8; ++i) x[i] *= outer;
    *reinterpret_cast<Word16*>(static_cast<std::uint8_t*>(p.out) + ((batch * p.outer + j) * p.inner + eight * 8) * 2) =
        packed<Out>(x);
  });
}

/// Whether it serves.
inline bool packs_eight(const Pack& p) {
  const std::int64_t bytes = p.type == NIBBLE_F32 ? 4 : 2;
  const auto whole = [bytes](std::int64_t stride) { return stride * bytes % 16 == 0; };
  return p.out_type != NIBBLE_F32 && p.inner_stride == 1 && p.inner % 8 == 0 &&
         (p.outer == 1 || whole(p.outer_stride)) && (p.batch == 1 || whole(p.batch_stride)) && is_aligned(p.in, 16) &&
         is_aligned(p.out, 16) && is_aligned(p.inner_powers, 16);
}

/// kWide neighbours of m: 1, or 4 where m is a multiple of that.
template <int kWide>
__device__ inline void add_wide(const float* from, float (&sum)[kWide]) {
  using Wide = std::conditional_t<kWide == 4, float4, float>;
  const Wide held = *reinterpret_cast<const Wide*>(from);
  NIBBLE_UNROLL
  for (int w = 0; w < kWide; ++w) sum[w] += reinterpret_cast<const float*>(&held)[w];
}
/// Where the first part has them, and what becomes of them when all parts are added.
template <int kWide>
__device__ inline const float* sums_at(const Finish& f, std::int64_t wide, std::int64_t j, std::int64_t batch) {
  return f.sums + (batch * f.n + j) * f.m + wide * kWide;
}
template <int kWide>
__device__ inline void store_sums(const Finish& f, std::int64_t wide, std::int64_t j, std::int64_t batch,
                                  float (&sum)[kWide]) {
  NIBBLE_UNROLL
  for (int w = 0; w < kWide; ++w) {
    const std::int64_t i = wide * kWide + w, at = batch * f.out_batch_stride + j * f.out_stride + i;
    if (f.powers != nullptr) sum[w] = times_power_of_two(sum[w], -exponent_of(f.powers[j]) - exponent_of(*f.power));
    if (f.bias != nullptr) sum[w] += load_as_f32(f.bias, f.bias_type, i * f.bias_stride);
    if (f.add) sum[w] += load_as_f32(f.out, f.type, at);
    store_rounded(f.out, f.type, at, sum[w]);
  }
}

/// A thread adds all parts of an element, or of four, and goes on with others.
template <int kWide>
__global__ void finish_kernel(Finish f) {
  for_each_element(f.m / kWide, f.n, f.batch, [&](std::int64_t wide, std::int64_t j, std::int64_t batch) {
    const float* sums = sums_at<kWide>(f, wide, j, batch);
    float sum[kWide] = {};
#pragma unroll 8
    for (std::int64_t part = 0; part < f.parts; ++part) add_wide(sums + part * f.batch * f.n * f.m, sum);
    store_sums(f, wide, j, batch, sum);
  });
}

/// For few elements, one or four of which a block's kSlices threads add together: each every so many-th part, then one
/// their sums.
inline constexpr int kSlices = 8, kSlicedItems = 32;
template <int kWide>
__global__ void __launch_bounds__(kSlices* kSlicedItems) finish_slices_kernel(Finish f) {
  __shared__ float slices[kSlices][kSlicedItems][kWide];
  const int own = static_cast<int>(threadIdx.x) % kSlicedItems, slice = static_cast<int>(threadIdx.x) / kSlicedItems;
  const int inner = static_cast<int>(f.m) / kWide, outer = static_cast<int>(f.n);
  const int item = static_cast<int>(blockIdx.x) * kSlicedItems + own;
  const int wide = item % inner, j = item / inner % outer, batch = item / inner / outer;
  const bool is_there = batch < static_cast<int>(f.batch);
  float sum[kWide] = {};
  if (is_there) {
    const float* sums = sums_at<kWide>(f, wide, j, batch);
#pragma unroll 4
    for (std::int64_t part = slice; part < f.parts; part += kSlices) add_wide(sums + part * f.batch * f.n * f.m, sum);
  }
  for (int w = 0; w < kWide; ++w) slices[slice][own][w] = sum[w];
  __syncthreads();
  if (slice != 0 || !is_there) return;
  for (int s = 1; s < kSlices; ++s) {
    for (int w = 0; w < kWide; ++w) sum[w] += slices[s][own][w];
  }
  store_sums(f, wide, j, batch, sum);
}

/// Threads that read several numbers for an element take one element each, so that few elements still fill a device.
inline Launch element_launch(const char* name, std::int64_t elements, std::int64_t per_thread = 4) {
  constexpr std::int64_t kThreads = 256;
  const std::int64_t per_block = kThreads * per_thread;
  return {.name = name,
          .blocks = static_cast<std::uint64_t>((elements + per_block - 1) / per_block),
          .threads = static_cast<std::uint32_t>(kThreads)};
}

nibble_status pack(const Pack& p, Stream stream, nibble_text* why) {
  if (packs_eight(p)) {
    const auto kernel = p.out_type == NIBBLE_F16 ? pack_eight_kernel<AsHalf> : pack_eight_kernel<AsBfloat16>;
    return launch(kernel, element_launch("pack", p.inner / 8 * p.outer * p.batch, 1), stream, why, p);
  }
  return launch(pack_kernel, element_launch("pack", p.inner * p.outer * p.batch), stream, why, p);
}

nibble_status finish(const Finish& f, Stream stream, nibble_text* why) {
  // Elements of which four a thread, or with all of their parts one a thread, would leave a device idle.
  constexpr std::int64_t kFew = 1 << 14, kSome = 1 << 18;
  const std::int64_t elements = f.m * f.n * f.batch;
  if (f.parts <= 1) return launch(finish_kernel<1>, element_launch("finish", elements), stream, why, f);
  const bool by_four = elements >= kFew && f.m % 4 == 0 && is_aligned(f.sums, 16);
  const std::int64_t items = by_four ? elements / 4 : elements;
  if (elements >= kSome) {
    return launch(by_four ? finish_kernel<4> : finish_kernel<1>, element_launch("finish", items, 1), stream, why, f);
  }
  return launch(
      by_four ? finish_slices_kernel<4> : finish_slices_kernel<1>,
      {"finish", static_cast<std::uint64_t>((items + kSlicedItems - 1) / kSlicedItems), kSlices * kSlicedItems}, stream,
      why, f);
}

}  // namespace nibble::gpu

#endif
