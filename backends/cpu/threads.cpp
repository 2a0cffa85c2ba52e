// Quota, affinity, and the loop.
// Apart from threads.h so that oneTBB's headers are compiled once.
#include "backends/cpu/threads.h"

#include <sched.h>

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace nibble::cpu {
namespace {

/// What oneTBB orders, told to ThreadSanitizer, which does not see into its library: the caller's work comes before all
/// pieces and after them, and pieces of one worker's number follow on each other. Two workers' pieces stay unordered.
/// Without that sanitizer it is nothing.
class Order {
 public:
#if defined(__SANITIZE_THREAD__)
  explicit Order(std::uint32_t workers) : worker_(workers) { __tsan_release(&begin_); }
  ~Order() { __tsan_acquire(&end_); }
  void enter(std::uint32_t worker) {
    __tsan_acquire(&begin_);
    __tsan_acquire(&worker_[worker]);
  }
  void leave(std::uint32_t worker) {
    __tsan_release(&worker_[worker]);
    __tsan_release(&end_);
  }

 private:
  char begin_ = 0, end_ = 0;
  std::vector<char> worker_;
#else
  explicit Order(std::uint32_t /*workers*/) {}
  void enter(std::uint32_t /*worker*/) {}
  void leave(std::uint32_t /*worker*/) {}
#endif
};

/// True once the process ends and oneTBB may be gone: what is destroyed late may still dispatch. The mark was made
/// after oneTBB's library was loaded, so it is destroyed before it.
bool process_ends() {
  static std::atomic<bool> ends = false;
  struct Mark {
    ~Mark() { ends = true; }
  };
  static const Mark mark;
  return ends;
}

std::uint32_t count_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<std::uint32_t>(std::max(CPU_COUNT(&set), 1));
  return std::max(std::thread::hardware_concurrency(), 1u);
}

std::uint32_t affinity_threads() {
  static const std::uint32_t threads = count_affinity();
  return threads;
}

/// Of one group, whose files of version 2 lie in `v2` and of version 1 in `v1`; 0: no quota.
std::uint32_t group_quota(const std::string& v2, const std::string& v1) {
  double quota = -1, period = 0;
  std::string first;
  if (std::ifstream max(v2 + "/cpu.max"); max >> first >> period) {
    quota = std::strtod(first.c_str(), nullptr);  // "max" is no number: 0, no quota
  } else {
    std::ifstream(v1 + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(v1 + "/cpu.cfs_period_us") >> period;
  }
  if (!(quota > 0 && period > 0)) return 0;
  const double threads = std::ceil(quota / period);
  return threads < 65536 ? static_cast<std::uint32_t>(threads) : 0;
}

/// The groups that the process is in, as paths below the root. Lines are ID:CONTROLLERS:PATH, and for version 2
/// 0::PATH.
std::vector<std::string> own_groups(const std::string& own) {
  std::vector<std::string> paths = {""};  // in a container the root is often the container's own group
  std::ifstream file(own);
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers != ",," && controllers.find(",cpu,") == std::string::npos) continue;
    paths.push_back(line.substr(second + 1));
  }
  return paths;
}

}  // namespace

std::uint32_t quota_threads(const std::string& root, const std::string& own) {
  const std::string of_cpu = root + "/cpu";
  std::uint32_t least = 0;
  for (std::string path : own_groups(own)) {
    for (;; path.erase(path.rfind('/'))) {  // a group above may allow less
      const std::uint32_t quota = group_quota(root + path, of_cpu + path);
      if (quota != 0 && (least == 0 || quota < least)) least = quota;
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return least;
}

std::uint32_t allowed_threads(std::uint32_t affinity, const std::string& root, const std::string& own) {
  const std::uint32_t quota = quota_threads(root, own);
  return quota == 0 ? affinity : std::min(affinity, quota);
}

std::uint32_t available_threads() {
  static const std::uint32_t available = allowed_threads(affinity_threads(), "/sys/fs/cgroup", "/proc/self/cgroup");
  return available;
}

std::uint32_t threads_for(std::uint32_t requested) { return requested == 0 ? available_threads() : requested; }

void run_pieces(std::int64_t count, std::int64_t grain, std::uint32_t threads, const PiecesBody& body) {
  if (count <= 0) return;
  if (threads <= 1 || count <= grain || process_ends()) {
    body(0, count, 0);
    return;
  }
  namespace tbb = oneapi::tbb;
  // More than the machine has bring nothing, and oneTBB would print that it ignores them.
  const std::uint32_t workers = std::min(threads, affinity_threads());
  tbb::task_arena arena(static_cast<int>(workers));
  Order order(workers);
  arena.execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, count, static_cast<std::size_t>(grain)),
        [&](const tbb::blocked_range<std::int64_t>& r) {
          const auto worker = static_cast<std::uint32_t>(tbb::this_task_arena::current_thread_index());
          order.enter(worker);
          body(r.begin(), r.end(), worker);
          order.leave(worker);
        },
        tbb::simple_partitioner());
  });
}

}  // namespace nibble::cpu
