// Weights with random content for benchmarks: never zeros, which can run faster than real data.
// Apart from the benchmarks because all of them need one.
#ifndef NIBBLE_BENCH_FIXTURES_H
#define NIBBLE_BENCH_FIXTURES_H

#include <nibble/nibble.hpp>

#include <cstdint>
#include <vector>

namespace nibble::bench {

/// A weight of shape [columns, rows] in any format; bitsandbytes formats with block size 64, nested by 256 or plain.
struct RandomWeight {
  RandomWeight(Format format, std::int64_t columns, std::int64_t rows, bool nested = false);

  Weight weight{};
  std::vector<std::uint8_t> packed, absmax_codes;
  std::vector<float> absmax, nested_absmax, code;
};

/// Values in [-1, 1).
std::vector<float> random_floats(std::size_t count, std::uint64_t seed);

}  // namespace nibble::bench

#endif
