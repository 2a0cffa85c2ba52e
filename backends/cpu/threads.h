// Threads: how many the process may use, and a loop over pieces of work. The only place that knows oneTBB.
// Apart from the kernels so that a quota, an affinity and a caller's limit are honoured in one place.
#ifndef NIBBLE_BACKENDS_CPU_THREADS_H
#define NIBBLE_BACKENDS_CPU_THREADS_H

#include <cstdint>
#include <functional>
#include <string>

namespace nibble::cpu {

/// Threads that the process may keep busy: its affinity, bounded by its container's CPU quota, at least 1.
std::uint32_t available_threads();

/// CPUs that the quotas of the process's cgroups allow, the least of them and rounded up; 0 where there is no quota.
/// `root` is where the cgroup files lie (version 2: cpu.max; version 1: cpu/cpu.cfs_quota_us), `own` the file that
/// names the process's groups, as /proc/self/cgroup does: a test makes its own.
std::uint32_t quota_threads(const std::string& root, const std::string& own);

/// `affinity`, bounded by such a quota.
std::uint32_t allowed_threads(std::uint32_t affinity, const std::string& root, const std::string& own);

/// What a caller asks for, be it more than a quota allows; 0: what is available.
std::uint32_t threads_for(std::uint32_t requested);

using PiecesBody = std::function<void(std::int64_t, std::int64_t, std::uint32_t)>;
void run_pieces(std::int64_t count, std::int64_t grain, std::uint32_t threads, const PiecesBody& body);

/// Calls body(first, last, worker) for pieces of [0, count), concurrently on at most `threads` threads; returns when
/// all are done. `worker` is below `threads`, and no two calls at a time have the same. With one thread, where all
/// fits one piece of `grain`, or while the process ends, the caller's own thread does it and no pool is touched.
template <class Body>
void for_pieces(std::int64_t count, std::int64_t grain, std::uint32_t threads, const Body& body) {
  run_pieces(count, grain, threads, std::cref(body));  // a reference: what the body captures is not copied to the heap
}

}  // namespace nibble::cpu

#endif
