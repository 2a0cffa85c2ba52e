// The kernels that multiply as rows: what they need, their workspace, and the call.
// Apart from the plugins' lists because every GPU back end has the same ones under its own names.
#ifndef NIBBLE_BACKENDS_GPU_PRODUCT_ROWS_H
#define NIBBLE_BACKENDS_GPU_PRODUCT_ROWS_H

#include "backends/gpu/dequantize.h"
#include "backends/gpu/gemm_plan.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

namespace nibble::gpu {

/// What a row runs, and which requests it takes. A row's `self`.
struct Product {
  enum class Shape : std::uint8_t { any, matrix, batch };
  ProductTools tools;
  Shape shape = Shape::any;   ///< of dst
  bool nested_alone = false;  ///< other weights' statistics are not what the decoder reads
};

nibble_status product_supports(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                               nibble_text* why);
nibble_status query_product(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                            nibble_workspace_need* need, nibble_text* why);
nibble_status execute_product(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r, void* workspace,
                              std::uint64_t workspace_bytes, void* stream, nibble_text* why);

/// Where a row stands among others.
struct Standing {
  nibble_tier tier;
  std::uint32_t rank;
};

constexpr nibble_kernel product_row(nibble_op op, const char* name, Standing standing, nibble_math math,
                                    nibble_device_type device, std::span<const nibble_format> formats,
                                    const Product& self) {
  return {.struct_size = sizeof(nibble_kernel),
          .op = op,
          .name = name,
          .tier = standing.tier,
          .rank = standing.rank,
          .math = math,
          .device_type = device,
          .isa = 0,
          .formats = formats.data(),
          .format_count = formats.size(),
          .types = kResultTypes,
          .type_count = std::size(kResultTypes),
          .self = &self,
          .supports = product_supports,
          .query = query_product,
          .execute = execute_product};
}

/// The list that a plugin hands over: a pointer to each row.
template <std::size_t N>
constexpr std::array<const nibble_kernel*, N> pointers_to(const nibble_kernel (&rows)[N]) {
  std::array<const nibble_kernel*, N> pointers{};
  for (std::size_t i = 0; i < N; ++i) pointers[i] = &rows[i];
  return pointers;
}

}  // namespace nibble::gpu

#endif
