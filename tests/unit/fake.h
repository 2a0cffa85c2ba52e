// Kernels, devices and requests that exist nowhere: what selection is tested with.
// Apart from the tests because several of them invent the same things.
#ifndef NIBBLE_TESTS_UNIT_FAKE_H
#define NIBBLE_TESTS_UNIT_FAKE_H

#include <nibble/nibble.hpp>

#include "core/formats/formats.h"

#include <string>
#include <utility>

namespace nibble::fake {

inline constexpr nibble_format kAllFormats[] = {
#define NIBBLE_ID(name) format::name::kId,
    NIBBLE_FORMATS(NIBBLE_ID)
#undef NIBBLE_ID
};
inline constexpr nibble_format kTypes[] = {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16};

inline nibble_status execute_nothing(const nibble_kernel*, const nibble_caps*, const nibble_request*, void*,
                                     std::uint64_t, void*, nibble_text*) {
  return NIBBLE_OK;
}

/// A row that takes every format and type; the caller narrows it.
inline nibble_kernel kernel(nibble_op op, const char* name, nibble_tier tier, nibble_device_type device) {
  nibble_kernel k{};
  k.struct_size = sizeof k;
  k.op = op;
  k.name = name;
  k.tier = tier;
  k.math = op == NIBBLE_OP_DEQUANTIZE ? NIBBLE_MATH_DEFAULT : NIBBLE_MATH_F32;
  k.device_type = device;
  k.formats = kAllFormats;
  k.format_count = std::size(kAllFormats);
  k.types = kTypes;
  k.type_count = std::size(kTypes);
  k.execute = execute_nothing;
  return k;
}

inline nibble_caps caps(const char* spec) { return invent_caps(spec).value(); }

/// dequantize of a [4096, 8] weight without data; a 4-bit one with block size 64, nested by `nested_block_size` or
/// plain.
inline nibble_request dequantize(Format format, Format to, std::int64_t nested_block_size = 0, Device device = {}) {
  nibble_request r = make_request(NIBBLE_OP_DEQUANTIZE);
  r.math = NIBBLE_MATH_TF32;
  r.weight.packed = make_tensor(nullptr, format, {4096, 8}, device);
  r.dst = make_tensor(nullptr, to, {4096, 8}, device);
  if (find_format(format)->kind != FormatInfo::Kind::flat) return r;
  constexpr std::int64_t kBlockSize = 64, kBlocks = 4096 * 8 / kBlockSize;
  const bool nested = nested_block_size != 0;
  r.weight.block_size = kBlockSize;
  r.weight.absmax = make_tensor(nullptr, nested ? Format{NIBBLE_U8} : Format{NIBBLE_F32}, {kBlocks}, device);
  if (format == NIBBLE_BLOCKWISE8) r.weight.code = make_tensor(nullptr, NIBBLE_F32, {256}, device);
  if (!nested) return r;
  r.weight.nested_block_size = nested_block_size;
  r.weight.nested_code = make_tensor(nullptr, NIBBLE_F32, {256}, device);
  r.weight.nested_absmax =
      make_tensor(nullptr, NIBBLE_F32, {(kBlocks + nested_block_size - 1) / nested_block_size}, device);
  return r;
}

}  // namespace nibble::fake

#endif
