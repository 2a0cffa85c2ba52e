// The gates, one after the other.
// Apart from the header, which names their limits.
#include "bench/compare/verdict.h"

#include <fmt/format.h>

#include <algorithm>

namespace nibble::bench {
namespace {

/// Whether some layer cell of this kind gains more than the limit, and more than its samples are apart.
bool gains(std::span<const Measured> cells, Kind kind) {
  return std::any_of(cells.begin(), cells.end(), [&](const Measured& c) {
    const double effect = c.ratio() - 1;
    return c.kind == kind && c.ratio() >= kLeastLayerGain && c.baseline.spread() < effect &&
           c.candidate.spread() < effect;
  });
}

}  // namespace

Verdict judge(std::span<const Measured> cells) {
  Verdict v;
  std::vector<double> large;
  for (const Measured& c : cells) {
    if (c.kind == Kind::standalone && c.large && !c.control) large.push_back(c.ratio());
    const bool gated = c.kind == Kind::standalone || c.kind == Kind::public_path;
    if (gated && c.ratio() < kMostLoss) {
      v.failings.push_back(
          fmt::format("{} is {:.3f} of the baseline's speed: expected at least {:.2f}", c.name, c.ratio(), kMostLoss));
    }
  }
  v.gain = geometric_mean(large);
  if (v.gain < kLeastGain) {
    v.failings.push_back(
        fmt::format("the geometric mean over {} large standalone cells is {:.3f}: expected at least {:.2f}",
                    large.size(), v.gain, kLeastGain));
  }
  for (const auto& [kind, name] : {std::pair(Kind::backward, "backward"), std::pair(Kind::forward, "forward")}) {
    if (gains(cells, kind)) continue;
    v.failings.push_back(
        fmt::format("no {} cell is {:.2f} times as fast with a spread below the gain", name, kLeastLayerGain));
  }
  if (std::none_of(cells.begin(), cells.end(), [](const Measured& c) { return c.kind == Kind::public_path; }))
    v.failings.emplace_back("no public-path cell was measured");
  v.go = v.failings.empty();
  return v;
}

}  // namespace nibble::bench
