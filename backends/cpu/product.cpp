// Cutting a product to a workspace, and running the pieces.
// Apart from product.h so that the two operations see the interface alone.
#include "backends/cpu/product.h"

#include "backends/cpu/rows.h"
#include "backends/cpu/threads.h"
#include "core/decode.h"

#include <algorithm>
#include <cstring>

namespace nibble::cpu {
namespace {

constexpr std::int64_t kPanelLd = kPanelColumns + 16;  // not a power of two: rows would share a few cache sets
constexpr std::uint64_t kAlignment = 64;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

std::int64_t panel_floats(const Product& p) {
  return p.chunk * kPanelLd + (p.transposed_panels ? p.chunk * kPanelColumns : 0);
}

/// Few panels over a deep k leave threads idle, so k is cut into slices; by shape alone, for equal bits everywhere.
std::int64_t slices_of(const Product& p) {
  constexpr std::int64_t kEnough = 8, kLeastDepth = 4096;
  if (ceil_div(p.columns, kPanelColumns) >= kEnough) return 1;
  return std::clamp<std::int64_t>(p.depth / kLeastDepth, 1, kEnough);
}

std::int64_t sums_floats(const Cut& c) { return c.slices * c.rows * c.panels * kPanelColumns; }
std::int64_t packed_floats(const Cut& c, std::int64_t tile_rows) {
  return c.slices * round_up(c.rows, tile_rows) * c.step;
}

void measure(const Product& p, std::int64_t tile_rows, Cut& c) {
  const std::int64_t floats = sums_floats(c) + packed_floats(c, tile_rows) + c.threads * panel_floats(p);
  c.bytes = static_cast<std::uint64_t>(floats) * sizeof(float) + 4 * kAlignment;
}

Cut smallest(const Product& p, std::int64_t tile_rows) {
  Cut c{.slices = slices_of(p), .rows = std::min<std::int64_t>(p.rows, 4 * tile_rows), .panels = 1, .step = p.chunk};
  measure(p, tile_rows, c);
  return c;
}

/// Where the parts of a workspace begin.
struct Buffers {
  float *sums, *packed, *panels;
  Buffers(const Cut& c, std::int64_t tile_rows, void* workspace) {
    const auto align = [](float* at) {
      return reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(at) + kAlignment - 1) / kAlignment *
                                      kAlignment);
    };
    sums = align(static_cast<float*>(workspace));
    packed = align(sums + sums_floats(c));
    panels = align(packed + packed_floats(c, tile_rows));
  }
};

float load(nibble_format type, const std::uint8_t* at) {
  if (type != NIBBLE_F32) return load_element(type, at);
  float x;
  std::memcpy(&x, at, sizeof x);
  return x;
}

/// One run over k for a range of rows and a group of panels.
class Pass {
 public:
  Pass(const Product& p, const Microkernel& kernel, const Cut& cut, void* workspace, std::int64_t first_row,
       std::int64_t first_panel)
      : p_(p),
        kernel_(kernel),
        cut_(cut),
        buffers_(cut, kernel.tile_rows, workspace),
        first_row_(first_row),
        rows_(std::min(cut.rows, p.rows - first_row)),
        first_panel_(first_panel),
        panels_(std::min(cut.panels, ceil_div(p.columns, kPanelColumns) - first_panel)),
        // At least one step, so that sums over no k at all are set to zero.
        slice_depth_(round_up(std::max<std::int64_t>(ceil_div(p.depth, cut.slices), 1), p.chunk)) {}

  void run() {
    for (std::int64_t offset = 0; offset < slice_depth_; offset += cut_.step) {
      const std::int64_t tiles = ceil_div(rows_, kernel_.tile_rows);
      for_pieces(cut_.slices * tiles, 4, cut_.threads, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
        for (std::int64_t i = begin; i < end; ++i) pack_tile(offset, i / tiles, i % tiles);
      });
      for_pieces(cut_.slices * panels_, 1, cut_.threads,
                 [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                   for (std::int64_t i = begin; i < end; ++i) multiply_panel(offset, i / panels_, i % panels_, worker);
                 });
    }
    for_pieces(rows_, 8, cut_.threads, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
      for (std::int64_t m = begin; m < end; ++m) finish_row(m);
    });
  }

 private:
  [[nodiscard]] std::int64_t ldc() const { return cut_.panels * kPanelColumns; }
  [[nodiscard]] float* sums(std::int64_t slice, std::int64_t m) const {
    return buffers_.sums + (slice * cut_.rows + m) * ldc();
  }
  [[nodiscard]] float* packed(std::int64_t slice) const {
    return buffers_.packed + slice * round_up(cut_.rows, kernel_.tile_rows) * cut_.step;
  }
  /// k of a slice from `offset` on: [begin, end), at most a step.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> range(std::int64_t slice, std::int64_t offset) const {
    const std::int64_t begin = slice * slice_depth_ + offset;
    const std::int64_t end = std::min({begin + cut_.step, (slice + 1) * slice_depth_, p_.depth});
    return {begin, std::max(begin, end)};
  }

  /// Chunk after chunk of k; in a chunk tile after tile; in a tile, for each k, its rows side by side.
  void pack_tile(std::int64_t offset, std::int64_t slice, std::int64_t tile) const {
    const auto [begin, end] = range(slice, offset);
    const std::int64_t tile_rows = kernel_.tile_rows, padded = round_up(rows_, tile_rows);
    for (std::int64_t row = 0; row < tile_rows; ++row) {
      const std::int64_t m = tile * tile_rows + row;
      const std::uint8_t* from = m < rows_ ? p_.activation(first_row_ + m) : nullptr;
      for (std::int64_t k0 = begin; k0 < end; k0 += p_.chunk) {
        const std::int64_t n = std::min(p_.chunk, end - k0);
        float* to = packed(slice) + (k0 - begin) * padded + tile * tile_rows * n + row;
        for (std::int64_t k = 0; k < n; ++k) {
          to[k * tile_rows] = from != nullptr ? load(p_.activation_type, from + (k0 + k) * p_.activation_stride) : 0.0f;
        }
      }
    }
  }

  void multiply_panel(std::int64_t offset, std::int64_t slice, std::int64_t panel, std::uint32_t worker) const {
    const auto [begin, end] = range(slice, offset);
    const std::int64_t n = (first_panel_ + panel) * kPanelColumns, count = std::min(kPanelColumns, p_.columns - n);
    const std::int64_t padded_columns = round_up(count, kColumnStep), padded_rows = round_up(rows_, kernel_.tile_rows);
    float* buffer = buffers_.panels + worker * panel_floats(p_);
    for (std::int64_t k = begin; k < end; k += p_.chunk) {
      const std::int64_t chunk = std::min(p_.chunk, end - k);
      p_.decode_panel(k, chunk, n, count, buffer, kPanelLd, buffer + p_.chunk * kPanelLd);
      for (std::int64_t i = 0; i < chunk && padded_columns != count; ++i) {
        std::fill(buffer + i * kPanelLd + count, buffer + i * kPanelLd + padded_columns, 0.0f);
      }
      kernel_.multiply(packed(slice) + (k - begin) * padded_rows, rows_, buffer, kPanelLd, chunk, padded_columns,
                       sums(slice, 0) + panel * kPanelColumns, ldc(), offset == 0 && k == begin);
    }
    if (offset != 0 || begin != end) return;
    // A slice without any k: its sums are zero.
    for (std::int64_t m = 0; m < rows_; ++m) std::fill_n(sums(slice, m) + panel * kPanelColumns, kPanelColumns, 0.0f);
  }

  void finish_row(std::int64_t m) const {
    const std::int64_t n = first_panel_ * kPanelColumns, count = std::min(panels_ * kPanelColumns, p_.columns - n);
    float* total = sums(0, m);
    for (std::int64_t s = 1; s < cut_.slices; ++s) {
      const float* part = sums(s, m);
      for (std::int64_t i = 0; i < count; ++i) total[i] += part[i];
    }
    p_.finish(first_row_ + m, n, count, total);
  }

  const Product& p_;
  const Microkernel& kernel_;
  const Cut& cut_;
  Buffers buffers_;
  std::int64_t first_row_, rows_, first_panel_, panels_, slice_depth_;
};

}  // namespace

Cut cut_product(const Product& p, std::int64_t tile_rows, std::uint32_t threads, std::uint64_t limit) {
  constexpr std::int64_t kMostRows = 4096, kSums = 4 << 20, kPacked = 1 << 20;  // floats
  Cut c{.slices = slices_of(p), .rows = std::min(p.rows, kMostRows)};
  const std::int64_t all_panels = std::max<std::int64_t>(1, ceil_div(p.columns, kPanelColumns));
  c.panels =
      std::clamp<std::int64_t>(kSums / std::max<std::int64_t>(1, c.slices * c.rows * kPanelColumns), 1, all_panels);
  const std::int64_t most_step = round_up(std::max<std::int64_t>(p.depth / c.slices, 1), p.chunk);
  c.step = std::clamp(kPacked / std::max<std::int64_t>(1, c.slices * c.rows) / p.chunk * p.chunk, p.chunk, most_step);
  c.threads = static_cast<std::uint32_t>(std::min<std::int64_t>(threads, c.slices * c.panels));
  const Cut least = smallest(p, tile_rows);
  for (measure(p, tile_rows, c); limit != 0 && c.bytes > limit && c.bytes > least.bytes; measure(p, tile_rows, c)) {
    if (c.step > p.chunk) {
      c.step = std::max(p.chunk, c.step / 2 / p.chunk * p.chunk);
    } else if (c.panels > 1) {
      c.panels /= 2;
    } else if (c.rows > least.rows) {
      c.rows = std::max(least.rows, c.rows / 2);
    } else if (c.threads > 1) {
      c.threads /= 2;
    } else {
      break;
    }
    c.threads = static_cast<std::uint32_t>(std::min<std::int64_t>(c.threads, c.slices * c.panels));
  }
  return c;
}

std::uint64_t least_workspace(const Product& p, std::int64_t tile_rows) { return smallest(p, tile_rows).bytes; }

void run_product(const Product& p, const Microkernel& kernel, const Cut& cut, void* workspace) {
  const std::int64_t panels = ceil_div(p.columns, kPanelColumns);
  for (std::int64_t row = 0; row < p.rows; row += cut.rows) {
    for (std::int64_t panel = 0; panel < panels; panel += cut.panels) Pass(p, kernel, cut, workspace, row, panel).run();
  }
}

void query_product(const Product& p, const nibble_kernel* k, const nibble_request* r, nibble_workspace_need* need) {
  const std::int64_t tile_rows = microkernel(target_of(k)).tile_rows;
  need->bytes = cut_product(p, tile_rows, threads_for(r->threads), r->workspace_limit_bytes).bytes;
  need->minimum_bytes = least_workspace(p, tile_rows);
  need->alignment = kAlignment;
}

}  // namespace nibble::cpu
