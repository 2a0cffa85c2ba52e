// One line of text into the caller's buffer.
// Apart from the runtime because plugins write refusals that no runtime gave.
#ifndef NIBBLE_BACKENDS_GPU_TEXT_H
#define NIBBLE_BACKENDS_GPU_TEXT_H

#include <nibble/abi.h>

#include <fmt/format.h>

#include <utility>

namespace nibble::gpu {

/// Writes as much of the line as fits, always ended by a zero, and answers `status`. `why` may be null.
template <class... Args>
nibble_status fail(nibble_text* why, nibble_status status, fmt::format_string<Args...> line, Args&&... args) {
  if (why == nullptr || why->data == nullptr || why->capacity == 0) return status;
  const auto written = fmt::format_to_n(why->data, why->capacity - 1, line, std::forward<Args>(args)...);
  *written.out = '\0';
  return status;
}

}  // namespace nibble::gpu

#endif
