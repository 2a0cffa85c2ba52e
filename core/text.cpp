// Text of messages: UTF-8 check, control characters, quoting, lists.
// Apart from its header so that all of it is compiled once.
#include "core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace nibble {
namespace {

constexpr std::size_t kMostListed = 100;  // of thousands of files not all names fit a line

bool is_continuation(char c) { return (static_cast<std::uint8_t>(c) & 0xC0u) == 0x80u; }

/// Bytes of the UTF-8 sequence at the start of `text`; 0 where there is none.
std::size_t sequence_bytes(std::string_view text) {
  struct Lead {
    std::uint8_t mask, value;
    std::size_t bytes;
    std::uint32_t least;  // a smaller code point has a shorter form, which is the only valid one
  };
  constexpr Lead kLeads[] = {
      {0x80, 0x00, 1, 0}, {0xE0, 0xC0, 2, 0x80}, {0xF0, 0xE0, 3, 0x800}, {0xF8, 0xF0, 4, 0x10000}};
  const auto first = static_cast<std::uint8_t>(text[0]);
  for (const Lead& lead : kLeads) {
    if ((first & lead.mask) != lead.value) continue;
    if (text.size() < lead.bytes) return 0;
    std::uint32_t point = first & static_cast<std::uint8_t>(~lead.mask);
    for (std::size_t i = 1; i < lead.bytes; ++i) {
      if (!is_continuation(text[i])) return 0;
      point = (point << 6) | (static_cast<std::uint8_t>(text[i]) & 0x3Fu);
    }
    const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
    return point >= lead.least && point <= 0x10FFFF && !surrogate ? lead.bytes : 0;
  }
  return 0;
}

/// C1 controls, which a terminal obeys as it does ESC, and what turns or breaks a line: marks and overrides of
/// direction, separators of lines and paragraphs.
bool is_control(std::string_view sequence) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(sequence[i]); };
  if (sequence.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (sequence.size() != 3 || byte(0) != 0xE2) return false;
  return (byte(1) == 0x80 && ((byte(2) >= 0x8E && byte(2) <= 0x8F) || (byte(2) >= 0xA8 && byte(2) <= 0xAE))) ||
         (byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9);
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = sequence_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string printable(std::string_view text, std::size_t most_bytes) {
  const bool cut = text.size() > most_bytes;
  if (cut) {
    std::size_t end = most_bytes;
    while (end > 0 && end + 4 > most_bytes && is_continuation(text[end])) --end;
    text = text.substr(0, end);
  }
  const bool keep_high = is_utf8(text);
  std::string out;
  while (!text.empty()) {
    const std::size_t bytes = keep_high ? sequence_bytes(text) : 1;
    const auto first = static_cast<std::uint8_t>(text[0]);
    if (bytes > 1 ? is_control(text.substr(0, bytes)) : first < 0x20 || first >= 0x7F) {
      for (const char c : text.substr(0, bytes)) {
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint8_t>(c));
      }
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return cut ? out + "..." : out;
}

std::string quote(std::string_view name) { return "'" + printable(name) + "'"; }

std::string listed(std::span<const std::string_view> names) {
  const std::size_t shown = std::min(names.size(), kMostListed);
  std::string out;
  for (const std::string_view name : names.first(shown)) out += (out.empty() ? "" : ", ") + printable(name);
  return shown == names.size() ? out : fmt::format("{} and {} more", out, names.size() - shown);
}

}  // namespace nibble
