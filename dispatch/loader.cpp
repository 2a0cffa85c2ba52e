// The search, the handshake, and the checks that a plugin's rows must pass. The only file that calls dlopen.
// Apart from loader.h so that a reader of the registry need not know any of it.
#include "dispatch/loader.h"

#include "backends/reference/plugin.h"
#include "core/ops/ops.h"
#include "core/text.h"
#include "dispatch/plugin_call.h"
#include "dispatch/plugin_file.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_map>

namespace nibble {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "nibble_", kSuffix = ".so";

/// The folder `nibble` beside the library that this code is in; empty where the system does not say.
std::string own_folder() {
  Dl_info info{};
  // Of a function that no other file of the process can stand in for.
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  const fs::path library = fs::canonical(info.dli_fname, error);
  return error ? std::string{} : (library.parent_path() / "nibble").string();
}

/// Back end that a file name stands for: nibble_cpu.so -> cpu; empty for other files.
std::string backend_of(const std::string& file) {
  if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix)) return {};
  if (file.size() <= kPrefix.size() + kSuffix.size()) return {};
  return file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size());
}

LoadedPlugin not_loaded(std::string backend, std::string path, std::string reason) {
  LoadedPlugin p;
  p.record.backend = std::move(backend);
  p.record.path = std::move(path);
  p.record.reason = std::move(reason);
  return p;
}

/// Every plugin file of one folder by name, so that the order does not depend on the file system.
std::vector<LoadedPlugin> scan_folder(const std::string& folder, bool asked_for) {
  std::vector<LoadedPlugin> found;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  if (error) {
    if (asked_for) found.push_back(not_loaded("", folder, fmt::format("folder cannot be read: {}", error.message())));
    return found;
  }
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::string backend = backend_of(it->path().filename().string());
    if (!backend.empty()) found.push_back(not_loaded(std::move(backend), it->path().string(), ""));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.record.path < b.record.path; });
  return found;
}

/// True where settings can name it: lists are separated by commas, kernels from operations by '='.
bool is_plain_name(std::string_view name) {
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.'; });
}

std::string size_fault(std::string_view thing, std::uint32_t size, std::size_t expected) {
  return fmt::format("{} has struct_size {}: expected at least {}", thing, size, expected);
}

// More than anybody has. A count beyond is a field that was never set, and what follows it would be read as pointers.
constexpr std::uint64_t kMostRows = 65536, kMostFormats = 4096, kMostTypes = 64;

/// Why a row cannot be used, or an empty string.
std::string row_fault(const nibble_plugin& plugin, const nibble_kernel* k, const std::set<std::string_view>& seen) {
  if (k == nullptr) return "a null row";
  if (k->struct_size < sizeof(nibble_kernel)) return size_fault("a row", k->struct_size, sizeof(nibble_kernel));
  if (k->name == nullptr) return "a row without a name";
  const std::string_view name = k->name;
  if (!is_plain_name(name)) return "a row whose name holds other than a-z, 0-9, '_' and '.'";
  if (!name.starts_with(std::string(plugin.name) + "."))
    return fmt::format("{}: expected a name that begins with {}.", name, plugin.name);
  if (seen.contains(name)) return fmt::format("{}: a name that another row has", name);
  const OpInfo* op = find_op(k->op);
  if (op == nullptr) return fmt::format("{}: op {}, which this version does not know", name, k->op);
  if (op->multiplies && (k->math < NIBBLE_MATH_F32 || k->math > NIBBLE_MATH_BF16))
    return fmt::format("{}: math {}: expected 1 (f32) to 3 (bf16)", name, k->math);
  if (k->tier < NIBBLE_TIER_REFERENCE || k->tier > NIBBLE_TIER_BY_RULE)
    return fmt::format("{}: tier {}: expected 1 to 4", name, k->tier);
  if (k->execute == nullptr) return fmt::format("{}: no execute function", name);
  if (k->device_type != plugin.device_type) return fmt::format("{}: another device type than its plugin's", name);
  if ((k->formats == nullptr && k->format_count != 0) || (k->types == nullptr && k->type_count != 0))
    return fmt::format("{}: a null list", name);
  if (k->format_count > kMostFormats)
    return fmt::format("{}: {} formats: expected at most {}", name, k->format_count, kMostFormats);
  if (k->type_count > kMostTypes)
    return fmt::format("{}: {} types: expected at most {}", name, k->type_count, kMostTypes);
  return {};
}

void take_rows(LoadedPlugin& p) {
  std::set<std::string_view> seen;
  for (std::uint64_t i = 0; i < p.plugin->kernel_count; ++i) {
    const nibble_kernel* k = p.plugin->kernels[i];
    if (std::string fault = row_fault(*p.plugin, k, seen); !fault.empty()) {
      p.record.reason += (p.record.reason.empty() ? "rows left out: " : "; ") + fault;
      continue;
    }
    seen.insert(k->name);
    p.kernels.push_back(k);
  }
}

/// Why the plugin's memory functions cannot be used, or an empty string.
std::string memory_fault(const nibble_memory* m) {
  if (m == nullptr) return {};
  if (m->struct_size < sizeof(nibble_memory))
    return size_fault("its nibble_memory", m->struct_size, sizeof(nibble_memory));
  const bool whole = m->allocate != nullptr && m->release != nullptr && m->to_device != nullptr &&
                     m->to_host != nullptr && m->synchronize != nullptr && m->stream_create != nullptr &&
                     m->stream_destroy != nullptr;
  return whole ? "" : "one of its memory functions is null";
}

/// Checks what the plugin says of itself, opens it, takes its rows. An empty string, or why it is not used.
std::string adopt(LoadedPlugin& p, const nibble_plugin* plugin) {
  PluginRecord& record = p.record;
  if (plugin == nullptr) return fmt::format("it does not speak ABI major {}", NIBBLE_ABI_MAJOR);
  if (plugin->struct_size < offsetof(nibble_plugin, device_type))
    return size_fault("its nibble_plugin", plugin->struct_size, sizeof(nibble_plugin));
  record.abi_major = plugin->abi_major;
  record.abi_minor = plugin->abi_minor;
  if (plugin->abi_major != NIBBLE_ABI_MAJOR)
    return fmt::format("it speaks ABI {}.{}: expected major {}", plugin->abi_major, plugin->abi_minor,
                       NIBBLE_ABI_MAJOR);
  if (plugin->struct_size < sizeof(nibble_plugin))
    return size_fault("its nibble_plugin", plugin->struct_size, sizeof(nibble_plugin));
  if (plugin->name == nullptr || record.backend != plugin->name) {
    return fmt::format("it calls itself {}: expected '{}', as its file",
                       quote(plugin->name == nullptr ? "" : plugin->name), record.backend);
  }
  if (plugin->device_count == nullptr || plugin->device_caps == nullptr) return "it lacks device_count or device_caps";
  if (plugin->kernels == nullptr && plugin->kernel_count != 0) return "its list of kernels is null";
  if (plugin->kernel_count > kMostRows)
    return fmt::format("it has {} kernels: expected at most {}", plugin->kernel_count, kMostRows);
  if (std::string fault = memory_fault(plugin->memory); !fault.empty()) return fault;
  record.device_type = plugin->device_type;
  record.version = plugin->version != nullptr ? printable(plugin->version) : "";
  TextBuffer text;
  if (plugin->open != nullptr) {
    const nibble_status status = guarded(text, [&] { return plugin->open(text.get()); });
    if (status != NIBBLE_OK)
      return fmt::format("open failed ({}): {}", status_name(status), text.line("no reason given"));
  }
  p.plugin = plugin;
  take_rows(p);
  record.loaded = true;
  return {};
}

/// The linker's words, without the path that the record has already.
std::string dlopen_fault(const std::string& path) {
  const char* words = dlerror();
  if (words == nullptr) return "dlopen failed without a reason";
  std::string_view text = words;
  if (text.starts_with(path + ": ")) text.remove_prefix(path.size() + 2);
  return printable(text, 1000);
}

std::string load(LoadedPlugin& p) {
  if (p.record.backend == "reference") return "the name 'reference' is the library's own";
  if (p.record.backend.find('.') != std::string::npos)
    return "its name holds a '.', which ends a back end's name in a kernel's";
  if (!is_plain_name(p.record.backend)) return "its name holds other than a-z, 0-9 and '_'";
  if (std::string fault = plugin_file_fault(p.record.path); !fault.empty()) return fault;
  void* handle = dlopen(p.record.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return dlopen_fault(p.record.path);
  auto query = reinterpret_cast<nibble_plugin_query_fn>(dlsym(handle, NIBBLE_PLUGIN_SYMBOL));
  if (query == nullptr) return "it has no symbol " NIBBLE_PLUGIN_SYMBOL;
  const nibble_plugin* plugin = nullptr;
  TextBuffer text;
  const nibble_status status = guarded(text, [&] {
    plugin = query(NIBBLE_ABI_MAJOR, NIBBLE_ABI_MINOR);
    return NIBBLE_OK;
  });
  return status == NIBBLE_OK ? adopt(p, plugin) : text.line("");
}

std::vector<LoadedPlugin> find_all(const Settings& settings) {
  std::vector<LoadedPlugin> all;
  std::unordered_map<std::string, std::string> first;  // by back end, the path that comes first
  const auto add = [&](const std::string& folder, bool asked_for) {
    for (LoadedPlugin& p : scan_folder(folder, asked_for)) {
      PluginRecord& record = p.record;
      if (!record.backend.empty()) {
        const auto [place, is_first] = first.emplace(record.backend, record.path);
        if (!is_first) record.reason = "shadowed by " + printable(place->second);
      }
      all.push_back(std::move(p));
    }
  };
  for (const std::string& folder : settings.plugin_path) add(folder, true);
  if (const std::string own = own_folder(); !own.empty()) add(own, false);
  LoadedPlugin reference;
  reference.record.backend = "reference";
  all.push_back(std::move(reference));
  return all;
}

Status unknown_backend(std::string_view name, std::span<const LoadedPlugin> all) {
  std::set<std::string_view> names;
  for (const LoadedPlugin& p : all) {
    if (!p.record.backend.empty()) names.insert(p.record.backend);
  }
  return {NIBBLE_BAD_SETTING, fmt::format("NIBBLE_BACKEND names {}: expected some of {}", quote(name),
                                          listed(std::vector(names.begin(), names.end())))};
}

/// Why the settings keep a back end out; empty where they do not.
std::string excluded(const Settings& settings, const std::string& backend) {
  const auto& wanted = settings.backends;
  if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), backend) == wanted.end())
    return "not among NIBBLE_BACKEND's";
  for (const std::string& pattern : settings.disable) {
    if (disables_backend(pattern, backend)) return "disabled by " + quote(pattern);
  }
  return {};
}

}  // namespace

bool disables_backend(std::string_view pattern, std::string_view backend) {
  if (pattern.ends_with(".*")) pattern.remove_suffix(2);
  return fnmatch(std::string(pattern).c_str(), std::string(backend).c_str(), 0) == 0;
}

Result<std::vector<LoadedPlugin>> load_plugins(const Settings& settings) {
  std::vector<LoadedPlugin> all = find_all(settings);
  for (const std::string& name : settings.backends) {
    const bool known = std::any_of(all.begin(), all.end(), [&](const auto& p) { return p.record.backend == name; });
    if (!known) return unknown_backend(name, all);
  }
  for (LoadedPlugin& p : all) {
    if (!p.record.reason.empty()) continue;
    std::string fault = excluded(settings, p.record.backend);
    if (fault.empty()) fault = p.record.path.empty() ? adopt(p, &reference_plugin()) : load(p);
    if (!fault.empty()) p.record.reason = fault;
  }
  return all;
}

}  // namespace nibble
