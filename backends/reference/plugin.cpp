// Rows of the reference kernels, one an operation, made from the list of operations.
// Apart from plugin.h so that the registry sees a plugin and nothing of what is in it.
#include "backends/reference/plugin.h"

#include "core/formats/formats.h"
#include "core/ops/ops.h"

#include <array>
#include <cstring>

namespace nibble {
namespace {

constexpr nibble_format kFormatIds[] = {
#define NIBBLE_ID(name) format::name::kId,
    NIBBLE_FORMATS(NIBBLE_ID)
#undef NIBBLE_ID
};
constexpr nibble_format kTypes[] = {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16};

const OpInfo& op_of(const nibble_kernel* k) { return *static_cast<const OpInfo*>(k->self); }

nibble_status query(const nibble_kernel* k, const nibble_caps*, const nibble_request* r, nibble_workspace_need* need,
                    nibble_text*) {
  need->bytes = need->minimum_bytes = op_of(k).reference_workspace(*r);
  need->alignment = alignof(double);
  return NIBBLE_OK;
}

nibble_status execute(const nibble_kernel* k, const nibble_caps*, const nibble_request* r, void* workspace,
                      std::uint64_t, void*, nibble_text*) {
  op_of(k).reference(*r, workspace);
  return NIBBLE_OK;
}

constexpr nibble_kernel row(const char* name, const OpInfo& op) {
  return {.struct_size = sizeof(nibble_kernel),
          .op = op.id,
          .name = name,
          .tier = NIBBLE_TIER_REFERENCE,
          .rank = 0,
          .math = op.multiplies ? nibble_math{NIBBLE_MATH_F32} : nibble_math{NIBBLE_MATH_DEFAULT},
          .device_type = NIBBLE_DEVICE_CPU,
          .isa = 0,
          .formats = kFormatIds,
          .format_count = std::size(kFormatIds),
          .types = kTypes,
          .type_count = std::size(kTypes),
          .self = &op,
          .supports = nullptr,
          .query = query,
          .execute = execute};
}

constexpr nibble_kernel kRows[] = {
#define NIBBLE_ROW(id, name) row("reference." #name ".scalar", *find_op(nibble_op{id})),
    NIBBLE_OPS(NIBBLE_ROW)
#undef NIBBLE_ROW
};
constexpr auto kRowPointers = [] {
  std::array<const nibble_kernel*, std::size(kRows)> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = &kRows[i];
  return rows;
}();

nibble_status device_count(std::int32_t* out, nibble_text*) {
  *out = 1;
  return NIBBLE_OK;
}

nibble_status device_caps(std::int32_t, nibble_caps* out, nibble_text*) {
  out->device_type = NIBBLE_DEVICE_CPU;
  out->lanes = 1;
  out->isa = NIBBLE_ISA_PORTABLE;
  out->processors = 1;
  std::strncpy(out->arch, "portable", sizeof out->arch - 1);
  std::strncpy(out->name, "any processor, one thread", sizeof out->name - 1);
  return NIBBLE_OK;
}

constexpr nibble_plugin kPlugin = {.struct_size = sizeof(nibble_plugin),
                                   .abi_major = NIBBLE_ABI_MAJOR,
                                   .abi_minor = NIBBLE_ABI_MINOR,
                                   .device_type = NIBBLE_DEVICE_CPU,
                                   .name = "reference",
                                   .version = NIBBLE_VERSION,
                                   .kernels = kRowPointers.data(),
                                   .kernel_count = kRowPointers.size(),
                                   .open = nullptr,
                                   .device_count = device_count,
                                   .device_caps = device_caps,
                                   .memory = nullptr};

}  // namespace

const nibble_plugin& reference_plugin() { return kPlugin; }

}  // namespace nibble
