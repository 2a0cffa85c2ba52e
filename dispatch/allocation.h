// Memory on a device: the host's own, or from a plugin's functions, aligned as it is asked for.
// Apart from results and workspaces because both are allocated, aligned and released in the same way.
#ifndef NIBBLE_DISPATCH_ALLOCATION_H
#define NIBBLE_DISPATCH_ALLOCATION_H

#include <nibble/abi.h>

#include "dispatch/plugin_call.h"

#include <cstdint>

namespace nibble {

struct Allocation {
  void* base = nullptr;  ///< what `release` takes; nullptr: nothing
  void* data = nullptr;  ///< aligned
};

/// `memory` nullptr: the host's own. A plugin's status, and its words in `text`, are passed on. `alignment` is a power
/// of two that plugins need not know of: where theirs is less, more is allocated.
nibble_status allocate(const nibble_memory* memory, std::int32_t device, std::uint64_t bytes, std::uint64_t alignment,
                       void* stream, Allocation& out, TextBuffer& text);

/// A plugin's fault there has no one to be told to. The calling thread is not cancelled meanwhile: destructors call
/// this, which nothing may leave.
void release(const nibble_memory* memory, std::int32_t device, void* base, void* stream) noexcept;

}  // namespace nibble

#endif
