// Percentiles and means.
// Apart from the header so that its readers see what is computed, not how.
#include "bench/compare/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace nibble::bench {
namespace {

double percentile(const std::vector<double>& sorted, double p) {
  const double at = p * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - static_cast<double>(low));
}

}  // namespace

Summary summarize(std::span<const double> samples) {
  if (samples.empty()) return {};
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return {percentile(sorted, 0.5), percentile(sorted, 0.1), percentile(sorted, 0.9)};
}

double geometric_mean(std::span<const double> values) {
  if (values.empty()) return 0;
  double sum = 0;
  for (const double v : values) sum += std::log(v);
  return std::exp(sum / static_cast<double>(values.size()));
}

}  // namespace nibble::bench
