// The products of a whole warpgroup, which tensor cores of 9.0 alone have: they read one operand from shared memory and
// go on while the warps make the next.
// Apart from mma.h because other devices have none of these instructions.
#ifndef NIBBLE_BACKENDS_CUDA_WGMMA_H
#define NIBBLE_BACKENDS_CUDA_WGMMA_H

#include "backends/gpu/device.h"

#include <cstdint>
#include <type_traits>

namespace nibble::cuda {

/// Before the first product, and after registers that the next one reads were written.
__device__ inline void begin_products() {
#if NIBBLE_WARPGROUP_CORES
  asm volatile("wgmma.fence.sync.aligned;");
#endif
}
__device__ inline void end_products() {
#if NIBBLE_WARPGROUP_CORES
  asm volatile("wgmma.commit_group.sync.aligned;");
#endif
}
/// Waits until at most kPending of the groups that were ended are under way.
template <int kPending>
__device__ inline void wait_for_products() {
#if NIBBLE_WARPGROUP_CORES
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}
/// Keeps the compiler from moving what is done with sums, or makes operands, across this place.
template <class T, int kOuter, int kSets>
__device__ inline void pin(T (&x)[kOuter][kSets][4]) {
#pragma unroll
  for (int outer = 0; outer < kOuter; ++outer) {
#pragma unroll
    for (int m = 0; m < kSets; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (std::is_same_v<T, float>) {
          asm volatile("" : "+f"(x[outer][m][i]));
        } else {
          asm volatile("" : "+r"(x[outer][m][i]));
        }
      }
    }
  }
}

/// Registers of a warp's threads from here on, taken from or given to the block's other warps.
template <int kCount, bool kMore>
__device__ inline void keep_registers() {
#if NIBBLE_WARPGROUP_CORES
  if constexpr (kMore) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
  }
#endif
}

/// An operand [16, tokens] in shared memory for multiply_group: 8 tokens after each other take 256 bytes, first their
/// numbers 0 to 7 of 16, a token's together, then numbers 8 to 15.
__device__ inline std::uint64_t operand_at(const std::uint8_t* shared) {
  constexpr std::uint64_t kHalfStride = 128 / 16, kTileStride = 256 / 16;
  const std::uint64_t at = static_cast<std::uint64_t>(__cvta_generic_to_shared(shared)) / 16 & 0x3fffu;
  return at | kHalfStride << 16 | kTileStride << 32;
}

/// sums[64, 8 * kTiles] += a * b for set m: multiply_halves (mma.h) of each of the four warps, a being in its
/// registers, and all tiles at once. Done when wait_for_products says so: till then neither a nor the sums may be
/// touched.
#define NIBBLE_TILE_SUMS(t) "+f"(sums[t][m][0]), "+f"(sums[t][m][1]), "+f"(sums[t][m][2]), "+f"(sums[t][m][3])
template <int kTiles, int kSets>
__device__ inline void multiply_group(float (&sums)[kTiles][kSets][4], int m, const std::uint32_t (&a)[4],
                                      std::uint64_t b) {
  static_assert(kTiles == 2 || kTiles == 4 || kTiles == 8 || kTiles == 16 || kTiles == 32);
#if NIBBLE_WARPGROUP_CORES
  if constexpr (kTiles == 2) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, 1, 1, 1, 0;"
        : NIBBLE_TILE_SUMS(0), NIBBLE_TILE_SUMS(1)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else if constexpr (kTiles == 4) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19}, %20, 1, 1, 1, 0;"
        : NIBBLE_TILE_SUMS(0), NIBBLE_TILE_SUMS(1), NIBBLE_TILE_SUMS(2), NIBBLE_TILE_SUMS(3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else if constexpr (kTiles == 8) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
        : NIBBLE_TILE_SUMS(0), NIBBLE_TILE_SUMS(1), NIBBLE_TILE_SUMS(2), NIBBLE_TILE_SUMS(3), NIBBLE_TILE_SUMS(4),
          NIBBLE_TILE_SUMS(5), NIBBLE_TILE_SUMS(6), NIBBLE_TILE_SUMS(7)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else if constexpr (kTiles == 16) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, 1, 1, 1, 0;"
        : NIBBLE_TILE_SUMS(0), NIBBLE_TILE_SUMS(1), NIBBLE_TILE_SUMS(2), NIBBLE_TILE_SUMS(3), NIBBLE_TILE_SUMS(4),
          NIBBLE_TILE_SUMS(5), NIBBLE_TILE_SUMS(6), NIBBLE_TILE_SUMS(7), NIBBLE_TILE_SUMS(8), NIBBLE_TILE_SUMS(9),
          NIBBLE_TILE_SUMS(10), NIBBLE_TILE_SUMS(11), NIBBLE_TILE_SUMS(12), NIBBLE_TILE_SUMS(13), NIBBLE_TILE_SUMS(14),
          NIBBLE_TILE_SUMS(15)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63,"
        " %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79,"
        " %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95,"
        " %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111,"
        " %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "{%128, %129, %130, %131}, %132, 1, 1, 1, 0;"
        : NIBBLE_TILE_SUMS(0), NIBBLE_TILE_SUMS(1), NIBBLE_TILE_SUMS(2), NIBBLE_TILE_SUMS(3), NIBBLE_TILE_SUMS(4),
          NIBBLE_TILE_SUMS(5), NIBBLE_TILE_SUMS(6), NIBBLE_TILE_SUMS(7), NIBBLE_TILE_SUMS(8), NIBBLE_TILE_SUMS(9),
          NIBBLE_TILE_SUMS(10), NIBBLE_TILE_SUMS(11), NIBBLE_TILE_SUMS(12), NIBBLE_TILE_SUMS(13), NIBBLE_TILE_SUMS(14),
          NIBBLE_TILE_SUMS(15), NIBBLE_TILE_SUMS(16), NIBBLE_TILE_SUMS(17), NIBBLE_TILE_SUMS(18), NIBBLE_TILE_SUMS(19),
          NIBBLE_TILE_SUMS(20), NIBBLE_TILE_SUMS(21), NIBBLE_TILE_SUMS(22), NIBBLE_TILE_SUMS(23), NIBBLE_TILE_SUMS(24),
          NIBBLE_TILE_SUMS(25), NIBBLE_TILE_SUMS(26), NIBBLE_TILE_SUMS(27), NIBBLE_TILE_SUMS(28), NIBBLE_TILE_SUMS(29),
          NIBBLE_TILE_SUMS(30), NIBBLE_TILE_SUMS(31)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
#endif
}
#undef NIBBLE_TILE_SUMS

}  // namespace nibble::cuda

#endif
