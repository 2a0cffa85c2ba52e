// Text of messages: what a file, a variable or a plugin says, made safe for one line.
// Apart from io and dispatch because both word refusals with names that are not their own.
#ifndef NIBBLE_CORE_TEXT_H
#define NIBBLE_CORE_TEXT_H

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace nibble {

/// True where `text` is well-formed UTF-8.
bool is_utf8(std::string_view text);

/// `text`, always one line: control characters (and every byte beyond ASCII where it is not UTF-8) become \xNN, a long
/// one is cut.
std::string printable(std::string_view text, std::size_t most_bytes = 200);

/// The same in single quotes.
std::string quote(std::string_view name);

/// "a, b, c", or the first hundred and how many more there are.
std::string listed(std::span<const std::string_view> names);

}  // namespace nibble

#endif
