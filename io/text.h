// Text of the messages: the operating system's words, and a status from a format string.
// Apart from the parsers because each of them, the mapping and the writers word their refusals alike.
#ifndef NIBBLE_IO_TEXT_H
#define NIBBLE_IO_TEXT_H

#include <nibble/status.hpp>

#include "core/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>

namespace nibble::io {

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
