// Registries: made from settings, asked for devices, explanations and plans.
// Apart from running because all of this happens once, and a call's path should be readable alone.
#include "core/ops/ops.h"
#include "core/ops/validate.h"
#include "core/text.h"
#include "dispatch/overrides.h"
#include "dispatch/plugin_call.h"
#include "dispatch/rules.h"
#include "dispatch/state.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace nibble {
namespace {

/// Back ends in the settings' order, or as they were found with the reference last.
std::vector<std::unique_ptr<Backend>> in_order(std::vector<LoadedPlugin> plugins, const Settings& settings) {
  std::vector<std::unique_ptr<Backend>> backends;
  for (LoadedPlugin& p : plugins) {
    if (!p.record.loaded) continue;
    auto b = std::make_unique<Backend>();
    const auto place = std::find(settings.backends.begin(), settings.backends.end(), p.record.backend);
    b->order = static_cast<std::uint32_t>(settings.backends.empty() ? backends.size()
                                                                    : std::size_t(place - settings.backends.begin()));
    b->loaded = std::move(p);
    backends.push_back(std::move(b));
  }
  std::sort(backends.begin(), backends.end(), [](const auto& a, const auto& b) { return a->order < b->order; });
  return backends;
}

bool disables_kernel(const std::string& pattern, const nibble_kernel& k, std::string_view backend) {
  return disables_backend(pattern, backend) || fnmatch(pattern.c_str(), k.name, 0) == 0;
}

std::string kernel_names(std::span<const KernelRecord> kernels, nibble_op op) {
  std::vector<std::string_view> names;
  for (const KernelRecord& k : kernels) {
    if (op == 0 || k.kernel->op == op) names.emplace_back(k.kernel->name);
  }
  return listed(names);
}

/// A kernel of that name for the operation, disabled or not; nullptr: none.
const KernelRecord* find_kernel(std::span<const KernelRecord> kernels, nibble_op op, std::string_view name) {
  const auto found = std::find_if(kernels.begin(), kernels.end(),
                                  [&](const KernelRecord& k) { return k.kernel->op == op && k.kernel->name == name; });
  return found == kernels.end() ? nullptr : &*found;
}

std::string unknown_kernel(std::span<const KernelRecord> kernels, nibble_op op, std::string_view name,
                           std::string_view who) {
  return fmt::format("{} names kernel {} for {}: expected one of {}", who, quote(name), op_name(op),
                     kernel_names(kernels, op));
}

Status check_disable(const Registry::State& s) {
  for (const std::string& pattern : s.settings.disable) {
    const bool some_kernel = std::any_of(s.kernels.begin(), s.kernels.end(), [&](const KernelRecord& k) {
      return disables_kernel(pattern, *k.kernel, k.backend);
    });
    const bool some_backend = std::any_of(s.records.begin(), s.records.end(), [&](const PluginRecord& p) {
      return !p.backend.empty() && disables_backend(pattern, p.backend);
    });
    if (!some_kernel && !some_backend) {
      return {NIBBLE_BAD_SETTING,
              fmt::format("NIBBLE_DISABLE names {}, which matches nothing: expected a back end or one of {}",
                          quote(pattern), kernel_names(s.kernels, 0))};
    }
  }
  return {};
}

Status check_force(const Registry::State& s) {
  for (const auto& [op, kernel] : s.settings.force) {
    const nibble_op id = find_op_id(op);
    if (id == 0) {
      return {NIBBLE_BAD_SETTING,
              fmt::format("NIBBLE_FORCE names operation {}: expected one of {}", quote(op), listed(op_names()))};
    }
    const KernelRecord* found = find_kernel(s.kernels, id, kernel);
    if (found == nullptr) return {NIBBLE_BAD_SETTING, unknown_kernel(s.kernels, id, kernel, "NIBBLE_FORCE")};
    if (found->disabled) {
      return {NIBBLE_BAD_SETTING,
              fmt::format("kernel {} is both forced and disabled: expected one of the two", quote(kernel))};
    }
  }
  return {};
}

/// Shapes, types and one device: everything of a request but its pointers.
Status check_request(const nibble_request& r) {
  const OpInfo* op = find_op(r.op);
  if (op == nullptr) {
    return {NIBBLE_INVALID_ARGUMENT, fmt::format("request has op {}: expected one of {}", r.op, listed(op_names()))};
  }
  if (r.math > NIBBLE_MATH_BF16)
    return {NIBBLE_INVALID_ARGUMENT, fmt::format("request has precision class {}: expected 0 to 3", r.math)};
  if (Status s = op->validate(r); !s) return s;
  return check_one_device({{"weight", &r.weight.packed},
                           {"code", &r.weight.code},
                           {"absmax", &r.weight.absmax},
                           {"nested_absmax", &r.weight.nested_absmax},
                           {"nested_code", &r.weight.nested_code},
                           {"src1", &r.src1},
                           {"bias", &r.bias},
                           {"dst", &r.dst}});
}

/// "cuda:0 (10.3)"; without what is in brackets where no back end has that device.
std::string device_text(Device device, const nibble_caps& caps) {
  return device_name(device) + (caps.arch[0] == '\0' ? "" : fmt::format(" ({})", caps.arch));
}

std::string invented_text(const nibble_caps& caps) {
  const std::string device = device_name({caps.device_type, 0});
  return fmt::format("{} ({}, invented)", device.substr(0, device.rfind(':')), printable(caps.arch));
}

/// A caller's invented capabilities, whatever version of the struct they came in: what they lack is 0, and their texts
/// are ended.
Result<nibble_caps> complete_caps(const nibble_caps& from) {
  constexpr std::size_t kBytes = offsetof(nibble_caps, name) + sizeof(nibble_caps::name);  // of version 1.0
  if (from.struct_size < kBytes) {
    return Status{NIBBLE_INVALID_ARGUMENT, fmt::format("caps have struct_size {}: expected at least {}, their size in "
                                                       "ABI 1.0",
                                                       from.struct_size, kBytes)};
  }
  nibble_caps caps{};
  std::memcpy(&caps, &from, std::min<std::size_t>(from.struct_size, sizeof caps));
  caps.struct_size = sizeof caps;
  caps.arch[sizeof caps.arch - 1] = caps.name[sizeof caps.name - 1] = '\0';
  return caps;
}

}  // namespace

Registry::Registry(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<Registry> Registry::create() {
  auto settings = Settings::from_environment();
  return settings ? create(*settings) : Result<Registry>(settings.status());
}

Result<Registry> Registry::create(const Settings& settings) {
  if (Status s = check_settings(settings); !s) return s;
  auto plugins = load_plugins(settings);
  if (!plugins) return plugins.status();
  auto state = std::make_shared<State>();
  state->settings = settings;
  for (const LoadedPlugin& p : *plugins) state->records.push_back(p.record);
  state->backends = in_order(std::move(*plugins), settings);
  for (const auto& b : state->backends) {
    for (const nibble_kernel* k : b->loaded.kernels) {
      const bool disabled = std::any_of(
          settings.disable.begin(), settings.disable.end(),
          [&](const std::string& pattern) { return disables_kernel(pattern, *k, b->loaded.record.backend); });
      state->kernels.push_back({k, b->loaded.record.backend, disabled});
    }
  }
  if (Status s = check_disable(*state); !s) return s;
  if (Status s = check_force(*state); !s) return s;
  return Registry(std::move(state));
}

const Result<Registry>& Registry::default_registry() {
  // Never destroyed: what else is static may still dispatch while the process ends.
  static const auto* registry = new const Result<Registry>(create());
  return *registry;
}

std::span<const PluginRecord> Registry::plugins() const { return state_->records; }
std::span<const KernelRecord> Registry::kernels() const { return state_->kernels; }
const Settings& Registry::settings() const { return state_->settings; }
Result<const nibble_memory*> Registry::memory(Device device) const { return state_->memory(device); }

std::vector<DeviceRecord> Registry::devices() const {
  std::vector<DeviceRecord> all;
  for (const auto& b : state_->backends) {
    const Backend& probed = State::probe(*b);
    const PluginRecord& record = b->loaded.record;
    if (probed.devices.empty()) all.push_back({record.backend, {record.device_type, -1}, {}, probed.no_devices});
    for (std::size_t i = 0; i < probed.devices.size(); ++i) {
      all.push_back({record.backend,
                     {record.device_type, static_cast<std::int32_t>(i)},
                     probed.devices[i].caps,
                     probed.devices[i].fault});
    }
  }
  return all;
}

Result<Decision> Registry::explain(const nibble_request& request, const nibble_caps* caps) const {
  if (Status s = check_size(request); !s) return s;
  const nibble_request r = state_->complete(request, {});
  if (Status s = check_request(r); !s) return s;
  Result<nibble_caps> invented = nibble_caps{};
  if (caps != nullptr) invented = complete_caps(*caps);
  if (!invented) return invented.status();
  const Device device = device_of(r.weight.packed);
  const std::vector<Row> rows = state_->rows_for(r.op, device, caps != nullptr ? &*invented : nullptr);
  Decision d;
  const Selection chosen = select(rows, rules(), r, state_->forced(r.op), &d.candidates);
  d.reason = chosen.reason;
  if (chosen.row != nullptr) d.kernel = chosen.row->kernel->name;
  if (rows.empty()) d.reason += state_->absent_backends(caps != nullptr ? invented->device_type : device.type);
  const Row* described = chosen.row != nullptr ? chosen.row : rows.empty() ? nullptr : &rows.front();
  d.device = caps != nullptr        ? invented_text(*invented)
             : described == nullptr ? device_name(device)
                                    : device_text(device, *described->caps);
  return d;
}

namespace {

/// Makes what a kernel asked for fit to be allocated: no less than its own minimum, no more than the limit where the
/// minimum allows. An alignment that memory cannot have is the kernel's fault.
Status settled_need(const char* kernel, std::uint64_t limit, nibble_workspace_need& need) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 56, kMostAlignment = std::uint64_t{1} << 20;
  need.alignment = std::max<std::uint64_t>(need.alignment, 1);
  if (!std::has_single_bit(need.alignment) || need.alignment > kMostAlignment) {
    return {NIBBLE_INTERNAL, fmt::format("{} asks for a workspace aligned to {}: expected a power of two up to {}",
                                         kernel, need.alignment, kMostAlignment)};
  }
  if (need.minimum_bytes > kMostBytes) {
    return {NIBBLE_INTERNAL, fmt::format("{} asks for {} bytes of workspace at least: expected {} at most", kernel,
                                         need.minimum_bytes, kMostBytes)};
  }
  need.bytes = std::max(std::min(need.bytes, limit), need.minimum_bytes);
  return {};
}

}  // namespace

Result<Plan::Choice> Registry::State::decide(const nibble_request& r, std::string_view kernel) const {
  if (Status s = check_request(r); !s) return s;
  const Device device = device_of(r.weight.packed);
  if (!kernel.empty() && find_kernel(kernels, r.op, kernel) == nullptr)
    return Status{NIBBLE_NOT_FOUND, unknown_kernel(kernels, r.op, kernel, "plan")};
  const std::vector<Row> rows = rows_for(r.op, device, nullptr);
  const std::string_view wanted = kernel.empty() ? forced(r.op) : kernel;
  std::vector<Candidate> trace;
  const Selection chosen = select(rows, nibble::rules(), r, wanted, settings.explain ? &trace : nullptr);
  if (settings.explain) {
    const bool found = chosen.row != nullptr;
    const std::string on = found ? device_text(device, *chosen.row->caps) : device_name(device);
    std::fputs(to_text({found ? chosen.row->kernel->name : "", chosen.reason, on, trace}).c_str(), stderr);
  }
  if (chosen.row == nullptr) {
    return Status{NIBBLE_UNSUPPORTED, chosen.reason + (rows.empty() ? absent_backends(device.type) : std::string{})};
  }
  Plan::Choice c;
  c.key = r;
  c.hash = request_hash(r);
  c.operands = Operands(r);
  c.kernel = chosen.row->kernel;
  c.caps = chosen.row->caps;
  c.need = {.struct_size = sizeof c.need, .reserved = 0, .bytes = 0, .minimum_bytes = 0, .alignment = 1};
  c.memory = chosen.row->memory;
  // Without a result there is no work, and no kernel is asked about shapes whose dimensions may be 0.
  if (c.kernel->query == nullptr || element_count(r.dst) == 0) return c;
  TextBuffer text;
  const nibble_status status =
      guarded(text, [&] { return c.kernel->query(c.kernel, c.caps, &r, &c.need, text.get()); });
  if (status != NIBBLE_OK)
    return Status{status, fmt::format("{}: {}", c.kernel->name, text.line("query failed without a reason"))};
  if (Status bad = settled_need(c.kernel->name, r.workspace_limit_bytes, c.need); !bad) return bad;
  return c;
}

Result<Plan> Registry::plan(const nibble_request& request, std::string_view kernel) const {
  struct Kept {
    std::shared_ptr<State> state;
    Plan::Choice choice;
  };
  if (Status s = check_size(request); !s) return s;
  auto choice = state_->decide(state_->complete(request, {}), kernel);
  if (!choice) return choice.status();
  const auto kept = std::make_shared<const Kept>(Kept{state_, *choice});
  return Plan(std::shared_ptr<const Plan::Choice>(kept, &kept->choice));
}

}  // namespace nibble
