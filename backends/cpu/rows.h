// What the rows of all this back end's kernels have in common.
// Apart from the kernels so that each of them states only what is its own.
#ifndef NIBBLE_BACKENDS_CPU_ROWS_H
#define NIBBLE_BACKENDS_CPU_ROWS_H

#include <nibble/abi.h>

#include "backends/cpu/targets.h"
#include "core/formats/formats.h"

#include <cstdio>
#include <exception>
#include <iterator>
#include <new>
#include <span>

namespace nibble::cpu {

inline constexpr nibble_format kFormatIds[] = {
#define NIBBLE_ID(name) format::name::kId,
    NIBBLE_FORMATS(NIBBLE_ID)
#undef NIBBLE_ID
};
inline constexpr nibble_format kResultTypes[] = {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16};

/// A row of a target: all formats, all result types.
constexpr nibble_kernel make_row(nibble_op op, const char* name, const TargetInfo& target) {
  nibble_kernel k{};
  k.struct_size = sizeof(nibble_kernel);
  k.op = op;
  k.name = name;
  k.tier = NIBBLE_TIER_TUNED;
  k.rank = target.rank;
  k.math = op == NIBBLE_OP_DEQUANTIZE ? NIBBLE_MATH_DEFAULT : NIBBLE_MATH_F32;
  k.device_type = NIBBLE_DEVICE_CPU;
  k.isa = target.isa;
  k.formats = kFormatIds;
  k.format_count = std::size(kFormatIds);
  k.types = kResultTypes;
  k.type_count = std::size(kResultTypes);
  k.self = &target;
  return k;
}

inline Target target_of(const nibble_kernel* k) { return static_cast<const TargetInfo*>(k->self)->target; }

/// Runs work that may throw (threads, memory) and answers a status: nothing leaves a kernel any other way.
template <class Work>
nibble_status contained(nibble_text* why, Work&& work) {
  try {
    work();
    return NIBBLE_OK;
  } catch (const std::bad_alloc&) {
    if (why != nullptr && why->capacity > 0) std::snprintf(why->data, why->capacity, "out of host memory");
    return NIBBLE_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    if (why != nullptr && why->capacity > 0) std::snprintf(why->data, why->capacity, "%s", e.what());
    return NIBBLE_INTERNAL;
  }
}

// One row a target each.
std::span<const nibble_kernel> dequantize_rows();
std::span<const nibble_kernel> out_prod_rows();
std::span<const nibble_kernel> linear_rows();

}  // namespace nibble::cpu

#endif
