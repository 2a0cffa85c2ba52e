// Tables of codes: of bytes, which permutations of registers look up, and of halves in shared memory.
// Apart from the panels because how a code is looked up is no part of how a format lies.
#ifndef NIBBLE_BACKENDS_CUDA_CODE_TABLES_H
#define NIBBLE_BACKENDS_CUDA_CODE_TABLES_H

#include "backends/cuda/mma.h"
#include "backends/gpu/bodies.h"

namespace nibble::cuda {

/// Codes of two rows and two columns, 4 bits each: a0, b0, a1, b1 from the lowest bits on. What a permutation picks by
/// them: one of 8 bytes by three bits each, and then one of two such bytes by the last.
struct FourCodes {
  std::uint32_t seven, last;
  __device__ explicit FourCodes(std::uint32_t codes)
      : seven(codes & 0x77777777u), last((codes >> 1 & 0x44444444u) | 0x32103210u) {}
  __device__ FourCodes(std::uint32_t of_seven, std::uint32_t of_last) : seven(of_seven), last(of_last) {}
  /// Those of the next two columns, where `codes` had them.
  [[nodiscard]] __device__ FourCodes next() const { return {seven >> 16, last >> 16}; }
};
/// A byte of each code's entry in a table of 16; entry(i): the byte of code i.
template <class Entry>
__device__ inline std::uint32_t looked_up_bytes(const FourCodes& codes, Entry) {
  constexpr auto four = [](int first) {
    std::uint32_t bytes = 0;
    for (int i = 3; i >= 0; --i) bytes = bytes << 8 | (Entry{}(first + i) & 255u);
    return bytes;
  };
  constexpr std::uint32_t k0 = four(0), k4 = four(4), k8 = four(8), k12 = four(12);
  return gpu::pick_bytes(gpu::pick_bytes(k0, k4, codes.seven), gpu::pick_bytes(k8, k12, codes.seven), codes.last);
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
