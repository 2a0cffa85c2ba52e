// A list of times, summed up.
// Apart from the measuring so that it can be tested on made-up samples.
#ifndef NIBBLE_BENCH_COMPARE_STATISTICS_H
#define NIBBLE_BENCH_COMPARE_STATISTICS_H

#include <span>

namespace nibble::bench {

/// Times in microseconds.
struct Summary {
  double median = 0, p10 = 0, p90 = 0;
  /// How far samples lie apart: (p90 - p10) / median.
  [[nodiscard]] double spread() const { return median > 0 ? (p90 - p10) / median : 0; }
};

/// Linear interpolation between the two nearest samples. No samples: zeros.
Summary summarize(std::span<const double> samples);

/// Zero for no values; all must be positive.
double geometric_mean(std::span<const double> values);

}  // namespace nibble::bench

#endif
