// The environment's variables as Settings. The only file that calls getenv.
// Apart from the registry so that everything else sees settings, however they came about.
#include <nibble/nibble.hpp>

#include "core/ops/ops.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstdlib>

namespace nibble {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
    if (text.empty()) parts.emplace_back();
  }
  return parts;
}

Status malformed(std::string_view variable, std::string_view value, std::string_view expected) {
  return {NIBBLE_BAD_SETTING, fmt::format("{}={}: expected {}", variable, value, expected)};
}

/// A list whose items are not empty; an unset or empty variable is an empty list.
Result<std::vector<std::string>> read_list(const char* variable, char separator, std::string_view expected) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return std::vector<std::string>{};
  std::vector<std::string> items = split(value, separator);
  for (const std::string& item : items) {
    if (item.empty()) return malformed(variable, value, expected);
  }
  return items;
}

template <class T>
Status read_number(const char* variable, T least, T most, T& out) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return {};
  const std::string_view text = value;
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most) {
    return malformed(variable, text, fmt::format("a whole number from {} to {}", least, most));
  }
  out = number;
  return {};
}

Status read_force(Settings& s) {
  constexpr std::string_view kExpected = "OP=KERNEL, comma-separated, each op once";
  auto items = read_list("NIBBLE_FORCE", ',', kExpected);
  if (!items) return items.status();
  for (const std::string& item : *items) {
    const std::size_t at = item.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == item.size()) return malformed("NIBBLE_FORCE", item, kExpected);
    s.force.emplace_back(item.substr(0, at), item.substr(at + 1));
  }
  return {};
}

Status read_math(Settings& s) {
  const char* value = std::getenv("NIBBLE_MATH");
  if (value == nullptr) return {};
  s.math = find_math(value);
  return s.math != NIBBLE_MATH_DEFAULT ? Status{} : malformed("NIBBLE_MATH", value, "f32, tf32 or bf16");
}

Status read_explain(Settings& s) {
  const char* value = std::getenv("NIBBLE_EXPLAIN");
  if (value == nullptr) return {};
  const std::string_view text = value;
  if (text != "0" && text != "1") return malformed("NIBBLE_EXPLAIN", text, "0 or 1");
  s.explain = text == "1";
  return {};
}

}  // namespace

Result<Settings> Settings::from_environment() {
  Settings s;
  const struct {
    const char* variable;
    char separator;
    std::string_view expected;
    std::vector<std::string>* out;
  } lists[] = {{"NIBBLE_BACKEND", ',', "names of back ends, comma-separated", &s.backends},
               {"NIBBLE_DISABLE", ',', "globs of kernels or back ends, comma-separated", &s.disable},
               {"NIBBLE_PLUGIN_PATH", ':', "folders, separated by colons", &s.plugin_path}};
  for (const auto& list : lists) {
    auto items = read_list(list.variable, list.separator, list.expected);
    if (!items) return items.status();
    *list.out = std::move(*items);
  }
  if (Status status = read_force(s); !status) return status;
  constexpr std::uint64_t kMostMib = std::uint64_t{1} << 40;
  if (Status status = read_number<std::uint64_t>("NIBBLE_WORKSPACE_MIB", 1, kMostMib, s.workspace_mib); !status)
    return status;
  if (Status status = read_number<std::uint32_t>("NIBBLE_THREADS", 1, 65536, s.threads); !status) return status;
  if (Status status = read_math(s); !status) return status;
  if (Status status = read_explain(s); !status) return status;
  return s;
}

}  // namespace nibble
