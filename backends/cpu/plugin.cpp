// The CPU plugin: its rows, and what it says of the processor.
// Apart from the kernels because it is what the host sees first.
#include "backends/cpu/rows.h"
#include "backends/cpu/threads.h"

#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <string>

namespace nibble::cpu {
namespace {

nibble_status device_count(std::int32_t* out, nibble_text*) {
  *out = 1;
  return NIBBLE_OK;
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  }
  return "unnamed processor";
}

nibble_status device_caps(std::int32_t, nibble_caps* out, nibble_text* why) {
  return contained(why, [&] {
    out->device_type = NIBBLE_DEVICE_CPU;
    out->lanes = 1;
    out->isa = detected_isa();
    out->processors = available_threads();
    out->memory_bytes =
        static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    out->cache_bytes = cache > 0 ? static_cast<std::uint64_t>(cache) : 0;
    for (const TargetInfo& t : kTargets) {
      if ((out->isa & t.isa) == 0) continue;
      std::strncpy(out->arch, t.name, sizeof out->arch - 1);
      break;  // best first
    }
    std::strncpy(out->name, processor_name().c_str(), sizeof out->name - 1);
  });
}

/// Pointers to all rows, in static memory.
const auto& all_rows() {
  static const auto rows = [] {
    std::array<const nibble_kernel*, 3 * std::size(kTargets)> all{};
    std::size_t i = 0;
    for (const auto list : {dequantize_rows(), out_prod_rows(), linear_rows()}) {
      for (const nibble_kernel& k : list) all[i++] = &k;
    }
    return all;
  }();
  return rows;
}

}  // namespace
}  // namespace nibble::cpu

extern "C" NIBBLE_EXPORT const nibble_plugin* nibble_plugin_query(std::uint32_t host_major, std::uint32_t) {
  using namespace nibble::cpu;
  if (host_major != NIBBLE_ABI_MAJOR) return nullptr;
  static const nibble_plugin plugin = {.struct_size = sizeof(nibble_plugin),
                                       .abi_major = NIBBLE_ABI_MAJOR,
                                       .abi_minor = NIBBLE_ABI_MINOR,
                                       .device_type = NIBBLE_DEVICE_CPU,
                                       .name = "cpu",
                                       .version = NIBBLE_VERSION,
                                       .kernels = all_rows().data(),
                                       .kernel_count = all_rows().size(),
                                       .open = nullptr,
                                       .device_count = device_count,
                                       .device_caps = device_caps,
                                       .memory = nullptr};
  return &plugin;
}
