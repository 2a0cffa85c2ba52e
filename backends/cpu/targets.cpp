// Detection of instruction sets.
// Apart from targets.h so that the list is all that header shows.
#include "backends/cpu/targets.h"

#include <hwy/targets.h>

namespace nibble::cpu {

std::uint64_t isa_of(std::int64_t hwy_targets) {
  std::uint64_t isa = NIBBLE_ISA_PORTABLE;
  for (const TargetInfo& t : kTargets) {
    if ((hwy_targets & t.hwy_target) != 0) isa |= t.isa;
  }
  return isa;
}

// Highway asks the processor and, through XGETBV, the operating system.
std::uint64_t detected_isa() { return isa_of(hwy::SupportedTargets()); }

}  // namespace nibble::cpu
