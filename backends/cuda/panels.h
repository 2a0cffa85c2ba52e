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
    __device__ explicit Header(const std::uint8_t* at) : row(at) {}
    [[nodiscard]] __device__ Scale scale(int first, int i) const {
      return {F::scale(row + (first + i) * kPieceColumns / F::kBlockValues * F::kBlockBytes), 0.0f};
    }
  };
  __device__ Panel(unsigned piece_column, int group)
      : LaneColumns<32>{group},
        block(static_cast<int>(piece_column / F::kBlockValues * F::kBlockBytes)),
        place(static_cast<int>(piece_column % F::kBlockValues) + 4 * group) {}
  __device__ void pairs(const std::uint8_t* a, const std::uint8_t* b, const NoTable&, std::uint32_t (&out)[4]) const {
    byte_pairs<1>(paired(gpu::base3_digits4(a + block, place), gpu::base3_digits4(b + block, place)), out);
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
    __device__ explicit Header(const std::uint8_t* at) : row(at) {}
    [[nodiscard]] __device__ Scale scale(int first, int i) const {
      const int run = first + i;
      return {F::group(row + run / kRuns * F::kBlockBytes, run % kRuns * F::kScaleGroups).scale, 0.0f};
    }
  };
  __device__ Panel(unsigned piece_column, int group)
      : Columns{group},
        block(static_cast<int>(piece_column / F::kBlockValues * F::kBlockBytes)),
        begin(static_cast<int>(piece_column % F::kBlockValues)) {}
  __device__ void pairs(const std::uint8_t* a, const std::uint8_t* b, const NoTable&, std::uint32_t (&out)[4]) const {
    const Four x = four(a), y = four(b);
    byte_pairs<128>(paired(x.entry, y.entry), out);
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
  static constexpr bool kHasMin = false, kScalesApart = true;
  using Table = std::conditional_t<kBits == 8, ByteTable, PairTable>;

  static __device__ float fill(const FusedWork& w, std::uint32_t* table) {
    const int thread = static_cast<int>(threadIdx.x);
    if constexpr (kBits == 8) {
      // As large as the form of values takes: the smallest codes are some 2^-21 of the largest.
      const float power = power_to_reach<6>(unit_bound(w));
      if (thread < 256) table[thread] = to_halves(w.code[thread] * power, 0.0f);
      return power;
    } else {
      float own = 0.0f;  // of the 16, one a lane
      [&]<int... i>(std::integer_sequence<int, i...>) {
        ((own = lane_of_warp() % 16 == i ? gpu::kCodeValue<F, i> : own), ...);
      }
      (std::make_integer_sequence<int, 16>{});
      for (int i = thread; i < Table::kWords; i += static_cast<int>(blockDim.x)) {
        const int byte = i / Table::kLanes;
        table[i] = to_halves(__shfl_sync(0xffffffffu, own, byte >> 4), __shfl_sync(0xffffffffu, own, byte & 15));
      }
      return 1.0f;
    }
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
  using Held = gpu::EitherScales::Held;
  /// Of a row's pieces from one of the tile on; behind the last of all `columns`, the last one's.
  template <int kCount>
  static __device__ void load(const FusedWork& w, std::int64_t row, std::int64_t tile, int columns, int piece,
                              Held (&held)[kCount]) {
    const int first = piece * kPieceColumns;
    w.scales.load<kPieceColumns>(row * w.columns + tile * kFusedColumns + first, columns - kPieceColumns - first, held);
  }
  template <int kCount>
  static __device__ void make(const FusedWork& w, const Held (&held)[kCount], float (&scale)[kCount]) {
    w.scales.make(held, scale);
  }

  __device__ Panel(unsigned piece_column, int group)
      : LaneColumns<32>{group}, at((static_cast<int>(piece_column) + 4 * group) * kBits / 8) {}
  __device__ void pairs(const std::uint8_t* a, const std::uint8_t* b, const Table& table,
                        std::uint32_t (&out)[4]) const {
    const std::uint32_t x = codes(a), y = codes(b);
#pragma unroll
    for (int i = 0; i < 4; i += 8 / kBits) {
      const std::uint32_t from_x = table(x >> i * kBits & 255u), from_y = table(y >> i * kBits & 255u);
      out[i] = gpu::pick_bytes(from_x, from_y, 0x5410u);
      if constexpr (kBits == 4) out[i + 1] = gpu::pick_bytes(from_x, from_y, 0x7632u);
    }
  }

 private:
  [[nodiscard]] __device__ std::uint32_t codes(const std::uint8_t* row) const {
    if constexpr (kBits == 8) return *reinterpret_cast<const std::uint32_t*>(row + at);
    return *reinterpret_cast<const std::uint16_t*>(row + at);
  }

  int at;
};

}  // namespace nibble::cuda

#endif
