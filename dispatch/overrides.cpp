// The environment's variables as Settings. The only file that calls getenv.
// Apart from the registry so that everything else sees settings, however they came about.
#include "dispatch/overrides.h"

#include "core/ops/ops.h"
#include "core/text.h"
#include "dispatch/loader.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace nibble {
namespace {

constexpr std::string_view kVariables[] = {"NIBBLE_BACKEND",     "NIBBLE_FORCE",         "NIBBLE_DISABLE",
                                           "NIBBLE_PLUGIN_PATH", "NIBBLE_WORKSPACE_MIB", "NIBBLE_MATH",
                                           "NIBBLE_THREADS",     "NIBBLE_EXPLAIN"};
// Of the programs for tests.
constexpr std::string_view kForTests[] = {"NIBBLE_TEST_", "NIBBLE_CONFORMANCE"};

constexpr std::uint64_t kMostMib = std::uint64_t{1} << 40;
constexpr std::uint32_t kMostThreads = 65536;
constexpr std::string_view kMathValues = "f32, tf32 or bf16";

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
  return {NIBBLE_BAD_SETTING, fmt::format("{}={}: expected {}", variable, printable(value), expected)};
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
std::string whole_number(T least, T most) {
  return fmt::format("a whole number from {} to {}", least, most);
}

template <class T>
Status read_number(const char* variable, T least, T most, T& out) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return {};
  const std::string_view text = value;
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most) {
    return malformed(variable, text, whole_number(least, most));
  }
  out = number;
  return {};
}

Status read_force(Settings& s) {
  const std::string expected = fmt::format("OP=KERNEL, comma-separated, OP one of {}", listed(op_names()));
  auto items = read_list("NIBBLE_FORCE", ',', expected);
  if (!items) return items.status();
  for (const std::string& item : *items) {
    const std::size_t at = item.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == item.size()) return malformed("NIBBLE_FORCE", item, expected);
    s.force.emplace_back(item.substr(0, at), item.substr(at + 1));
  }
  return {};
}

Status read_math(Settings& s) {
  const char* value = std::getenv("NIBBLE_MATH");
  if (value == nullptr) return {};
  s.math = find_math(value);
  return s.math != NIBBLE_MATH_DEFAULT ? Status{} : malformed("NIBBLE_MATH", value, kMathValues);
}

Status read_explain(Settings& s) {
  const char* value = std::getenv("NIBBLE_EXPLAIN");
  if (value == nullptr) return {};
  const std::string_view text = value;
  if (text != "0" && text != "1") return malformed("NIBBLE_EXPLAIN", text, "0 or 1");
  s.explain = text == "1";
  return {};
}

/// The first of `names` that stands there twice; empty: none.
std::string_view find_twice(std::span<const std::string> names) {
  for (auto i = names.begin(); i != names.end(); ++i) {
    if (std::find(names.begin(), i, *i) != i) return *i;
  }
  return {};
}

template <class... Args>
Status bad_setting(fmt::format_string<Args...> text, Args&&... args) {
  return {NIBBLE_BAD_SETTING, fmt::format(text, std::forward<Args>(args)...)};
}

}  // namespace

Status check_settings(const Settings& s) {
  if (s.workspace_mib < 1 || s.workspace_mib > kMostMib)
    return malformed("NIBBLE_WORKSPACE_MIB", fmt::to_string(s.workspace_mib), whole_number<std::uint64_t>(1, kMostMib));
  if (s.threads > kMostThreads)
    return malformed("NIBBLE_THREADS", fmt::to_string(s.threads), whole_number<std::uint32_t>(1, kMostThreads));
  if (s.math < NIBBLE_MATH_F32 || s.math > NIBBLE_MATH_BF16)
    return malformed("NIBBLE_MATH", fmt::to_string(s.math), kMathValues);
  if (const auto name = find_twice(s.backends); !name.empty())
    return bad_setting("NIBBLE_BACKEND names {} twice: expected once", quote(name));
  std::vector<std::string> ops;
  for (const auto& [op, kernel] : s.force) ops.push_back(op);
  if (const auto op = find_twice(ops); !op.empty())
    return bad_setting("NIBBLE_FORCE names operation {} twice: expected once", quote(op));
  for (const std::string& name : s.backends) {
    for (const std::string& pattern : s.disable) {
      if (disables_backend(pattern, name)) {
        return bad_setting("back end {} is asked for by NIBBLE_BACKEND and disabled by {}: expected one of the two",
                           quote(name), quote(pattern));
      }
    }
  }
  return {};
}

std::span<const std::string_view> Settings::variables() { return kVariables; }

std::vector<std::string> Settings::unknown_variables() {
  std::vector<std::string> unknown;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry, name = text.substr(0, text.find('='));
    const bool known = std::find(std::begin(kVariables), std::end(kVariables), name) != std::end(kVariables);
    const bool test =
        std::any_of(std::begin(kForTests), std::end(kForTests), [&](auto t) { return name.starts_with(t); });
    if (name.starts_with("NIBBLE_") && !known && !test) unknown.emplace_back(name);
  }
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

Result<Settings> Settings::from_environment() {
  Settings s;
  const struct {
    const char* variable;
    char separator;
    std::string_view expected;
    std::vector<std::string>* out;
  } lists[] = {
      {"NIBBLE_BACKEND", ',', "names of back ends as 'nibble info' lists them, comma-separated", &s.backends},
      {"NIBBLE_DISABLE", ',', "globs of kernels or back ends as 'nibble info' lists them, comma-separated", &s.disable},
      {"NIBBLE_PLUGIN_PATH", ':', "folders, separated by colons", &s.plugin_path}};
  for (const auto& list : lists) {
    auto items = read_list(list.variable, list.separator, list.expected);
    if (!items) return items.status();
    *list.out = std::move(*items);
  }
  if (Status status = read_force(s); !status) return status;
  if (Status status = read_number<std::uint64_t>("NIBBLE_WORKSPACE_MIB", 1, kMostMib, s.workspace_mib); !status)
    return status;
  if (Status status = read_number<std::uint32_t>("NIBBLE_THREADS", 1, kMostThreads, s.threads); !status) return status;
  if (Status status = read_math(s); !status) return status;
  if (Status status = read_explain(s); !status) return status;
  return s;
}

}  // namespace nibble
