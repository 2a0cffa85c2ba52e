// What a fused product needs of a format, and what the engines' panels share: columns of lanes, bytes as halves.
// Apart from the panels so that each engine's knows no other.
#ifndef NIBBLE_BACKENDS_CUDA_PANEL_H
#define NIBBLE_BACKENDS_CUDA_PANEL_H

#include "backends/cuda/code_tables.h"
#include "backends/cuda/fused_out_prod.h"
#include "backends/cuda/mma.h"
#include "backends/gpu/bodies.h"

namespace nibble::cuda {

/// A lane's 4 columns of a piece, in rows of kRowBytes for 256 columns, with kSets scales a piece. pairs() gives the
/// units of two rows as halves, those of column i in out[i]: small numbers that a half holds exactly, but for
/// codebooks, whose values it rounds as TF32 would. A value is unit * scale, or unit * scale + min where kHasMin; a
/// Header gives those for a row of a tile, run first + i for constant i. Where kScalesApart the rows do not have them:
/// load() starts to load what some of a row's are made of, make() makes them of that.
///
/// Where a row has one scale and one min for all columns, and small integers that multiply them in each run, there are
/// Integers, and times() gives units multiplied by one.
///
/// unit_bound(): no unit is larger.
///
/// fill() fills a Table's words in shared memory; it gives the power of two by which units are too large.
template <class F>
struct Panel;

/// The 4 columns of lane group g: all in one run of 32, or two in each of two runs of 16.
template <int kRunLength>
struct LaneColumns {
  static constexpr int kSets = kPieceColumns / kRunLength;
  int g;
  /// Where the first of those in run s starts in it.
  [[nodiscard]] __device__ int first() const { return 4 / kSets * g; }
};
/// Its inverse, of a column in a piece.
template <int kRunLength>
__device__ inline void find_column(int column, int* g, int* i) {
  constexpr int kNeighbours = kRunLength / 8;
  *g = column % kRunLength / kNeighbours;
  *i = column / kRunLength * kNeighbours + column % kNeighbours;
}

/// What stands above a byte that is the last bits of a half: 1024 is added to the byte, or it counts multiples of
/// 2^-24, a half's smallest number.
inline constexpr std::uint32_t kOn1024 = 0x64u, kTiny = 0u;
/// Bytes of rows a and b, as a0 b0 a1 b1 and a2 b2 a3 b3 of columns 0 to 3.
struct PairedBytes {
  std::uint32_t low, high;
};
__device__ inline PairedBytes paired(std::uint32_t a, std::uint32_t b) {
  return {gpu::pick_bytes(a, b, 0x5140u), gpu::pick_bytes(a, b, 0x7362u)};
}
/// Bytes of two rows as such pairs of halves.
template <std::uint32_t kAbove>
__device__ inline void placed_byte_pairs(const PairedBytes& bytes, std::uint32_t (&out)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    out[i] = gpu::pick_bytes(i < 2 ? bytes.low : bytes.high, kAbove, i % 2 == 0 ? 0x4140u : 0x4342u);
}
/// Minus 1024 and kBias.
template <int kBias>
__device__ inline void byte_pairs(const PairedBytes& bytes, std::uint32_t (&out)[4]) {
  constexpr std::uint32_t kTaken = 0xe400u + kBias;  // -(1024 + kBias)
  static_assert(kBias >= 0 && kBias < 1024);
  placed_byte_pairs<kOn1024>(bytes, out);
#pragma unroll
  for (int i = 0; i < 4; ++i) out[i] = add_halves(out[i], kTaken | kTaken << 16);
}

/// Block formats keep everything in the row.
template <class F>
struct BlockPanel {
  static constexpr int kBlockValues = F::kBlockValues, kBlockBytes = F::kBlockBytes;
  static constexpr int kRowBytes = kFusedColumns / kBlockValues * kBlockBytes;
  static_assert(kFusedColumns % kBlockValues == 0);
  static constexpr bool kHasMin = false;
  static constexpr bool kScalesApart = false;
  using Table = NoTable;
  static __device__ float fill(const FusedWork&, std::uint32_t*) { return 1.0f; }
};

}  // namespace nibble::cuda

#endif
