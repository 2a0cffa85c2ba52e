// What a fused product needs of each engine's formats: a row's bytes of 256 columns, scales, and codes as halves.
// Apart from the product so that it knows no engine, and from the decoders' bodies because those know no columns.
#ifndef NIBBLE_BACKENDS_CUDA_PANELS_H
#define NIBBLE_BACKENDS_CUDA_PANELS_H

#include "backends/cuda/panel_runs.h"
#include "backends/cuda/powers.h"
#include "backends/gpu/device_grid.h"

namespace nibble::cuda {

template <class F>
requires(F::kEngine == Engine::base3) struct Panel<F> : BlockPanel<F>, LaneColumns<32> {
  static __device__ float unit_bound(const FusedWork&) { return 1.0f; }
  struct Header {
    const std::uint8_t* row;
    __device__ Header(const FusedWork&, const std::uint8_t* at, std::int64_t, std::int64_t) : row(at) {}
    [[nodiscard]] __device__ Scale scale(int first, int i) const {
      return {F::scale(row + (first + i) * kPieceColumns / F::kBlockValues * F::kBlockBytes), 0.0f};
    }
  };
  __device__ Panel(unsigned piece_column, int group)
      : LaneColumns<32>{group},
        block(static_cast<int>(piece_column / F::kBlockValues * F::kBlockBytes)),
        place(static_cast<int>(piece_column % F::kBlockValues) + 4 * group) {}
  __device__ void pairs(const std::uint8_t* a, const std::uint8_t* b, const std::uint32_t*,
                        std::uint32_t (&out)[4]) const {
    byte_pairs<1>(gpu::base3_digits4(a + block, place), gpu::base3_digits4(b + block, place), out);
  }

 private:
  int block;
  gpu::Base3Place<F> place;
};

template <class F>
requires(F::kEngine == Engine::grid) struct Panel<F> : BlockPanel<F>, LaneColumns<F::kScaleGroups * 8> {
  using Columns = LaneColumns<F::kScaleGroups * 8>;
  using Columns::kSets;
  static constexpr int kRunLength = F::kScaleGroups * 8, kRuns = F::kBlockValues / kRunLength;

  static __device__ float unit_bound(const FusedWork&) { return 129.0f; }
  struct Header {
    const std::uint8_t* row;
    __device__ Header(const FusedWork&, const std::uint8_t* at, std::int64_t, std::int64_t) : row(at) {}
    [[nodiscard]] __device__ Scale scale(int first, int i) const {
      const int run = first + i;
      return {F::group(row + run / kRuns * F::kBlockBytes, run % kRuns * F::kScaleGroups).scale, 0.0f};
    }
  };
  __device__ Panel(unsigned piece_column, int group)
      : Columns{group},
        block(static_cast<int>(piece_column / F::kBlockValues * F::kBlockBytes)),
        begin(static_cast<int>(piece_column % F::kBlockValues)) {}
  __device__ void pairs(const std::uint8_t* a, const std::uint8_t* b, const std::uint32_t*,
                        std::uint32_t (&out)[4]) const {
    const Four x = four(a), y = four(b);
    byte_pairs<128>(x.entry, y.entry, out);
    const std::uint32_t signs = x.signs | y.signs << 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (F::kHasDelta) {
        out[i] = add_halves(out[i], to_halves(x.delta[i / (4 / kSets)], y.delta[i / (4 / kSets)]));
      }
      out[i] ^= signs << (15 - i) & 0x80008000u;
    }
  }

 private:
  /// A row's 4 columns: biased bytes, a sign bit each, and what is added to those of a set.
  struct Four {
    std::uint32_t entry = 0, signs = 0;
    float delta[kSets] = {};
  };
  [[nodiscard]] __device__ Four four(const std::uint8_t* row) const {
    Four out;
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      const int column = begin + s * kRunLength + this->first();  // of the block
      const GridGroup group = F::group(row + block, column / 8);
      const std::uint32_t half = half_entry(group, column % 8 / 4);
      const std::uint32_t signs = group.signs >> column % 8;
      if constexpr (kSets == 1) {
        out.entry = half, out.signs = signs & 15u;
      } else {
        const std::uint32_t two = half >> column % 4 * 8 & 0xffffu;
        out.entry |= two << 16 * s, out.signs |= (signs & 3u) << 2 * s;
      }
      out.delta[s] = group.delta;
    }
    return out;
  }
  static __device__ std::uint32_t half_entry(const GridGroup& group, int half) {
    const auto* grid = gpu::device_grid<F::kGrid>.entries;
    if constexpr (sizeof(typename F::Entry) == 8) {
      return reinterpret_cast<const gpu::Word8*>(grid)[group.index[0]].w[half];
    } else {
      return grid[half == 0 ? group.index[0] : group.index[1]];
    }
  }

  int block, begin;
};

/// Codes over the whole tensor: rows of whole pieces, each in one of the weight's blocks.
template <class F>
requires(F::kEngine == Engine::flat4 || F::kEngine == Engine::flat8) struct Panel<F> : LaneColumns<32> {
  static constexpr int kBits = gpu::kFlatBits<F>;
  static constexpr int kBlockValues = kPieceColumns, kBlockBytes = kPieceColumns * kBits / 8;
  static constexpr int kRowBytes = kFusedColumns * kBits / 8;
  static constexpr bool kHasMin = false;
  static constexpr int kTable = 1 << kBits;

  static __device__ float fill(const FusedWork& w, std::uint32_t* table) {
    float power = 1.0f;
    if constexpr (kBits == 8) {
      power = power_to_reach<3>(unit_bound(w));
      const int thread = static_cast<int>(threadIdx.x);
      if (thread < 256) table[thread] = to_halves(w.code[thread] * power, 0.0f);
    } else {
      fill_code_table<F>(table);
    }
    return power;
  }
  static __device__ float unit_bound(const FusedWork& w) {
    float largest = 1.0f;
    if constexpr (kBits == 8) {
      largest = 0.0f;
      for (int i = lane_of_warp(); i < 256; i += 32) largest = larger_finite(largest, w.code[i]);
      largest = largest_of_warp(largest);
    }
    return largest;
  }
  struct Header {
    const FusedWork& w;
    std::int64_t first_value;
    __device__ Header(const FusedWork& work, const std::uint8_t*, std::int64_t row, std::int64_t tile)
        : w(work), first_value(row * work.columns + tile * kFusedColumns) {}
    /// Behind the last column, whose scale does not count, another of the weight's.
    [[nodiscard]] __device__ Scale scale(int first, int i) const {
      const std::int64_t value = min(first_value + (first + i) * kPieceColumns, w.rows * w.columns - 1);
      return {w.scales[value >> w.block_shift], 0.0f};
    }
  };

  __device__ Panel(unsigned piece_column, int group)
      : LaneColumns<32>{group}, at((static_cast<int>(piece_column) + 4 * group) * kBits / 8) {}
  __device__ void pairs(const std::uint8_t* a, const std::uint8_t* b, const std::uint32_t* table,
                        std::uint32_t (&out)[4]) const {
    looked_up_pairs(codes(a), codes(b), table, out);
  }

 private:
  /// A byte each.
  [[nodiscard]] __device__ std::uint32_t codes(const std::uint8_t* row) const {
    if constexpr (kBits == 8) return *reinterpret_cast<const std::uint32_t*>(row + at);
    const std::uint32_t twice = gpu::pick_bytes(*reinterpret_cast<const std::uint16_t*>(row + at), 0u, 0x1100u);
    return (twice >> 4 & 0x000f000fu) | (twice & 0x0f000f00u);
  }

  int at;
};

}  // namespace nibble::cuda

#endif
