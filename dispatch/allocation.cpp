// The two functions.
// Apart from the header because neither is a template.
#include "dispatch/allocation.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>

namespace nibble {
namespace {

constexpr std::uint64_t kLeastAlignment = 64;

nibble_status allocate_on_host(std::uint64_t bytes, std::uint64_t alignment, Allocation& out) {
  out.base = out.data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  return out.base != nullptr ? NIBBLE_OK : NIBBLE_OUT_OF_MEMORY;
}

}  // namespace

nibble_status allocate(const nibble_memory* memory, std::int32_t device, std::uint64_t bytes, std::uint64_t alignment,
                       void* stream, Allocation& out, TextBuffer& text) {
  alignment = std::max(alignment, kLeastAlignment);
  if (memory == nullptr) return allocate_on_host(bytes, alignment, out);
  // Most runtimes align by more than is asked here, so room to move in is taken only where it is needed.
  for (const std::uint64_t spare : {std::uint64_t{0}, alignment - 1}) {
    void* base = nullptr;
    const nibble_status status =
        guarded(text, [&] { return memory->allocate(device, bytes + spare, stream, &base, text.get()); });
    if (status != NIBBLE_OK) return status;
    if (base == nullptr) return NIBBLE_OUT_OF_MEMORY;
    const std::uint64_t beyond = reinterpret_cast<std::uintptr_t>(base) % alignment;
    const std::uint64_t skip = beyond == 0 ? 0 : alignment - beyond;
    if (skip <= spare) {
      out = {base, static_cast<char*>(base) + skip};
      return NIBBLE_OK;
    }
    release(memory, device, base, stream);
  }
  return NIBBLE_INTERNAL;  // not reached: the second time has room
}

void release(const nibble_memory* memory, std::int32_t device, void* base, void* stream) noexcept {
  if (base == nullptr) return;
  if (memory == nullptr) {
    std::free(base);
    return;
  }
  int before = PTHREAD_CANCEL_ENABLE;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  TextBuffer text;
  guarded(text, [&] { return memory->release(device, base, stream, text.get()); });
  pthread_setcancelstate(before, nullptr);
}

}  // namespace nibble
