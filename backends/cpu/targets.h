// The instruction sets that this back end is compiled for: one line each, best first.
// Apart from the engines because every source here compiles for exactly these, and rows, tests and caps walk them.
//
// A source includes this file before any of Highway's, then sets HWY_TARGET_INCLUDE and includes foreach_target.h.
// Highway's target attributes select the instructions; no file is compiled with -m flags of its own.
#ifndef NIBBLE_BACKENDS_CPU_TARGETS_H
#define NIBBLE_BACKENDS_CPU_TARGETS_H

#include <nibble/abi.h>

#include <cstdint>

// Between those below there is nothing that a row of its own would gain.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
// Whatever the compiler's baseline (-march=native), every row exists.
#define HWY_COMPILE_ALL_ATTAINABLE
// The emulated 128-bit target exists only with some compilers; the portable row is the same code with all of them.
#define HWY_BROKEN_EMU128 1
#include <hwy/detect_targets.h>

// X(name, Highway's target, its namespace, bit of nibble_caps::isa, rank)
#if HWY_ARCH_X86
#define NIBBLE_CPU_TARGETS(X)                        \
  X(avx512, HWY_AVX3, N_AVX3, NIBBLE_ISA_AVX512, 40) \
  X(avx2, HWY_AVX2, N_AVX2, NIBBLE_ISA_AVX2, 30)     \
  X(sse4, HWY_SSE4, N_SSE4, NIBBLE_ISA_SSE4, 20)     \
  X(portable, HWY_SCALAR, N_SCALAR, NIBBLE_ISA_PORTABLE, 10)
#elif HWY_ARCH_ARM
#define NIBBLE_CPU_TARGETS(X)                    \
  X(neon, HWY_NEON, N_NEON, NIBBLE_ISA_NEON, 20) \
  X(portable, HWY_SCALAR, N_SCALAR, NIBBLE_ISA_PORTABLE, 10)
#else
#define NIBBLE_CPU_TARGETS(X) X(portable, HWY_SCALAR, N_SCALAR, NIBBLE_ISA_PORTABLE, 10)
#endif

namespace nibble::cpu {

enum class Target : std::uint8_t {
#define NIBBLE_CPU_ENUMERATOR(name, hwy_target, hwy_namespace, isa, rank) name,
  NIBBLE_CPU_TARGETS(NIBBLE_CPU_ENUMERATOR)
#undef NIBBLE_CPU_ENUMERATOR
};

/// A line of the list as data.
struct TargetInfo {
  Target target;
  const char* name;         ///< last part of a kernel's name
  std::int64_t hwy_target;  ///< Highway's bit
  std::uint64_t isa;        ///< NIBBLE_ISA_*
  std::uint32_t rank;       ///< higher is chosen first
};

inline constexpr TargetInfo kTargets[] = {
#define NIBBLE_CPU_INFO(name, hwy_target, hwy_namespace, isa, rank) {Target::name, #name, hwy_target, isa, rank},
    NIBBLE_CPU_TARGETS(NIBBLE_CPU_INFO)
#undef NIBBLE_CPU_INFO
};

/// NIBBLE_ISA_* bits of a mask of Highway targets; portable is always there. Pure, so that a test can invent the mask.
std::uint64_t isa_of(std::int64_t hwy_targets);

/// What this processor has and its operating system has enabled.
std::uint64_t detected_isa();

}  // namespace nibble::cpu

#endif
