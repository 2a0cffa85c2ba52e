// Which devices the compiled code runs on, read from the list of architectures that the build was given.
// Apart from the runtime because selection asks about devices that nobody has.
#ifndef NIBBLE_BACKENDS_GPU_IMAGES_H
#define NIBBLE_BACKENDS_GPU_IMAGES_H

#include <cstdint>
#include <string_view>

namespace nibble::gpu {

/// `list` is CMake's, with commas: "75-real,90-real,103,120-virtual". "-real" is machine code, which runs on its own
/// major version's chips of the same or a later minor; "-virtual" is an intermediate form, which runs on every later
/// chip; no suffix is both. A letter after the number ("90a") is that chip alone; "f" is its family, the same major
/// version.
constexpr bool runs_on(std::string_view list, std::uint32_t major, std::uint32_t minor) {
  while (!list.empty()) {
    const std::size_t end = list.find(',');
    const std::string_view entry = list.substr(0, end);
    list = end == std::string_view::npos ? std::string_view{} : list.substr(end + 1);
    std::uint32_t number = 0;
    std::size_t at = 0;
    while (at < entry.size() && entry[at] >= '0' && entry[at] <= '9')
      number = number * 10 + static_cast<std::uint32_t>(entry[at++] - '0');
    if (number == 0) continue;
    const std::uint32_t of_major = number / 10, of_minor = number % 10;
    const std::string_view rest = entry.substr(at);
    if (rest.starts_with('a')) {
      if (major == of_major && minor == of_minor) return true;
      continue;
    }
    const bool machine_code = rest.find("-virtual") == std::string_view::npos;
    const bool intermediate = !rest.starts_with('f') && rest.find("-real") == std::string_view::npos;
    if (machine_code && major == of_major && minor >= of_minor) return true;
    if (intermediate && (major > of_major || (major == of_major && minor >= of_minor))) return true;
  }
  return false;
}

}  // namespace nibble::gpu

#endif
