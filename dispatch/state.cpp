// A registry's devices, candidate rows and defaults.
// Apart from registry.cpp, which is the public face; this is what it stands on.
#include "dispatch/state.h"

#include "dispatch/plugin_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace nibble {
namespace {

constexpr std::int32_t kMostDevices = 1024;

}  // namespace

const Backend& Registry::State::probe(Backend& b) {
  std::call_once(b.probed, [&] {
    const nibble_plugin& plugin = *b.loaded.plugin;
    TextBuffer text;
    std::int32_t count = 0;
    const nibble_status status = guarded(text, [&] { return plugin.device_count(&count, text.get()); });
    if (status != NIBBLE_OK || count <= 0) {
      b.no_devices = text.view(status == NIBBLE_OK ? "it reports no devices" : "device_count failed without a reason");
      return;
    }
    if (count > kMostDevices) {
      b.no_devices = fmt::format("it reports {} devices: expected at most {}", count, kMostDevices);
      return;
    }
    for (std::int32_t i = 0; i < count; ++i) {
      ProbedDevice d;
      d.caps.struct_size = sizeof d.caps;
      TextBuffer why;
      const nibble_status s = guarded(why, [&] { return plugin.device_caps(i, &d.caps, why.get()); });
      if (s != NIBBLE_OK) d.fault = why.view("device_caps failed without a reason");
      // What a plugin says of itself is read as text: its end must be there.
      d.caps.arch[sizeof d.caps.arch - 1] = d.caps.name[sizeof d.caps.name - 1] = '\0';
      d.caps.device_type = plugin.device_type;
      d.caps.device_index = i;
      b.devices.push_back(std::move(d));
    }
  });
  return b;
}

std::vector<Row> Registry::State::rows_for(nibble_op op, Device device, const nibble_caps* invented) const {
  std::vector<Row> rows;
  rows.reserve(kernels.size());
  const nibble_device_type type = invented != nullptr ? invented->device_type : device.type;
  static constexpr nibble_caps kUnknown{};
  for (const auto& b : backends) {
    if (b->loaded.plugin->device_type != type) continue;
    const nibble_caps* caps = invented;
    std::string_view unavailable;
    if (invented == nullptr) {
      const Backend& probed = probe(*b);
      const auto index = static_cast<std::size_t>(device.index);
      const bool there = device.index >= 0 && index < probed.devices.size();
      caps = there ? &probed.devices[index].caps : &kUnknown;
      unavailable =
          there ? std::string_view(probed.devices[index].fault)
                : (probed.devices.empty() ? std::string_view(probed.no_devices) : "there is no device of that number");
    }
    for (const nibble_kernel* k : b->loaded.kernels) {
      if (k->op != op) continue;
      const auto record =
          std::find_if(kernels.begin(), kernels.end(), [&](const KernelRecord& r) { return r.kernel == k; });
      rows.push_back({k, b->loaded.record.backend, b->order, caps, unavailable, record->disabled});
    }
  }
  return rows;
}

std::string_view Registry::State::forced(nibble_op op) const {
  for (const auto& [name, kernel] : settings.force) {
    if (find_op_id(name) == op) return kernel;
  }
  return {};
}

Result<const nibble_memory*> Registry::State::memory(Device device) const {
  if (device.type == NIBBLE_DEVICE_CPU) {
    if (device.index == 0) return static_cast<const nibble_memory*>(nullptr);
    return Status{NIBBLE_UNSUPPORTED, fmt::format("cpu device {}: expected 0", device.index)};
  }
  std::string why;
  for (const auto& b : backends) {
    if (b->loaded.plugin->device_type != device.type) continue;
    const Backend& probed = probe(*b);
    if (device.index >= 0 && static_cast<std::size_t>(device.index) < probed.devices.size() &&
        b->loaded.plugin->memory != nullptr) {
      return b->loaded.plugin->memory;
    }
    why = fmt::format(": {} has {} devices {}", b->loaded.record.backend, probed.devices.size(), probed.no_devices);
  }
  return Status{NIBBLE_UNSUPPORTED, fmt::format("no loaded back end has {}{}", device_name(device),
                                                why.empty() ? absent_backends(device.type) : why)};
}

void copy_request(const nibble_request& from, nibble_request& to) {
  const std::size_t given = std::min<std::size_t>(from.struct_size, sizeof to);
  std::memcpy(&to, &from, given);
  if (given < sizeof to) std::memset(reinterpret_cast<char*>(&to) + given, 0, sizeof to - given);
  to.struct_size = sizeof to;
}

nibble_request Registry::State::complete(const nibble_request& request, Workspace workspace) const {
  nibble_request r;
  copy_request(request, r);
  if (r.math == NIBBLE_MATH_DEFAULT) r.math = settings.math;
  if (r.threads == 0) r.threads = settings.threads;
  if (workspace.data != nullptr) {
    r.workspace_limit_bytes = workspace.bytes;
  } else if (r.workspace_limit_bytes == 0) {
    r.workspace_limit_bytes = settings.workspace_mib << 20;
  }
  return r;
}

std::string Registry::State::absent_backends(nibble_device_type type) const {
  constexpr std::size_t kMostNamed = 8;  // of folders full of files that are no plugins, not all fit a line
  std::string text = "; loaded:";
  for (const auto& b : backends) text += " " + b->loaded.record.backend;
  std::size_t absent = 0;
  for (const PluginRecord& p : records) {
    if (p.loaded || ++absent > kMostNamed) continue;
    text += fmt::format("; not loaded: {} ({})", p.backend.empty() ? p.path : p.backend, p.reason);
  }
  if (absent > kMostNamed) text += fmt::format("; and {} more", absent - kMostNamed);
  return text + (type == NIBBLE_DEVICE_CPU ? "" : "; dispatch never falls back to another device");
}

}  // namespace nibble
