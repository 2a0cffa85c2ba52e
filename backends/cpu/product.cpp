// Cutting a product to a workspace, and running the pieces.
// Apart from product.h so that the two operations see the interface alone.
#include "backends/cpu/product.h"

#include "backends/cpu/engines.h"
#include "backends/cpu/microkernel.h"
#include "backends/cpu/threads.h"
#include "core/decode.h"

#include <algorithm>
#include <utility>

namespace nibble::cpu {
namespace {

using Panels = Product::Panels;

constexpr std::uint64_t kAlignment = 64;
constexpr std::int64_t kGap = 16;          // floats between rows: at a power of two they would share a few cache sets
constexpr std::int64_t kDecodedRows = 16;  // of a weight whose values lie along k, at a time

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

std::int64_t panel_ld(const Product& p) { return p.panel_columns + kGap; }
std::int64_t decoded_ld(const Product& p) { return p.chunk + kGap; }
std::int64_t panel_count(const Product& p) { return std::max<std::int64_t>(1, ceil_div(p.columns, p.panel_columns)); }

/// What a thread decodes into: a panel, rows that are yet to be transposed, or both. Whole cache lines.
std::int64_t panel_floats(const Product& p) {
  return p.panels == Panels::dots || p.panels == Panels::none ? 0 : round_up(p.chunk, 4) * panel_ld(p);
}
std::int64_t decoded_floats(const Product& p) {
  return p.panels == Panels::as_decoded || p.panels == Panels::none ? 0 : kDecodedRows * decoded_ld(p);
}

/// Few panels over a deep k leave threads idle, so k is cut into slices; by shape alone, for equal bits everywhere.
std::int64_t slices_of(const Product& p) {
  constexpr std::int64_t kLeastDepth = 1024;
  const std::int64_t enough = p.rows <= kFewRows ? 32 : 8;  // sums of many rows would cost more than idle threads
  return std::max<std::int64_t>(1, std::min(p.depth / kLeastDepth, enough / panel_count(p)));
}

std::int64_t sums_ld(const Product& p, const Cut& c) { return c.panels * p.panel_columns + kGap; }
std::int64_t sums_floats(const Product& p, const Cut& c) { return c.slices * c.rows * sums_ld(p, c); }
std::int64_t packed_floats(const Cut& c) { return c.slices * c.rows * c.step; }

void measure(const Product& p, Cut& c) {
  const std::int64_t floats = sums_floats(p, c) + packed_floats(c) + c.threads * (panel_floats(p) + decoded_floats(p));
  c.bytes = static_cast<std::uint64_t>(floats) * sizeof(float) + 4 * kAlignment;
}

Cut smallest(const Product& p) {
  constexpr std::int64_t kLeastRows = 56;  // a whole number of tiles on every target
  Cut c{.slices = slices_of(p), .rows = std::min(p.rows, kLeastRows), .panels = 1, .step = p.chunk};
  measure(p, c);
  return c;
}

/// Where the parts of a workspace begin.
struct Buffers {
  float *sums, *packed, *panels;
  Buffers(const Product& p, const Cut& c, void* workspace) {
    const auto align = [](float* at) {
      const auto past = reinterpret_cast<std::uintptr_t>(at) % kAlignment;
      return at + (kAlignment - past) % kAlignment / sizeof(float);
    };
    sums = align(static_cast<float*>(workspace));
    packed = align(sums + sums_floats(p, c));
    panels = align(packed + packed_floats(c));
  }
};

/// One run over k for a range of rows and a group of panels.
class Pass {
 public:
  Pass(const Product& p, const Cut& cut, void* workspace, std::int64_t first_row, std::int64_t first_panel)
      : p_(p),
        kernel_(microkernel(p.target)),
        to_floats_(element_decoder(p.target, p.activation_type, Sink::store_f32)),
        element_bytes_(p.activation_type == NIBBLE_F32 ? 4 : 2),
        cut_(cut),
        buffers_(p, cut, workspace),
        first_row_(first_row),
        rows_(std::min(cut.rows, p.rows - first_row)),
        tile_rows_(p.panels == Panels::dots ? 1 : kernel_.tile_rows),
        first_panel_(first_panel),
        panels_(std::min(cut.panels, panel_count(p) - first_panel)),
        slice_depth_(round_up(ceil_div(p.depth, cut.slices), p.chunk)) {}

  void run() {
    if (p_.depth == 0) std::fill_n(buffers_.sums, sums_floats(p_, cut_), 0.0f);
    for (std::int64_t offset = 0; offset < slice_depth_; offset += cut_.step) {
      const std::int64_t tiles = tile_count(rows_, tile_rows_);
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
  [[nodiscard]] std::int64_t ldc() const { return sums_ld(p_, cut_); }
  [[nodiscard]] float* sums(std::int64_t slice, std::int64_t m) const {
    return buffers_.sums + (slice * cut_.rows + m) * ldc();
  }
  /// A slice's activations: chunk after chunk of k, in a chunk tile after tile.
  [[nodiscard]] float* packed(std::int64_t slice, std::int64_t k) const {
    return buffers_.packed + slice * cut_.rows * cut_.step + k * rows_;
  }
  /// k of a slice from `offset` on: [begin, end), at most a step.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> range(std::int64_t slice, std::int64_t offset) const {
    const std::int64_t begin = slice * slice_depth_ + offset;
    const std::int64_t end = std::min({begin + cut_.step, (slice + 1) * slice_depth_, p_.depth});
    return {begin, std::max(begin, end)};
  }

  void pack_tile(std::int64_t offset, std::int64_t slice, std::int64_t tile) const {
    const auto [begin, end] = range(slice, offset);
    const TileRows t = tile_at(rows_, tile_rows_, tile);
    for (std::int64_t k = begin; k < end; k += p_.chunk) {
      const std::int64_t n = std::min(p_.chunk, end - k);
      pack(t, k, n, packed(slice, k - begin) + t.first * n);
    }
  }

  /// to[k][row] of a tile, by whichever of the two directions has its elements side by side.
  void pack(TileRows t, std::int64_t k, std::int64_t count, float* to) const {
    if (p_.activation_stride == element_bytes_) {
      for (std::int64_t row = 0; row < t.count; ++row) pack_along_k(t, row, k, count, to + row);
      return;
    }
    const std::uint8_t* first = row_at(t, 0, k);
    bool neighbours = true;
    for (std::int64_t row = 1; row < t.count; ++row) neighbours &= row_at(t, row, k) == first + row * element_bytes_;
    for (std::int64_t i = 0; neighbours && i < count; ++i)
      to_floats_(first + i * p_.activation_stride, t.count, {to + i * t.count});
    for (std::int64_t row = 0; !neighbours && row < t.count; ++row) {
      const std::uint8_t* from = row_at(t, row, k);
      for (std::int64_t i = 0; i < count; ++i)
        to[i * t.count + row] = load_element(p_.activation_type, from + i * p_.activation_stride);
    }
  }

  void pack_along_k(TileRows t, std::int64_t row, std::int64_t k, std::int64_t count, float* to) const {
    constexpr std::int64_t kPiece = 256;
    float values[kPiece];
    for (std::int64_t i = 0; i < count; i += kPiece) {
      const std::int64_t n = std::min(kPiece, count - i);
      to_floats_(row_at(t, row, k + i), n, {t.count == 1 ? to + i : values});
      for (std::int64_t j = 0; t.count != 1 && j < n; ++j) to[(i + j) * t.count] = values[j];
    }
  }

  [[nodiscard]] const std::uint8_t* row_at(TileRows t, std::int64_t row, std::int64_t k) const {
    return p_.activation(first_row_ + t.first + row) + k * p_.activation_stride;
  }

  void multiply_panel(std::int64_t offset, std::int64_t slice, std::int64_t panel, std::uint32_t worker) const {
    const auto [begin, end] = range(slice, offset);
    const std::int64_t n = (first_panel_ + panel) * p_.panel_columns,
                       count = std::min(p_.panel_columns, p_.columns - n);
    float* buffer = buffers_.panels + worker * (panel_floats(p_) + decoded_floats(p_));
    float* out = sums(slice, 0) + panel * p_.panel_columns;
    if (offset == 0 && begin == end) {  // a slice without any k: its sums are zero
      for (std::int64_t m = 0; m < rows_; ++m) std::fill_n(out + m * ldc(), count, 0.0f);
    } else if (p_.panels == Panels::none) {
      for (std::int64_t m = 0; offset == 0 && m < rows_; ++m) std::fill_n(out + m * ldc(), count, 0.0f);
      for (std::int64_t k = begin; k < end; ++k) p_.multiply_row(k, n, count, packed(slice, k - begin), out, ldc());
    } else if (p_.panels == Panels::dots) {
      for (std::int64_t i = 0; i < count; i += kDecodedRows) {
        dot_columns(slice, offset, n + i, std::min(kDecodedRows, count - i), buffer, out + i);
      }
    } else {
      for (std::int64_t k = begin; k < end; k += p_.chunk) {
        const std::int64_t depth = std::min(p_.chunk, end - k);
        fill_panel(k, depth, n, count, buffer);
        kernel_.multiply(packed(slice, k - begin), rows_, buffer, panel_ld(p_), depth, round_up(count, kColumnStep),
                         out, ldc(), offset == 0 && k == begin);
      }
    }
  }

  /// A panel with zeros up to where the kernels read; what they make of those is never stored.
  void fill_panel(std::int64_t k, std::int64_t depth, std::int64_t n, std::int64_t count, float* panel) const {
    const std::int64_t ld = panel_ld(p_);
    float* decoded = panel + panel_floats(p_);
    if (p_.panels == Panels::as_decoded) p_.decode(k, depth, n, count, panel, ld);
    for (std::int64_t i = 0; p_.panels == Panels::transposed && i < count; i += kDecodedRows) {
      const std::int64_t rows = std::min(kDecodedRows, count - i);
      p_.decode(k, depth, n + i, rows, decoded, decoded_ld(p_));
      kernel_.transpose(decoded, rows, depth, decoded_ld(p_), panel + i, ld);
    }
    const std::int64_t padded = round_up(count, kColumnStep);
    for (std::int64_t i = 0; padded != count && i < depth; ++i)
      std::fill(panel + i * ld + count, panel + i * ld + padded, 0.0f);
  }

  /// A few columns over all of this step's k: each is a row of the weight, read from its begin to its end.
  void dot_columns(std::int64_t slice, std::int64_t offset, std::int64_t n, std::int64_t count, float* decoded,
                   float* out) const {
    const auto [begin, end] = range(slice, offset);
    for (std::int64_t k = begin; k < end; k += p_.chunk) {
      const std::int64_t depth = std::min(p_.chunk, end - k);
      p_.decode(k, depth, n, count, decoded, decoded_ld(p_));
      kernel_.dots(packed(slice, k - begin), rows_, decoded, decoded_ld(p_), depth, count, out, ldc(),
                   offset == 0 && k == begin);
    }
  }

  void finish_row(std::int64_t m) const {
    const std::int64_t n = first_panel_ * p_.panel_columns,
                       count = std::min(panels_ * p_.panel_columns, p_.columns - n);
    float* total = sums(0, m);
    for (std::int64_t s = 1; s < cut_.slices; ++s) {
      const float* part = sums(s, m);
      for (std::int64_t i = 0; i < count; ++i) total[i] += part[i];
    }
    p_.finish(first_row_ + m, n, count, total);
  }

  const Product& p_;
  const Microkernel& kernel_;
  BlocksFn to_floats_;  ///< activations that lie side by side
  std::int64_t element_bytes_;
  const Cut& cut_;
  Buffers buffers_;
  std::int64_t first_row_, rows_, tile_rows_, first_panel_, panels_, slice_depth_;
};

}  // namespace

Cut cut_product(const Product& p, std::uint32_t threads, std::uint64_t limit) {
  constexpr std::int64_t kMostRows = 4096, kSums = 4 << 20, kPacked = 1 << 18;  // floats
  Cut c{.slices = slices_of(p), .rows = std::min(p.rows, kMostRows)};
  c.panels = std::clamp<std::int64_t>(kSums / std::max<std::int64_t>(1, c.slices * c.rows * p.panel_columns), 1,
                                      panel_count(p));
  const std::int64_t most_step = round_up(std::max<std::int64_t>(ceil_div(p.depth, c.slices), 1), p.chunk);
  c.step = std::clamp(kPacked / std::max<std::int64_t>(1, c.slices * c.rows) / p.chunk * p.chunk, p.chunk, most_step);
  c.threads = static_cast<std::uint32_t>(std::min<std::int64_t>(threads, c.slices * c.panels));
  const Cut least = smallest(p);
  for (measure(p, c); limit != 0 && c.bytes > limit && c.bytes > least.bytes; measure(p, c)) {
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

void run_product(const Product& p, const Cut& cut, void* workspace) {
  for (std::int64_t row = 0; row < p.rows; row += cut.rows) {
    for (std::int64_t panel = 0; panel < panel_count(p); panel += cut.panels) Pass(p, cut, workspace, row, panel).run();
  }
}

void query_product(const Product& p, const nibble_request* r, nibble_workspace_need* need) {
  need->bytes = cut_product(p, threads_for(r->threads), r->workspace_limit_bytes).bytes;
  need->minimum_bytes = smallest(p).bytes;
  need->alignment = kAlignment;
}

}  // namespace nibble::cpu
