// The dequantize kernels as rows: what they need, their workspace, and the call.
// Apart from the plugins' lists because every GPU back end has the same ones under its own name.
#ifndef NIBBLE_BACKENDS_GPU_DEQUANTIZE_H
#define NIBBLE_BACKENDS_GPU_DEQUANTIZE_H

#include <nibble/abi.h>

#include "backends/gpu/device_code.h"
#include "backends/gpu/weight_rows.h"
#include "core/formats/formats.h"

#include <array>
#include <iterator>

namespace nibble::gpu {

/// The numbers of the formats that satisfy `wanted`, in the list's order.
template <bool (*wanted)(Engine)>
consteval auto format_ids() {
  constexpr auto kCount = [] {
    std::size_t n = 0;
    for_each_format([&](auto f) { n += wanted(f.kEngine) ? 1 : 0; });
    return n;
  }();
  std::array<nibble_format, kCount> ids{};
  std::size_t at = 0;
  for_each_format([&](auto f) {
    if (wanted(f.kEngine)) ids[at++] = f.kId;
  });
  return ids;
}

inline constexpr auto kAllFormats = format_ids<[](Engine) { return true; }>();
inline constexpr auto kBlockFormats = format_ids<[](Engine e) { return !keeps_scales_beside(e); }>();
inline constexpr auto kCodebookFormats = format_ids<keeps_scales_beside>();
inline constexpr nibble_format kResultTypes[] = {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16};

/// Nested scales are rebuilt into the workspace, then values are decoded from them.
nibble_status query_dequantize(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                               nibble_workspace_need* need, nibble_text* why);
nibble_status execute_dequantize(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                                 void* workspace, std::uint64_t workspace_bytes, void* stream, nibble_text* why);

template <std::size_t N>
constexpr nibble_kernel dequantize_row(const char* name, nibble_device_type device,
                                       const std::array<nibble_format, N>& formats) {
  return {.struct_size = sizeof(nibble_kernel),
          .op = NIBBLE_OP_DEQUANTIZE,
          .name = name,
          .tier = NIBBLE_TIER_GENERIC,
          .rank = 10,
          .math = NIBBLE_MATH_DEFAULT,
          .device_type = device,
          .isa = 0,
          .formats = formats.data(),
          .format_count = N,
          .types = kResultTypes,
          .type_count = std::size(kResultTypes),
          .self = nullptr,
          .supports = device_has_code,
          .query = query_dequantize,
          .execute = execute_dequantize};
}

}  // namespace nibble::gpu

#endif
