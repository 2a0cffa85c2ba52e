// Which devices the compiled code runs on, read from the list of architectures that the build was given.
// Apart from the runtime because selection asks about devices that nobody has.
#ifndef NIBBLE_BACKENDS_GPU_IMAGES_H
#define NIBBLE_BACKENDS_GPU_IMAGES_H

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace nibble::gpu {

/// The architecture, 10 * major + minor, whose code a device runs: its machine code before any intermediate form, and
/// the latest of either; 0: none. `list` is CMake's, with commas: "75-real,90-real,103,120-virtual". "-real" is machine
/// code, which runs on its own major version's chips of the same or a later minor; "-virtual" is an intermediate form,
/// which runs on every later chip; no suffix is both. A letter after the number ("90a") is that chip alone; "f" is its
/// family, the same major version.
constexpr std::uint32_t code_for(std::string_view list, std::uint32_t major, std::uint32_t minor) {
  std::uint32_t machine = 0, form = 0;
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
    const bool is_family = major == of_major && minor >= of_minor;
    const bool is_alone = rest.starts_with('a'), is_bound = is_alone || rest.starts_with('f');
    const bool has_machine_code = is_bound || rest.find("-virtual") == std::string_view::npos;
    const bool has_form = !is_bound && rest.find("-real") == std::string_view::npos;
    if (has_machine_code && (is_alone ? is_family && minor == of_minor : is_family))
      machine = std::max(machine, number);
    if (has_form && (major > of_major || is_family)) form = std::max(form, number);
  }
  return machine != 0 ? machine : form;
}

}  // namespace nibble::gpu

#endif
