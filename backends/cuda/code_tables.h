// Tables of codes: of bytes, which permutations of registers look up, and of halves in shared memory.
// Apart from the panels because how a code is looked up is no part of how a format lies.
#ifndef NIBBLE_BACKENDS_CUDA_CODE_TABLES_H
#define NIBBLE_BACKENDS_CUDA_CODE_TABLES_H

#include "backends/cuda/mma.h"
#include "backends/gpu/bodies.h"

namespace nibble::cuda {

/// Codes of two rows and four columns, 4 bits each: a0, b0, a1, b1, ... from the lowest bits on, as selectors of
/// permutations, which take the lower four: one picks a byte of 8 by a code's lower three bits, the next one of two
/// such bytes by its highest. Bit 3 of a selector would ask for a byte's sign, so it is 0.
struct CodeSelectors {
  std::uint32_t in_half, half;
  __device__ explicit CodeSelectors(std::uint32_t codes)
      : in_half(codes & 0x77777777u), half((codes >> 1 & 0x44444444u) | 0x32103210u) {}
  __device__ CodeSelectors(std::uint32_t in_half_of_8, std::uint32_t half_of_16)
      : in_half(in_half_of_8), half(half_of_16) {}
  /// Those of the last two columns.
  [[nodiscard]] __device__ CodeSelectors next() const { return {in_half >> 16, half >> 16}; }
};
/// A byte of each of the lower four codes' entry in a table of 16; Entry()(i): the byte of code i.
template <class Entry>
__device__ inline std::uint32_t looked_up_bytes(const CodeSelectors& codes, Entry) {
  constexpr auto four = [](int first) {
    std::uint32_t bytes = 0;
    for (int i = 3; i >= 0; --i) bytes = bytes << 8 | (Entry{}(first + i) & 255u);
    return bytes;
  };
  constexpr std::uint32_t k0 = four(0), k4 = four(4), k8 = four(8), k12 = four(12);
  return gpu::pick_bytes(gpu::pick_bytes(k0, k4, codes.in_half), gpu::pick_bytes(k8, k12, codes.in_half), codes.half);
}

// What a panel reads while it makes units.

struct NoTable {
  static constexpr int kWords = 1;
  __device__ explicit NoTable(const std::uint32_t*) {}
};
/// A half for each of 256 codes, in a word's lower bits.
struct ByteTable {
  static constexpr int kWords = 256;
  const std::uint32_t* at;  ///< shared memory
  __device__ explicit ByteTable(const std::uint32_t* shared) : at(shared) {}
  [[nodiscard]] __device__ std::uint32_t operator()(std::uint32_t byte) const { return at[byte]; }
};
/// Two halves for each byte of two codes. Each lane has a copy in a bank of its own, so that none waits for another.
struct PairTable {
  static constexpr int kLanes = 32, kWords = 256 * kLanes;
  const std::uint8_t* at;  ///< shared memory
  std::uint32_t own;       ///< in bytes, apart from `at` because that is the same for all lanes
  __device__ explicit PairTable(const std::uint32_t* shared)
      : at(reinterpret_cast<const std::uint8_t*>(shared)), own(static_cast<std::uint32_t>(lane_of_warp()) * 4) {}
  [[nodiscard]] __device__ std::uint32_t operator()(std::uint32_t byte) const {
    return *reinterpret_cast<const std::uint32_t*>(at + (byte * (kLanes * 4) | own));
  }
};

}  // namespace nibble::cuda

#endif
