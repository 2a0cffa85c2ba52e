// Go or no-go for a specialised kernel, computed from its cells.
// Apart from the measuring so that every gate is tested on made-up cells just over and just under it.
#ifndef NIBBLE_BENCH_COMPARE_VERDICT_H
#define NIBBLE_BENCH_COMPARE_VERDICT_H

#include "bench/compare/statistics.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nibble::bench {

/// What a cell is evidence of.
enum class Kind : std::uint8_t {
  standalone,  ///< the kernel alone, in a captured graph
  backward,    ///< out_prod through a layer
  forward,     ///< linear through a layer
  public_path  ///< calls as an application makes them
};

/// Both kernels on one request.
struct Measured {
  std::string name;
  Kind kind = Kind::standalone;
  bool large = false;    ///< counts for the geometric mean
  bool control = false;  ///< only must not regress
  Summary baseline, candidate;

  /// Above 1: the candidate is faster.
  [[nodiscard]] double ratio() const { return candidate.median > 0 ? baseline.median / candidate.median : 0; }
};

// The gates.
inline constexpr double kLeastGain = 1.10;       ///< geometric mean over the large standalone cells
inline constexpr double kMostLoss = 0.97;        ///< any standalone or public-path cell
inline constexpr double kLeastLayerGain = 1.03;  ///< one backward and one forward cell, more than their spread

struct Verdict {
  bool go = false;
  double gain = 0;                    ///< that geometric mean
  std::vector<std::string> failings;  ///< a line each: the gate, and the cell that fails it
};

Verdict judge(std::span<const Measured> cells);

}  // namespace nibble::bench

#endif
