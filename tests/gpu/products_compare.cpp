// Bounds and comparisons.
// Apart from the header so that the cases compile without the decoders.
#include "tests/gpu/products_compare.h"

#include "backends/cuda/products.h"
#include "core/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace nibble::gpu_test {
namespace {

/// Most that an element may be off, in units of the sum of its terms' magnitudes: rounding the operands (TF32 has 11
/// significant bits), cutting in tensor cores, and f32 sums whose rounding errors grow as the root of their number.
double relative_bound(nibble_math math, std::int64_t k) {
  constexpr double kUnit = 0x1p-24;
  const double sums = (4 + 4 * std::sqrt(static_cast<double>(k))) * kUnit;
  if (math == NIBBLE_MATH_F32) return sums;
  return 0x1p-10 * 1.001 + sums + static_cast<double>(std::min<std::int64_t>(k, 32768)) / 4 * kUnit;
}

/// Half a unit in the last place of `type` at x.
double rounding(nibble_format type, double x) {
  if (type == NIBBLE_F16) return std::max(std::abs(x) * 0x1p-11, 0x1p-25);
  return type == NIBBLE_BF16 ? std::abs(x) * 0x1p-8 : 0;
}

}  // namespace

Tally tally;

void report(const Case& c, const char* row, const std::string& what) {
  constexpr std::int64_t kMostLines = 40;
  if (++tally.failures <= kMostLines) fmt::print("FAIL {}\n     {}: {}\n", c.text(), row, what);
}

void compare(const Case& c, const nibble_kernel& row, const Fixture& f, const std::vector<Expected>& expected,
             const Outcome& got) {
  if (got.status != NIBBLE_OK) return report(c, row.name, fmt::format("status {}: {}", got.status, got.why));
  if (!got.broken.empty()) return report(c, row.name, "broken: " + got.broken);
  for (std::size_t i = 0; i < got.dst.size(); ++i) {
    if (f.is_padding(i) && got.dst[i] != 0xff)
      return report(c, row.name, fmt::format("padding byte {} was written", i));
  }
  const Tensor& d = f.request().dst;
  const auto m = static_cast<std::size_t>(d.shape[0]), stride = static_cast<std::size_t>(d.byte_stride[1]);
  const double relative = relative_bound(row.math, c.op == NIBBLE_OP_LINEAR ? c.columns : c.rows);
  double error2 = 0, value2 = 0;
  double& worst = tally.worst_bound[row.name];
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double x =
        load_element(d.format, got.dst.data() + i / m * stride + i % m * static_cast<std::size_t>(d.byte_stride[0]));
    const double error = std::abs(x - expected[i].value);
    const double bound = relative * expected[i].magnitude + rounding(d.format, expected[i].value) * 1.01 + 1e-37;
    if (!(error <= bound)) {
      return report(
          c, row.name,
          fmt::format("element [{}, {}] is {}: expected {} within {}", i % m, i / m, x, expected[i].value, bound));
    }
    if (d.format == NIBBLE_F32 && bound > 1e-30) worst = std::max(worst, error / bound);
    error2 += error * error;
    value2 += expected[i].value * expected[i].value;
  }
  if (d.format != NIBBLE_F32 || expected.size() < 4096) return;
  const double nmse = error2 / value2, limit = row.math == NIBBLE_MATH_F32 ? 1e-9 : 3e-7;
  tally.worst_nmse[row.name] = std::max(tally.worst_nmse[row.name], nmse);
  if (!(nmse <= limit)) report(c, row.name, fmt::format("NMSE {:.3g}: expected at most {}", nmse, limit));
}

/// Every row that takes the case.
void run(OnDevice& device, const Case& c) {
  const Fixture f(c, 17 + static_cast<std::uint64_t>(tally.calls));
  const auto expected = f.expected();
  device.upload(f);
  std::int64_t rows = 0;
  for (const nibble_kernel* row : cuda::product_rows()) {
    if (!device.supports(*row)) continue;
    device.request.math = row->math;
    compare(c, *row, f, expected, device.call(*row, f, c.least_workspace));
    ++tally.calls;
    ++rows;
  }
  if (rows == 0) report(c, "none", "no row takes this");
}

}  // namespace nibble::gpu_test
