// Two kernels on one cell, timed by turns.
// Apart from the cells so that how time is taken reads in one place.
#ifndef NIBBLE_BENCH_COMPARE_MEASURE_H
#define NIBBLE_BENCH_COMPARE_MEASURE_H

#include "bench/compare/cells.h"

#include <cstdint>
#include <string>
#include <vector>

namespace nibble::bench {

/// How long a cell is looked at.
struct Effort {
  int warmups = 20;        ///< calls of each kernel before the first sample
  int batches = 9;         ///< samples of each kernel
  double batch_us = 4000;  ///< least time of a batch, from which the calls in it follow
};

/// Everything that one cell gave.
struct CellTimes {
  int calls_in_batch = 0;
  int slots = 0;  ///< copies of the operands that the calls go through, together more than three times the L2
  std::vector<double> baseline_us, candidate_us;         ///< a call's time, one a batch
  std::uint64_t moved_bytes = 0;                         ///< that the calls must read and write at least
  double baseline_launches = 0, candidate_launches = 0;  ///< kernels a call, as a captured graph has them
  std::uint64_t baseline_workspace = 0, candidate_workspace = 0;
  std::vector<std::string> kernels;  ///< that ran, as their plans name them: baseline's, then candidate's
};

/// Bytes a microsecond, read and written, of a device-to-device copy of half a GiB: the median of `batches`.
double copy_bandwidth(int batches);

/// Times a cell on device 0 with one kernel a call for each side; empty names stand for what the registry chooses.
/// Throws std::runtime_error with the reason: a kernel that refuses, operands that do not fit, a failing call.
CellTimes measure(const Registry& registry, const CellSpec& cell, const std::string& baseline,
                  const std::string& candidate, const Effort& effort);

}  // namespace nibble::bench

#endif
