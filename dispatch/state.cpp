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
/// What version 1.0 had. The last field is named so that one appended later changes nothing here.
constexpr std::size_t kRequestBytes = offsetof(nibble_request, reserved) + sizeof(nibble_request::reserved);

/// What a plugin says of itself is read as text: its end must be there, and nothing that would end a line.
template <std::size_t kBytes>
void as_one_line(char (&text)[kBytes]) {
  text[kBytes - 1] = '\0';
  for (char& c : text) {
    if (c != '\0' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)) c = '?';
  }
}

}  // namespace

const Backend& Registry::State::probe(Backend& b) {
  std::call_once(b.probed, [&] {
    const nibble_plugin& plugin = *b.loaded.plugin;
    b.devices.clear();  // of a first time that an exception ended
    TextBuffer text;
    std::int32_t count = 0;
    const nibble_status status = guarded(text, [&] { return plugin.device_count(&count, text.get()); });
    if (status != NIBBLE_OK || count <= 0) {
      b.no_devices = text.line(status == NIBBLE_OK ? "it reports no devices" : "device_count failed without a reason");
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
      if (s != NIBBLE_OK) d.fault = why.line("device_caps failed without a reason");
      as_one_line(d.caps.arch);
      as_one_line(d.caps.name);
      d.caps.struct_size = sizeof d.caps;
      d.caps.device_type = plugin.device_type;
      d.caps.device_index = i;
      b.devices.push_back(std::move(d));
    }
  });
  return b;
}

namespace {

/// Why a back end cannot use a device that it was asked for; empty where it can.
std::string_view device_fault(const Backend& backend, const ProbedDevice* device, bool has_memory) {
  if (device == nullptr)
    return backend.devices.empty() ? std::string_view(backend.no_devices) : "there is no device of that number";
  if (!device->fault.empty()) return device->fault;
  return has_memory ? "" : "no loaded back end brings memory functions for this device";
}

}  // namespace

std::vector<Row> Registry::State::rows_for(nibble_op op, Device device, const nibble_caps* invented) const {
  std::vector<Row> rows;
  rows.reserve(kernels.size());
  if (invented != nullptr) device.type = invented->device_type;
  static constexpr nibble_caps kUnknown{};
  const bool on_cpu = device.type == NIBBLE_DEVICE_CPU;
  const nibble_memory* shared = invented != nullptr || on_cpu ? nullptr : find_memory(device);
  for (const auto& b : backends) {
    if (b->loaded.plugin->device_type != device.type) continue;
    const nibble_memory* own = b->loaded.plugin->memory;
    const nibble_memory* memory = own != nullptr ? own : shared;
    const nibble_caps* caps = invented;
    std::string_view unavailable;
    if (invented == nullptr) {
      const ProbedDevice* found = probe(*b).find(device.index);
      caps = found != nullptr ? &found->caps : &kUnknown;
      unavailable = device_fault(*b, found, on_cpu || memory != nullptr);
    }
    for (const nibble_kernel* k : b->loaded.kernels) {
      if (k->op != op) continue;
      const auto record =
          std::find_if(kernels.begin(), kernels.end(), [&](const KernelRecord& r) { return r.kernel == k; });
      rows.push_back({k, b->loaded.record.backend, b->order, caps, unavailable, record->disabled, memory});
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

const nibble_memory* Registry::State::find_memory(Device device) const {
  for (const auto& b : backends) {
    const nibble_plugin& plugin = *b->loaded.plugin;
    if (plugin.device_type != device.type || plugin.memory == nullptr) continue;
    if (probe(*b).find(device.index) != nullptr) return plugin.memory;
  }
  return nullptr;
}

Result<const nibble_memory*> Registry::State::memory(Device device) const {
  if (device.type == NIBBLE_DEVICE_CPU) {
    if (device.index == 0) return static_cast<const nibble_memory*>(nullptr);
    return Status{NIBBLE_UNSUPPORTED, fmt::format("cpu device {}: expected 0", device.index)};
  }
  if (const nibble_memory* found = find_memory(device)) return found;
  std::string why;
  for (const auto& b : backends) {
    if (b->loaded.plugin->device_type != device.type) continue;
    const bool there = probe(*b).find(device.index) != nullptr;
    why += fmt::format("{} {} {}", why.empty() ? ":" : ";", b->loaded.record.backend,
                       there ? "has it without memory functions"
                             : fmt::format("has {} devices{}", b->devices.size(),
                                           b->no_devices.empty() ? "" : " (" + b->no_devices + ")"));
  }
  return Status{NIBBLE_UNSUPPORTED, fmt::format("no loaded back end has memory of {}{}", device_name(device),
                                                why.empty() ? absent_backends(device.type) : why)};
}

Status check_size(const nibble_request& request) {
  if (request.struct_size >= kRequestBytes) return {};
  return {NIBBLE_INVALID_ARGUMENT, fmt::format("request has struct_size {}: expected at least {}, its size in ABI 1.0",
                                               request.struct_size, kRequestBytes)};
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
    text += fmt::format("; not loaded: {} ({})", printable(p.backend.empty() ? p.path : p.backend), p.reason);
  }
  if (absent > kMostNamed) text += fmt::format("; and {} more", absent - kMostNamed);
  return text + (type == NIBBLE_DEVICE_CPU ? "" : "; dispatch never falls back to another device");
}

}  // namespace nibble
