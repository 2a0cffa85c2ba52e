// The driver that out_prod and linear share: panels of decoded weight, packed activations, chunks of k, threads.
// Apart from the two operations because they differ only in where a panel and an activation come from.
//
//   result[m][n] = sum over k of activation[m][k] * panel[k][n]
//
// For each group of panels: for each step of k: pack the activations once, then let each thread decode a panel of one
// chunk of k and multiply while it lies in its cache. No part of the weight is decoded twice in a call, unless there
// are more rows than the workspace holds, and never more than a panel a thread at a time.
#ifndef NIBBLE_BACKENDS_CPU_PRODUCT_H
#define NIBBLE_BACKENDS_CPU_PRODUCT_H

#include <nibble/abi.h>

#include "backends/cpu/targets.h"

#include <cstdint>
#include <functional>

namespace nibble::cpu {

/// With so few rows a panel is used once: it must not leave the first-level cache between decoding and multiplying.
inline constexpr std::int64_t kFewRows = 8;

/// One matrix product.
struct Product {
  enum class Panels : std::uint8_t {
    as_decoded,  ///< a row of a panel is a piece of a row of the weight
    transposed,  ///< a column of a panel is
    dots,        ///< likewise, but for few rows: dot products along k need no transposition
    none         ///< few rows: multiply_row adds a row of the weight to the sums as it is decoded
  };

  Target target{};
  Panels panels = Panels::as_decoded;
  std::int64_t rows = 0, columns = 0, depth = 0;  ///< m, n, k
  std::int64_t chunk = 256;                       ///< k in a panel: 256 x 256 floats fit a second-level cache
  std::int64_t panel_columns = 256;               ///< a multiple of 256, which is whole blocks of every format

  /// Decodes a part of the weight, rows `ld` apart: [k][n] for as_decoded, else [n][k].
  std::function<void(std::int64_t k, std::int64_t k_count, std::int64_t n, std::int64_t n_count, float* out,
                     std::int64_t ld)>
      decode;
  /// For `none`: sums[m][n] += factors[m] * weight[k][n], rows of sums `ld` apart.
  std::function<void(std::int64_t k, std::int64_t n, std::int64_t n_count, const float* factors, float* sums,
                     std::int64_t ld)>
      multiply_row;
  /// Where activation[m][0] is, and the distance to activation[m][1].
  std::function<const std::uint8_t*(std::int64_t m)> activation;
  std::int64_t activation_stride = 0;
  nibble_format activation_type = NIBBLE_F32;
  /// Takes `count` finished sums of row m from column n on; may overwrite them.
  std::function<void(std::int64_t m, std::int64_t n, std::int64_t count, float* sums)> finish;
};

/// How a product is cut to fit a workspace. None of it changes any sum.
struct Cut {
  std::int64_t slices = 1;  ///< parts of k with sums of their own; from the shape alone, since these do change sums
  std::int64_t rows = 0;    ///< m at a time
  std::int64_t panels = 1;  ///< at a time
  std::int64_t step = 0;    ///< k packed at a time, of each slice
  std::uint32_t threads = 1;
  std::uint64_t bytes = 0;  ///< all of it
};

/// The best cut of at most `limit` bytes (0: no limit), or the smallest there is.
Cut cut_product(const Product& p, std::uint32_t threads, std::uint64_t limit);

void run_product(const Product& p, const Cut& cut, void* workspace);

/// The query of a kernel whose request is this product.
void query_product(const Product& p, const nibble_request* r, nibble_workspace_need* need);

}  // namespace nibble::cpu

#endif
