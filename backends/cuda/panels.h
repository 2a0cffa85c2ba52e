// What a fused product needs of each engine's formats: a row's bytes of 256 columns, scales, and codes as halves.
// Apart from the product so that it knows no engine, and from the decoders' bodies because those know no columns.
#ifndef NIBBLE_BACKENDS_CUDA_PANELS_H
#define NIBBLE_BACKENDS_CUDA_PANELS_H

#include "backends/cuda/fused_out_prod.h"
#include "backends/cuda/mma.h"
#include "backends/cuda/powers.h"
#include "backends/gpu/bodies.h"
#include "backends/gpu/device_grid.h"

#include <algorithm>

namespace nibble::cuda {

/// A lane's 4 columns of a piece, in rows of kRowBytes for 256 columns, with kSets scales a piece. pairs() gives the
/// units of two rows as halves, those of column i in out[i]: small numbers that a half holds exactly, but for
/// codebooks, whose values it rounds as TF32 would. A value is unit * scale, or unit * scale + min where kHasMin; a
/// Header gives those for a row of a tile, run first + i for constant i.
///
/// Where a row has one scale and one min for all columns, and small integers that multiply them in each run, there are
/// Integers, and times() gives units multiplied by one.
///
/// unit_bound(): no unit is larger.
///
/// table: kTable words of shared memory that fill() fills; it gives the power of two by which units are too large.
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
/// Bytes of two rows as such pairs of halves.
template <std::uint32_t kAbove>
__device__ inline void placed_byte_pairs(std::uint32_t a, std::uint32_t b, std::uint32_t (&out)[4]) {
  const std::uint32_t low = gpu::pick_bytes(a, b, 0x5140u), high = gpu::pick_bytes(a, b, 0x7362u);
#pragma unroll
  for (int i = 0; i < 4; ++i) out[i] = gpu::pick_bytes(i < 2 ? low : high, kAbove, i % 2 == 0 ? 0x4140u : 0x4342u);
}
/// Minus 1024 and kBias.
template <int kBias>
__device__ inline void byte_pairs(std::uint32_t a, std::uint32_t b, std::uint32_t (&out)[4]) {
  constexpr std::uint32_t kTaken = 0xe400u + kBias;  // -(1024 + kBias)
  static_assert(kBias >= 0 && kBias < 1024);
  placed_byte_pairs<kOn1024>(a, b, out);
#pragma unroll
  for (int i = 0; i < 4; ++i) out[i] = add_halves(out[i], kTaken | kTaken << 16);
}

/// Entries of a table of halves by the bytes of two rows.
__device__ inline void looked_up_pairs(std::uint32_t a, std::uint32_t b, const std::uint32_t* table,
                                       std::uint32_t (&out)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) out[i] = gpu::pick_bytes(table[a >> 8 * i & 255u], table[b >> 8 * i & 255u], 0x5410u);
}

/// A format's 16 codes, by one thread.
template <class F>
__device__ inline void fill_code_table(std::uint32_t* table) {
  if (threadIdx.x != 0) return;
  float codes[16];
  gpu::fill_codes<F>(codes);
#pragma unroll
  for (int i = 0; i < 16; ++i) table[i] = to_halves(codes[i], 0.0f);
}

/// Block formats keep everything in the row.
template <class F>
struct BlockPanel {
  static constexpr int kBlockValues = F::kBlockValues, kBlockBytes = F::kBlockBytes;
  static constexpr int kRowBytes = kFusedColumns / kBlockValues * kBlockBytes;
  static_assert(kFusedColumns % kBlockValues == 0);
  static constexpr bool kHasMin = false;
  static constexpr int kTable = 1;
  static __device__ float fill(const FusedWork&, std::uint32_t*) { return 1.0f; }
};

template <class F>
requires(F::kEngine == Engine::runs) struct Panel<F> : BlockPanel<F>, LaneColumns<F::kRunLength> {
  using Columns = LaneColumns<F::kRunLength>;
  using Columns::kSets;
  static constexpr int kRunLength = F::kRunLength, kRuns = F::kBlockValues / kRunLength;
  static constexpr bool kHasMin = F::kCombine == Combine::sum;
  static constexpr bool kLookedUp = F::kCombine == Combine::table;
  static constexpr int kLargestCode = [] {
    int largest = 0;
    if constexpr (kLookedUp) {
      for (const int code : F::kCodes) largest = std::max(largest, code < 0 ? -code : code);
    }
    return largest;
  }();
  static constexpr int kBits = F::run(0).low.bits + F::run(0).high.bits;
  static constexpr int kTable = kLookedUp ? 16 : 1;
  /// Whether times() leaves codes where they are in their bytes, which takes fewer instructions: they count a power of
  /// two there.
  static constexpr bool kInPlace = F::run(0).high.bits == 0 && F::run(0).low.packing == Packing::bytes;

  static __device__ float fill(const FusedWork&, std::uint32_t* table) {
    if constexpr (kLookedUp) fill_code_table<F>(table);
    return 1.0f;
  }
  static __device__ float unit_bound(const FusedWork&) {
    if constexpr (requires { F::kSigned; }) {
      return 128.0f;
    } else if constexpr (kLookedUp) {
      return static_cast<float>(kLargestCode);
    } else {
      return static_cast<float>(1 << kBits);
    }
  }
  struct Header {
    const std::uint8_t* row;
    __device__ Header(const FusedWork&, const std::uint8_t* at, std::int64_t, std::int64_t) : row(at) {}
    [[nodiscard]] __device__ Scale scale(int first, int i) const {
      return F::scale(row + (first + i) / kRuns * F::kBlockBytes, (first + i) % kRuns);
    }
    [[nodiscard]] __device__ Scale row_scale() const {
      static_assert(kRuns == kFusedColumns / kRunLength);
      return {load_half(row + F::kScaleHalf), load_half(row + F::kMinHalf)};
    }
  };
  /// A row's integers.
  struct Integers {
    ScaleCodes codes;
    __device__ explicit Integers(const std::uint8_t* row) : codes(F::scale_codes(row)) {
      static_assert(((1 << kBits) - 1) * ((1 << F::kScaleBits) - 1) <= 2048);
    }
    /// Those of kCount neighbouring runs, the first a multiple of kCount; kOver: over what a code's place counts.
    template <int kCount, bool kOver>
    struct Some {
      int first;
      std::uint64_t bytes;
      __device__ Some(const std::uint64_t (&codes)[2], int run) : first(run), bytes(codes[0]) {
        static_assert(kCount <= 8);
        if (kRuns > 8 && first / 8 != 0) bytes = codes[1];
        if (kCount == 4) bytes = first / 4 % 2 != 0 ? bytes >> 32 : bytes;
        if (kCount < 4) bytes >>= first % 8 * 8;
      }
      /// As a half.
      [[nodiscard]] __device__ std::uint16_t half(int i) const {
        const int even = i / 2 * 2;
        const auto four = static_cast<std::uint32_t>(bytes >> i / 4 * 32);
        std::uint32_t two = add_halves(gpu::pick_bytes(four, kOn1024, even % 4 == 0 ? 0x4140u : 0x4342u), 0xe400e400u);
        if constexpr (kOver) two = multiply_pair(two, over_place(first + even) | over_place(first + even + 1) << 16);
        return static_cast<std::uint16_t>(two >> i % 2 * 16);
      }
      /// As a half's last bits.
      [[nodiscard]] __device__ std::uint16_t tiny(int i) const {
        return static_cast<std::uint16_t>(bytes >> i * 8 & 255u);
      }
    };
    template <int kCount>
    [[nodiscard]] __device__ Some<kCount, kInPlace> scales(int first) const {
      return {codes.scale, first};
    }
    template <int kCount>
    [[nodiscard]] __device__ Some<kCount, false> mins(int first) const {
      return {codes.min, first};
    }

   private:
    /// A half, one over the power of two.
    static __device__ std::uint32_t over_place(int r) {
      return (15u - static_cast<std::uint32_t>(F::run(r).low.shift)) << 10;
    }
  };
  __device__ Panel(unsigned piece_column, int group)
      : Columns{group}, block(static_cast<int>(piece_column / F::kBlockValues * F::kBlockBytes)) {
#pragma unroll
    for (int s = 0; s < kSets; ++s) run[s] = F::run(static_cast<int>(piece_column % F::kBlockValues / kRunLength) + s);
  }

  __device__ void pairs(const std::uint8_t* a, const std::uint8_t* b, const std::uint32_t* table,
                        std::uint32_t (&out)[4]) const {
    if constexpr (kLookedUp) {
      looked_up_pairs(codes(a), codes(b), table, out);
    } else {
      byte_pairs<bias()>(codes(a), codes(b), out);
    }
  }
  /// Codes times a row's integer of each set (where kInPlace, over the power of two that a code counts in its place),
  /// those of rows a and b as a pair; kTiny: times 2^-24 too, which takes fewer instructions. Exact: they have 11 bits.
  template <std::uint32_t kAbove>
  __device__ void times(const std::uint8_t* a, const std::uint8_t* b, const std::uint32_t (&integers)[kSets],
                        std::uint32_t (&out)[4]) const {
    constexpr bool kFits = (1023 + (1 << kBits)) * ((1 << F::kScaleBits) - 1) <= 65504;  // a half's largest number
    static_assert(kFits || !kInPlace);
    if constexpr (kInPlace) {
      const std::uint32_t x = bytes(a), y = bytes(b), ones = (1u << kBits) - 1u;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t mask = (ones | ones << 16) << run[kSets == 1 ? 0 : i / 2].low.shift;
        out[i] = masked_or(gpu::pick_bytes(x, y, 0x4400u + 0x1111u * static_cast<std::uint32_t>(i)), mask,
                           kAbove << 8 | kAbove << 24);
      }
    } else {
      placed_byte_pairs<kAbove>(codes(a), codes(b), out);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t by = integers[kSets == 1 ? 0 : i / 2];
      if constexpr (kAbove == kTiny) {
        out[i] = multiply_pair(out[i], by);
      } else if constexpr (kFits) {
        out[i] = multiply_add_pair(out[i], by, multiply_pair(by, 0xe400e400u));
      } else {
        out[i] = multiply_pair(add_halves(out[i], 0xe400e400u), by);
      }
    }
  }

 private:
  static constexpr int bias() {
    if constexpr (requires { F::kSigned; }) return 128;
    if constexpr (F::kCombine == Combine::product) return F::kBias;
    return 0;
  }
  /// The bytes with a row's codes of the columns, other codes beside them.
  [[nodiscard]] __device__ std::uint32_t bytes(const std::uint8_t* row) const {
    constexpr int kAlignment = gpu::plane_alignment<F>(&Run::low);
    const std::uint8_t* at = row + block + this->first();
    if constexpr (kSets == 1) return gpu::load_word<kAlignment>(at + run[0].low.at);
    return gpu::pick_bytes(gpu::load_half_word<kAlignment>(at + run[0].low.at),
                           gpu::load_half_word<kAlignment>(at + run[kSets - 1].low.at), 0x5410u);
  }
  [[nodiscard]] __device__ std::uint32_t codes(const std::uint8_t* row) const {
    std::uint32_t x = 0;
    if constexpr (kSets == 1) {
      std::uint32_t four[1];
      gpu::run_codes<F, 4>(row + block, run[0], this->first(), four);
      x = four[0];
    } else {
      x = gpu::pick_bytes(gpu::run_codes2<F>(row + block, run[0], this->first()),
                          gpu::run_codes2<F>(row + block, run[1], this->first()), 0x5410u);
    }
    return requires { F::kSigned; }
    ? x ^ 0x80808080u : x;
  }

  int block;
  Run run[kSets];
};

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
