// The gradient of a fused out_prod in the order in which lanes multiply it, its largest elements known.
// Apart from the product because it is done once a call, for all columns of the weight.
#include "backends/cuda/fused_out_prod.h"
#include "backends/cuda/mma.h"
#include "backends/cuda/powers.h"
#include "backends/gpu/device.h"
#include "backends/gpu/gemm_load.h"

#include <algorithm>
#include <type_traits>

namespace nibble::cuda {
namespace {

constexpr int kThreads = 256;

/// The gradient's elements, of a type that is known, so that loads do not wait for each other.
template <nibble_format kType>
struct Grad {
  const PackedGrads& g;
  [[nodiscard]] __device__ float operator()(std::int64_t row, int token) const {
    return gpu::load_as_f32(g.grad, kType, row * g.row_stride + token * g.token_stride);
  }
  /// Whether rows `row` to row + 3, a multiple of 4 and what follows, can be loaded at once.
  [[nodiscard]] __device__ bool has_fours() const {
    constexpr int kBytes = kType == NIBBLE_F32 ? 4 : 2;
    return g.row_stride == 1 && (g.token_stride % 4 == 0 || g.tokens == 1) && gpu::is_aligned(g.grad, 4 * kBytes);
  }
  __device__ void four(std::int64_t row, int token, float (&out)[4]) const {
    const std::int64_t at = row + token * g.token_stride;
    if constexpr (kType == NIBBLE_F32) {
      const float4 x = *reinterpret_cast<const float4*>(static_cast<const float*>(g.grad) + at);
      out[0] = x.x, out[1] = x.y, out[2] = x.z, out[3] = x.w;
    } else {
      const uint2 x = *reinterpret_cast<const uint2*>(static_cast<const std::uint16_t*>(g.grad) + at);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t bits = (i < 2 ? x.x : x.y) >> i % 2 * 16 & 0xffffu;
        out[i] = kType == NIBBLE_F16 ? float_from_half(bits) : float_from_bfloat16(bits);
      }
    }
  }
};
template <class Visit>
__device__ inline void with_grad(const PackedGrads& g, Visit&& visit) {
  const auto go = [&]<nibble_format kType>(std::integral_constant<nibble_format, kType>) { visit(Grad<kType>{g}); };
  if (g.type == NIBBLE_F32) {
    go(std::integral_constant<nibble_format, NIBBLE_F32>{});
  } else if (g.type == NIBBLE_F16) {
    go(std::integral_constant<nibble_format, NIBBLE_F16>{});
  } else {
    go(std::integral_constant<nibble_format, NIBBLE_BF16>{});
  }
}

/// The power of two from `tokens` on, at most kMostFusedTokens.
__device__ inline int width_for(int tokens) { return 1 << (32 - __clz(tokens - 1)) % 32; }

/// Keeps the larger in shared memory; neither is negative, so their bits are ordered as they are.
__device__ inline void keep_larger(float* shared, float x) {
  atomicMax(reinterpret_cast<unsigned*>(shared), __float_as_uint(x));
}

/// The largest finite element among every `step`-th row. Eight loads are under way at a time.
template <class Load>
__device__ inline float largest_of(const Load& load, std::int64_t row, std::int64_t end, int step, int token) {
  float x = 0.0f;
  for (; row + 7 * step < end; row += 8 * step) {
    float eight[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) eight[i] = load(row + i * step, token);
#pragma unroll
    for (int i = 0; i < 8; ++i) x = larger_finite(x, eight[i]);
  }
  for (; row < end; row += step) x = larger_finite(x, load(row, token));
  return x;
}

/// The same of rows from `row` to `end`, four at a time for each lane of a warp.
template <class Load>
__device__ inline float largest_of_fours(const Load& load, std::int64_t row, std::int64_t end, int token) {
  float x = 0.0f;
#pragma unroll 4
  for (row += 4 * lane_of_warp(); row + 3 < end; row += 128) {
    float four[4];
    load.four(row, token, four);
#pragma unroll
    for (int i = 0; i < 4; ++i) x = larger_finite(x, four[i]);
  }
  for (; row < end; ++row) x = larger_finite(x, load(row, token));  // the last lane's rest
  return x;
}

/// The tokens that a block looks at, kMostFusedTokens or the last ones, and where their maxima of all chunks lie.
__device__ inline PackedGrads group_of(PackedGrads g, std::int64_t chunks, std::int64_t group) {
  const std::int64_t token = group * kMostFusedTokens;
  g.grad = static_cast<const std::uint8_t*>(g.grad) + token * g.token_stride * (g.type == NIBBLE_F32 ? 4 : 2);
  g.maxima += chunks * token;
  g.powers += token;
  g.tokens = min(kMostFusedTokens, g.tokens - static_cast<int>(token));
  return g;
}

/// A chunk's largest finite element of each token. Neighbouring threads read along the shorter stride.
__global__ void __launch_bounds__(kThreads) max_grads_kernel(PackedGrads all, std::int64_t chunks) {
  __shared__ float largest[kMostFusedTokens];
  const PackedGrads g = group_of(all, chunks, blockIdx.x / chunks);
  const std::int64_t chunk = blockIdx.x % chunks;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < g.tokens) largest[thread] = 0.0f;
  __syncthreads();
  const std::int64_t each = chunk_rows(g.rows, all.tokens), first = chunk * each, end = min(first + each, g.rows);
  if (g.row_stride <= g.token_stride) {
    with_grad(g, [&](const auto& load) {
      const bool fours = load.has_fours();
      for (int token = warp_of_block(); token < g.tokens; token += kThreads / 32) {  // a warp's; no other writes to it
        const float x = largest_of_warp(fours ? largest_of_fours(load, first, end, token)
                                              : largest_of(load, first + lane_of_warp(), end, 32, token));
        if (lane_of_warp() == 0) largest[token] = x;
      }
    });
  } else {
    const int width = width_for(g.tokens), token = thread % width;
    if (token < g.tokens) {
      with_grad(g, [&](const auto& load) {
        keep_larger(largest + token, largest_of(load, first + thread / width, end, kThreads / width, token));
      });
    }
  }
  __syncthreads();
  if (thread < g.tokens) g.maxima[chunk * g.tokens + thread] = largest[thread];
}

/// Leaves the largest of all chunks in the place of the first; for more tokens than one block joins quickly. A block
/// has 32 tokens.
constexpr int kJoinThreads = 1024;
__global__ void __launch_bounds__(kJoinThreads) join_maxima_kernel(PackedGrads all, std::int64_t chunks) {
  __shared__ float largest[32];
  constexpr int kBlocks = kMostFusedTokens / 32;  // a group
  const PackedGrads g = group_of(all, chunks, blockIdx.x / kBlocks);
  const int lane = lane_of_warp(), token = static_cast<int>(blockIdx.x) % kBlocks * 32 + lane;
  if (threadIdx.x < 32) largest[lane] = 0.0f;
  __syncthreads();
  float x = 0.0f;
  if (token < g.tokens) {
#pragma unroll 4
    for (std::int64_t chunk = threadIdx.x / 32; chunk < chunks; chunk += kJoinThreads / 32)
      x = fmaxf(x, g.maxima[chunk * g.tokens + token]);
    keep_larger(largest + lane, x);
  }
  __syncthreads();
  if (threadIdx.x < 32 && token < g.tokens) g.maxima[token] = largest[lane];
}

/// The largest of all chunks' maxima of each token, in shared memory.
__device__ inline void join_maxima(const PackedGrads& g, std::int64_t chunks, float* largest) {
  const int thread = static_cast<int>(threadIdx.x), width = width_for(g.tokens), token = thread % width;
  if (thread < kMostFusedTokens) largest[thread] = 0.0f;
  __syncthreads();
  if (token < g.tokens) {
    float x = 0.0f;
#pragma unroll 8
    for (std::int64_t chunk = thread / width; chunk < chunks; chunk += kThreads / width) {
      x = fmaxf(x, g.maxima[chunk * g.tokens + token]);
    }
    keep_larger(largest + token, x);
  }
  __syncthreads();
}

/// Of maxima that are joined.
__global__ void __launch_bounds__(kThreads) grad_powers_kernel(PackedGrads all, std::int64_t chunks) {
  const PackedGrads g = group_of(all, chunks, blockIdx.x);
  const int token = static_cast<int>(threadIdx.x);
  if (token < g.tokens) g.powers[token] = power_to_reach<14>(g.maxima[token]);
}

/// Of four neighbouring lanes that hold rows 4c to 4c + 3 each: lane c gets rows c, c + 4, c + 8 and c + 12.
__device__ inline void exchange_rows(float (&x)[4]) {
  const auto swap = [](float& a, float& b, unsigned bit) {  // b of lanes without the bit for a of those with it
    const bool has = (threadIdx.x & bit) != 0;
    const float other = __shfl_xor_sync(0xffffffffu, has ? a : b, static_cast<int>(bit));
    (has ? a : b) = other;
  };
  swap(x[0], x[1], 1);
  swap(x[2], x[3], 1);
  swap(x[0], x[2], 2);
  swap(x[1], x[3], 2);
}

/// A thread packs what one lane holds of a unit and a tile.
__global__ void __launch_bounds__(kThreads) pack_grads_kernel(PackedGrads g, std::int64_t chunks, std::int64_t count) {
  __shared__ float largest[kMostFusedTokens];
  const int thread = static_cast<int>(threadIdx.x), tiles = g.layout.tiles;
  join_maxima(g, chunks, largest);
  if (blockIdx.x == 0 && thread < g.tokens) {
    g.powers[thread] = static_cast<float>(1 << kGradExponent) / power_to_reach<kGradExponent>(largest[thread]);
  }
  with_grad(g, [&](const auto& load) {
    const bool fours = load.has_fours();
#pragma unroll 4
    for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + thread; at < count;
         at += static_cast<std::int64_t>(gridDim.x) * kThreads) {
      const int lane = static_cast<int>(at % 32), token = static_cast<int>(at / 32 % tiles) * 8 + lane / 4;
      const std::int64_t unit = at / 32 / tiles * kUnitRows;
      const float power = power_to_reach<kGradExponent>(largest[token]);
      float x[4] = {};
      if (fours && unit + kUnitRows <= g.rows) {  // the same for a warp
        if (token < g.tokens) load.four(unit + lane % 4 * 4, token, x);
        exchange_rows(x);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const std::int64_t row = unit + lane % 4 + 4 * i;
          if (row < g.rows && token < g.tokens) x[i] = load(row, token);
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] *= power;
      if (g.layout.cores == Cores::warpgroup) {
        auto* tile = reinterpret_cast<std::uint32_t*>(g.packed) + at / 32 * 64;
        tile[lane] = to_halves(x[0], x[1]);
        tile[32 + lane] = to_halves(x[2], x[3]);
      } else if (g.layout.form == FusedForm::values) {
        reinterpret_cast<uint2*>(g.packed)[at] = make_uint2(to_halves(x[0], x[1]), to_halves(x[2], x[3]));
      } else {
        reinterpret_cast<float4*>(g.packed)[at] = make_float4(x[0], x[1], x[2], x[3]);
      }
    }
  });
}

}  // namespace

namespace {
std::uint64_t groups_of(const PackedGrads& grads) {
  return static_cast<std::uint64_t>((grads.tokens + kMostFusedTokens - 1) / kMostFusedTokens);
}

nibble_status join_maxima(const PackedGrads& grads, std::int64_t chunks, gpu::Stream stream, nibble_text* why) {
  const std::uint64_t blocks = groups_of(grads) * (kMostFusedTokens / 32);
  return gpu::launch(join_maxima_kernel, {"gradient's maxima, joined", blocks, kJoinThreads}, stream, why, grads,
                     chunks);
}

nibble_status find_maxima(const PackedGrads& grads, std::int64_t chunks, gpu::Stream stream, nibble_text* why) {
  const std::uint64_t blocks = groups_of(grads) * static_cast<std::uint64_t>(chunks);
  return gpu::launch(max_grads_kernel, {"gradient's maxima", blocks, kThreads}, stream, why, grads, chunks);
}
}  // namespace

nibble_status grad_powers(const PackedGrads& grads, gpu::Stream stream, nibble_text* why) {
  const std::int64_t chunks = max_chunks(grads.rows, grads.tokens);
  if (const nibble_status s = find_maxima(grads, chunks, stream, why); s != NIBBLE_OK) return s;
  if (const nibble_status s = join_maxima(grads, chunks, stream, why); s != NIBBLE_OK) return s;
  return gpu::launch(grad_powers_kernel, {"gradient's powers", groups_of(grads), kThreads}, stream, why, grads, chunks);
}

nibble_status pack_grads(const PackedGrads& grads, gpu::Stream stream, nibble_text* why) {
  std::int64_t chunks = max_chunks(grads.rows, grads.tokens);
  if (const nibble_status s = find_maxima(grads, chunks, stream, why); s != NIBBLE_OK) return s;
  if (grads.tokens > kJoinedByAll) {
    if (const nibble_status s = join_maxima(grads, chunks, stream, why); s != NIBBLE_OK) return s;
    chunks = 1;
  }
  const std::int64_t most_blocks = chunks == 1 ? 2048 : 512;  // few, where each starts by reading many maxima
  const std::int64_t count = grads.layout.bytes(grads.rows) / (grad_tile_bytes(grads.layout.form) / 32);
  const std::int64_t blocks = std::min((count + kThreads - 1) / kThreads, most_blocks);
  return gpu::launch(pack_grads_kernel, {"pack gradient", static_cast<std::uint64_t>(blocks), kThreads}, stream, why,
                     grads, chunks, count);
}

}  // namespace nibble::cuda
