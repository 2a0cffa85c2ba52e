// nibble info: version, plugins, devices and kernels.
// Apart from the other subcommands: one file each.
#include "tools/commands.h"
#include "tools/common.h"
#include "tools/table.h"

#include <memory>

namespace nibble::cli {
namespace {

struct Flags {
  bool json = false;
  bool no_probe = false;
};

constexpr struct {
  std::uint64_t bit;
  const char* name;
} kIsas[] = {{NIBBLE_ISA_PORTABLE, "portable"},
             {NIBBLE_ISA_SSE4, "sse4"},
             {NIBBLE_ISA_AVX2, "avx2"},
             {NIBBLE_ISA_AVX512, "avx512"},
             {NIBBLE_ISA_NEON, "neon"}};

constexpr const char* kTiers[] = {"?", "reference", "generic", "tuned", "by_rule"};

std::vector<std::string> isa_names(std::uint64_t isa) {
  std::vector<std::string> names;
  for (const auto& i : kIsas) {
    if ((isa & i.bit) != 0) names.emplace_back(i.name);
  }
  return names;
}

const char* tier_name(nibble_tier tier) { return kTiers[tier < std::size(kTiers) ? tier : 0]; }

std::vector<std::string> format_names(const nibble_format* formats, std::uint64_t count) {
  std::vector<std::string> names;
  for (const nibble_format f : std::span(formats, count)) names.push_back(format_name(f));
  return names;
}

std::string device_label(const DeviceRecord& d) {
  const std::string name = device_name(d.device);
  return d.device.index >= 0 ? name : name.substr(0, name.find(':'));
}

Json plugin_json(const PluginRecord& p) {
  return {{"backend", p.backend}, {"path", p.path},       {"loaded", p.loaded},
          {"reason", p.reason},   {"version", p.version}, {"abi", fmt::format("{}.{}", p.abi_major, p.abi_minor)}};
}

Json device_json(const DeviceRecord& d) {
  return {{"backend", std::string(d.backend)},
          {"device", device_label(d)},
          {"usable", d.reason.empty()},
          {"reason", d.reason},
          {"name", d.caps.name},
          {"arch", d.caps.arch},
          {"processors", d.caps.processors},
          {"isa", isa_names(d.caps.isa)},
          {"memory_bytes", d.caps.memory_bytes},
          {"cache_bytes", d.caps.cache_bytes}};
}

Json kernel_json(const KernelRecord& record) {
  const nibble_kernel& k = *record.kernel;
  return {{"name", k.name},
          {"op", op_name(k.op)},
          {"backend", std::string(record.backend)},
          {"tier", tier_name(k.tier)},
          {"rank", k.rank},
          {"math", math_name(k.math)},
          {"isa", isa_names(k.isa)},
          {"formats", format_names(k.formats, k.format_count)},
          {"types", format_names(k.types, k.type_count)},
          {"disabled", record.disabled}};
}

Json info_json(const Registry& registry, bool probe) {
  Json plugins = Json::array(), kernels = Json::array(), devices = Json::array();
  for (const PluginRecord& p : registry.plugins()) plugins.push_back(plugin_json(p));
  for (const KernelRecord& k : registry.kernels()) kernels.push_back(kernel_json(k));
  if (probe) {
    for (const DeviceRecord& d : registry.devices()) devices.push_back(device_json(d));
  }
  return {{"version", std::string(version())},
          {"abi", fmt::format("{}.{}", NIBBLE_ABI_MAJOR, NIBBLE_ABI_MINOR)},
          {"unknown_variables", Settings::unknown_variables()},
          {"plugins", plugins},
          {"devices", probe ? devices : Json(nullptr)},
          {"kernels", kernels}};
}

void print_plugins(const Registry& registry) {
  Table table({"plugin", "state", "version", "ABI", "file"});
  std::string remarks;
  for (const PluginRecord& p : registry.plugins()) {
    const std::string abi = p.abi_major == 0 ? "" : fmt::format("{}.{}", p.abi_major, p.abi_minor);
    table.add({p.backend, p.loaded ? "loaded" : "not loaded", p.version, abi, p.path.empty() ? "(built in)" : p.path});
    if (!p.reason.empty())
      remarks += fmt::format("  {}: {}\n", printable(p.backend.empty() ? p.path : p.backend), printable(p.reason));
  }
  fmt::print("{}{}", table.text(), remarks);
}

/// A slip in a variable's name changes nothing, so it must be seen somewhere.
void print_unknown_variables() {
  const std::vector<std::string> names(Settings::variables().begin(), Settings::variables().end());
  for (const std::string& v : Settings::unknown_variables()) {
    fmt::print("\n{} is set, but nothing reads it: expected one of {}{}\n", printable(v), fmt::join(names, ", "),
               did_you_mean(v, names));
  }
}

void print_devices(const Registry& registry) {
  Table table({"device", "back end", "arch", ">processors", ">memory", "name"});
  for (const DeviceRecord& d : registry.devices()) {
    if (!d.reason.empty()) {
      table.add({device_label(d), std::string(d.backend), d.caps.arch, "", "", "not usable: " + d.reason});
      continue;
    }
    table.add({device_label(d), std::string(d.backend), d.caps.arch, fmt::format("{}", d.caps.processors),
               d.caps.memory_bytes == 0 ? "" : size_text(d.caps.memory_bytes), d.caps.name});
  }
  fmt::print("\n{}", table.text());
}

void print_kernels(const Registry& registry) {
  Table table({"kernel", "tier", ">rank", "math", ">formats", "types"});
  for (const KernelRecord& record : registry.kernels()) {
    const nibble_kernel& k = *record.kernel;
    table.add({k.name, record.disabled ? "disabled" : tier_name(k.tier), fmt::format("{}", k.rank),
               k.math == NIBBLE_MATH_DEFAULT ? "exact" : math_name(k.math), fmt::format("{}", k.format_count),
               fmt::format("{}", fmt::join(format_names(k.types, k.type_count), " "))});
  }
  fmt::print("\n{}", table.text());
}

int run(const Flags& flags) {
  const Registry registry = require(Registry::create());
  if (flags.json) {
    print_json(info_json(registry, !flags.no_probe));
    return kDone;
  }
  fmt::print("nibble {}, plugin ABI {}.{}\n\n", version(), NIBBLE_ABI_MAJOR, NIBBLE_ABI_MINOR);
  print_plugins(registry);
  print_unknown_variables();
  if (!flags.no_probe) print_devices(registry);
  print_kernels(registry);
  return kDone;
}

}  // namespace

Action add_info(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand("info", "Version, plugins, devices and kernels of this machine");
  sub->add_flag("--json", flags->json, "Print JSON alone");
  sub->add_flag("--no-probe", flags->no_probe, "Ask no device: no driver is contacted");
  sub->footer("Examples:\n  nibble info\n  nibble info --no-probe --json");
  return [flags] { return run(*flags); };
}

}  // namespace nibble::cli
