// Text of the messages: names made safe for one line, and a status from a format string.
// Apart from the parsers because each of them, the mapping and the writers word their refusals alike.
#ifndef NIBBLE_IO_TEXT_H
#define NIBBLE_IO_TEXT_H

#include <nibble/status.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <utility>

namespace nibble::io {

/// True where `text` is well-formed UTF-8.
bool is_utf8(std::string_view text);

/// `name` in single quotes, always one line: control bytes (and every byte beyond ASCII where the text is not UTF-8)
/// become \xNN, a long name is cut.
std::string quote(std::string_view name);

/// What the operating system says of `error`, an errno value.
std::string os_words(int error);

template <class... Args>
Status failure(nibble_status code, fmt::format_string<Args...> format, Args&&... args) {
  return {code, fmt::format(format, std::forward<Args>(args)...)};
}

template <class... Args>
Status bad_file(fmt::format_string<Args...> format, Args&&... args) {
  return {NIBBLE_BAD_FILE, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace nibble::io

#endif
