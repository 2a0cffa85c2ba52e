// What a fused product needs of each engine's formats: a row's bytes of 256 columns, scales, and 4 columns at a time.
// Apart from the product so that it knows no engine, and from the decoders' bodies because those know no columns.
#ifndef NIBBLE_BACKENDS_CUDA_PANELS_H
#define NIBBLE_BACKENDS_CUDA_PANELS_H

#include "backends/cuda/fused_out_prod.h"
#include "backends/cuda/mma.h"
#include "backends/gpu/bodies.h"
#include "backends/gpu/flat.h"
#include "backends/gpu/grid.h"

namespace nibble::cuda {

/// A lane's 4 columns of a piece, in rows of kRowBytes for 256 columns. There are kScales a row, kSets a piece; scale()
/// makes one. kFolded: units() gives 4 numbers that, times the scale, are the values, as TF32. values() gives the
/// values themselves as TF32, where kFinite from finite scales. table: kTable floats of shared memory.
template <class F>
struct Panel;

/// The 4 columns of lane group g: all in one run of 32, or two in each of two runs of 16.
template <int kRunLength>
struct LaneColumns {
  int g;
  [[nodiscard]] __device__ int column(int i) const { return kRunLength == 16 ? i / 2 * 16 + 2 * g + i % 2 : 4 * g + i; }
};

/// Block formats keep everything in the row.
template <class F>
struct BlockPanel {
  static constexpr int kBlockValues = F::kBlockValues, kBlockBytes = F::kBlockBytes;
  static constexpr int kRowBytes = kFusedColumns / kBlockValues * kBlockBytes;
  static_assert(kFusedColumns % kBlockValues == 0);
  static constexpr int kTable = 1;
  static __device__ void fill(const FusedWork&, float*) {}
};

inline __device__ bool is_finite(const nibble::Scale& s) { return is_finite(s.scale) && is_finite(s.min); }

inline __device__ void round_values(const float (&values)[4], std::uint32_t (&out)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) out[i] = to_tf32(values[i]);
}

template <class F>
requires(F::kEngine == Engine::runs) struct Panel<F> : BlockPanel<F>, LaneColumns<F::kRunLength> {
  using Scale = gpu::RunScale<F>;
  static constexpr int kRunLength = F::kRunLength, kRuns = F::kBlockValues / kRunLength;
  static constexpr int kScales = kFusedColumns / kRunLength, kSets = kPieceColumns / kRunLength;
  static constexpr int kBits = F::run(0).low.bits + F::run(0).high.bits;
  static constexpr bool kFolded = F::kCombine != Combine::sum;
  static constexpr bool kLookedUp = F::kCombine == Combine::table;
  static constexpr int kTable = kLookedUp ? 16 : 1;
  static_assert(kFolded || kBits <= 7);

  static __device__ void fill(const FusedWork&, float* table) {
    if constexpr (kLookedUp) {
      if (threadIdx.x == 0) gpu::fill_codes<F>(table);
    }
  }
  static __device__ Scale scale(const FusedWork&, const std::uint8_t* row, int run, std::int64_t, std::int64_t) {
    return gpu::run_scale<F>(row + run / kRuns * F::kBlockBytes, run % kRuns);
  }

  __device__ Panel(int piece_column, int group)
      : LaneColumns<kRunLength>{group},
        scale_at(piece_column / kRunLength),
        block(piece_column / F::kBlockValues * F::kBlockBytes),
        first(kRunLength == 16 ? 2 * group & ~3 : 4 * group) {
#pragma unroll
    for (int s = 0; s < kSets; ++s) run[s] = F::run(piece_column % F::kBlockValues / kRunLength + s);
  }

  __device__ void units(const std::uint8_t* row, const float* table, std::uint32_t (&out)[4]) const {
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      std::uint32_t codes = gpu::run_codes4<F>(row + block, run[s], first);
      if constexpr (kSets == 2) codes >>= this->g % 2 * 16;
#pragma unroll
      for (int i = 0; i < 4 / kSets; ++i) out[s * 2 + i] = __float_as_uint(unit(codes, i, table));
    }
  }

  template <bool kFinite>
  __device__ void values(const std::uint8_t* row, const Scale* scales, const float* table,
                         std::uint32_t (&out)[4]) const {
    if constexpr (kFinite && !kFolded) {
      finite_values(row, scales, out);
    } else {
      any_values(row, scales, table, out);
    }
  }

  int scale_at;

 private:
  static __device__ float unit(std::uint32_t codes, int i, const float* table) {
    if constexpr (kLookedUp) {
      return table[codes >> 8 * i & 15u];
    } else if constexpr (requires { F::kSigned; }) {
      return gpu::float_of_byte(codes ^ 0x80808080u, i, 128.0f);
    } else {
      return gpu::float_of_byte(codes, i, static_cast<float>(F::kBias));
    }
  }

  __device__ void any_values(const std::uint8_t* row, const Scale* scales, const float* table,
                             std::uint32_t (&out)[4]) const {
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      float four[4];
      gpu::decode_run<F, 4>(row + block, run[s], first, scales[scale_at + s], table, four);
#pragma unroll
      for (int i = 0; i < 4 / kSets; ++i) {
        out[s * 2 + i] = to_tf32(kSets == 2 && this->g % 2 != 0 ? four[2 + i] : four[i]);
      }
    }
  }

  /// As decode_run's, in fewer instructions: code * scale is (2^kBits + code) * scale - 2^kBits * scale, where the
  /// first is the code as a float's highest mantissa bits, the last is exact, and one rounding is left as before.
  __device__ void finite_values(const std::uint8_t* row, const Scale* scales, std::uint32_t (&out)[4]) const {
    constexpr std::uint32_t kHighByte = static_cast<std::uint32_t>((127 + kBits) / 2) << 8;
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      std::uint32_t codes = placed_codes(row + block, run[s]);
      if constexpr (kSets == 2) codes >>= this->g % 2 * 16;
      const Scale scale = scales[scale_at + s];
      const float taken = -static_cast<float>(1 << kBits) * scale.scale;
#pragma unroll
      for (int i = 0; i < 4 / kSets; ++i) {
        const std::uint32_t placed = gpu::pick_bytes(codes, kHighByte, 0x5044u | static_cast<std::uint32_t>(i) << 8);
        out[s * 2 + i] = finite_to_tf32(add_rn(fmaf(__uint_as_float(placed), scale.scale, taken), scale.min));
      }
    }
  }

  /// Four codes as bits 16 to 23 of such floats.
  __device__ std::uint32_t placed_codes(const std::uint8_t* at, const Run& r) const {
    constexpr Plane kLow = F::run(0).low;
    constexpr std::uint32_t kOdd = (127 + kBits) % 2 != 0 ? 0x80808080u : 0u;
    if constexpr (kBits == kLow.bits && kLow.packing == Packing::bytes) {
      // A rotation takes each byte's code to its place at once; what it brings from neighbours is masked.
      constexpr std::uint32_t kMask = 0x01010101u * (((1u << kBits) - 1u) << (7 - kBits));
      const std::uint32_t word = gpu::load_word<gpu::plane_alignment<F>(&Run::low)>(at + r.low.at + first);
      return (__funnelshift_r(word, word, r.low.shift - (7 - kBits)) & kMask) | kOdd;
    } else {
      return gpu::run_codes4<F>(at, r, first) << (7 - kBits) | kOdd;
    }
  }

  int block, first;
  Run run[kSets];
};

template <class F>
requires(F::kEngine == Engine::base3) struct Panel<F> : BlockPanel<F>, LaneColumns<32> {
  using Scale = float;
  static constexpr int kScales = kFusedColumns / F::kBlockValues, kSets = 1;
  static constexpr bool kFolded = true;

  static __device__ float scale(const FusedWork&, const std::uint8_t* row, int run, std::int64_t, std::int64_t) {
    return F::scale(row + run * F::kBlockBytes);
  }
  __device__ Panel(int piece_column, int group)
      : LaneColumns<32>{group},
        scale_at(piece_column / F::kBlockValues),
        block(piece_column / F::kBlockValues * F::kBlockBytes),
        first(piece_column % F::kBlockValues + 4 * group) {}
  __device__ void units(const std::uint8_t* row, const float*, std::uint32_t (&out)[4]) const {
    float digits[4];
    gpu::decode_base3<F, 4>(row + block, first, 1.0f, digits);
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = __float_as_uint(digits[i]);
  }
  template <bool kFinite>
  __device__ void values(const std::uint8_t* row, const float* scales, const float*, std::uint32_t (&out)[4]) const {
    float four[4];
    gpu::decode_base3<F, 4>(row + block, first, scales[scale_at], four);
    round_values(four, out);
  }

  int scale_at;

 private:
  int block, first;
};

/// A scale for 8 values or a few more does not fold.
template <class F>
requires(F::kEngine == Engine::grid) struct Panel<F> : BlockPanel<F>, LaneColumns<32> {
  using Scale = float;
  static constexpr int kScales = 0, kSets = 1;
  static constexpr bool kFolded = false;

  __device__ Panel(int piece_column, int group)
      : LaneColumns<32>{group},
        block(piece_column / F::kBlockValues * F::kBlockBytes),
        first(piece_column % F::kBlockValues + 4 * group) {}
  template <bool kFinite>
  __device__ void values(const std::uint8_t* row, const float*, const float*, std::uint32_t (&out)[4]) const {
    float four[4];
    gpu::decode_grid<F, 4>(row + block, first, gpu::device_grid<F::kGrid>.entries, four);
    round_values(four, out);
  }

 private:
  int block, first;
};

/// Codes over the whole tensor: rows of whole pieces, each in one of the weight's blocks. Their units are the codes'
/// values rounded to TF32, as a decoded value would be.
template <class F>
requires(F::kEngine == Engine::flat4 || F::kEngine == Engine::flat8) struct Panel<F> : LaneColumns<32> {
  using Scale = float;
  static constexpr int kBits = gpu::kFlatBits<F>;
  static constexpr int kBlockValues = kPieceColumns, kBlockBytes = kPieceColumns * kBits / 8;
  static constexpr int kRowBytes = kFusedColumns * kBits / 8;
  static constexpr int kScales = kFusedColumns / kPieceColumns, kSets = 1;
  static constexpr bool kFolded = true;
  static constexpr int kTable = 1 << kBits;

  static __device__ void fill(const FusedWork& w, float* table) {
    if constexpr (kBits == 8) {
      for (int i = static_cast<int>(threadIdx.x); i < 256; i += static_cast<int>(blockDim.x)) table[i] = w.code[i];
    } else if (threadIdx.x == 0) {
      gpu::fill_codes<F>(table);
    }
  }
  static __device__ float scale(const FusedWork& w, const std::uint8_t*, int piece, std::int64_t row,
                                std::int64_t tile) {
    const std::int64_t column = tile * kFusedColumns + piece * kPieceColumns;
    return column < w.columns ? w.scales[(row * w.columns + column) >> w.block_shift] : 0.0f;
  }

  __device__ Panel(int piece_column, int group)
      : LaneColumns<32>{group}, scale_at(piece_column / kPieceColumns), at((piece_column + 4 * group) * kBits / 8) {}
  __device__ void units(const std::uint8_t* row, const float* table, std::uint32_t (&out)[4]) const {
    decode(row, table, 1.0f, out);
  }
  template <bool kFinite>
  __device__ void values(const std::uint8_t* row, const float* scales, const float* table,
                         std::uint32_t (&out)[4]) const {
    decode(row, table, scales[scale_at], out);
  }

  int scale_at;

 private:
  __device__ void decode(const std::uint8_t* row, const float* table, float scale, std::uint32_t (&out)[4]) const {
    float four[4];
    gpu::decode_flat<kBits, 4>(*reinterpret_cast<const gpu::CodeWord<kBits, 4>*>(row + at), table, scale, four);
    round_values(four, out);
  }

  int at;
};

}  // namespace nibble::cuda

#endif
