// Text of the messages: UTF-8 check, quoting, the operating system's words.
// Apart from its header because none of it is a template.
#include "io/text.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <system_error>

namespace nibble::io {
namespace {

constexpr std::size_t kMostQuotedBytes = 200;

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

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = sequence_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string quote(std::string_view name) {
  const bool cut = name.size() > kMostQuotedBytes;
  if (cut) {
    std::size_t end = kMostQuotedBytes;
    while (end > kMostQuotedBytes - 4 && is_continuation(name[end])) --end;
    name = name.substr(0, end);
  }
  const bool keep_high = is_utf8(name);
  std::string out = "'";
  for (const char c : name) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !keep_high)) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  out += cut ? "...'" : "'";
  return out;
}

std::string os_words(int error) { return std::generic_category().message(error); }

}  // namespace nibble::io
