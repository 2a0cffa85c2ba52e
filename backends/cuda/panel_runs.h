// Formats of runs in a fused product: codes as halves, scales, and integers that multiply both.
// Apart from the other engines because these alone have scales of two levels and codes that may stay in their bytes.
#ifndef NIBBLE_BACKENDS_CUDA_PANEL_RUNS_H
#define NIBBLE_BACKENDS_CUDA_PANEL_RUNS_H

#include "backends/cuda/panel.h"

#include <algorithm>

namespace nibble::cuda {

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
  /// Whether times() leaves codes where they are in their bytes, which takes fewer instructions: they count a power of
  /// two there.
  static constexpr bool kInPlace = F::run(0).high.bits == 0 && F::run(0).low.packing == Packing::bytes;

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
    __device__ explicit Header(const std::uint8_t* at) : row(at) {}
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

  __device__ void pairs(const std::uint8_t* a, const std::uint8_t* b, const NoTable&, std::uint32_t (&out)[4]) const {
    if constexpr (kLookedUp) {
      const CodeSelectors selectors(codes(a) | codes(b) << 4);
      constexpr auto entry = [](int i) { return static_cast<std::uint32_t>(F::kCodes[i] + 128); };
      byte_pairs<128>(PairedBytes{looked_up_bytes(selectors, entry), looked_up_bytes(selectors.next(), entry)}, out);
    } else {
      byte_pairs<bias()>(paired(codes(a), codes(b)), out);
    }
  }
  /// Codes times a row's integer of each set (where kInPlace, over the power of two that a code counts in its place),
  /// those of rows a and b as a pair; kTiny: times 2^-24 too, which takes fewer instructions. Exact: they have 11 bits.
  template <std::uint32_t kAbove>
  __device__ void times(const std::uint8_t* a, const std::uint8_t* b, const std::uint32_t (&integers)[kSets],
                        std::uint32_t (&out)[4]) const {
    constexpr bool kFits = (1023 + (1 << kBits)) * ((1 << F::kScaleBits) - 1) <= 65504;  // a half's largest number
    if constexpr (kInPlace) {
      const std::uint32_t x = bytes(a), y = bytes(b), ones = (1u << kBits) - 1u;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t mask = (ones | ones << 16) << run[kSets == 1 ? 0 : i / 2].low.shift;
        out[i] = masked_or(gpu::pick_bytes(x, y, 0x4400u + 0x1111u * static_cast<std::uint32_t>(i)), mask,
                           kAbove << 8 | kAbove << 24);
      }
    } else {
      placed_byte_pairs<kAbove>(paired(codes(a), codes(b)), out);
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

}  // namespace nibble::cuda

#endif
