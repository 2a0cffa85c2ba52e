// What a registry holds: plugins, rows, devices, and the memory of past decisions.
// Apart from nibble.hpp so that the public header shows the interface alone.
#ifndef NIBBLE_DISPATCH_STATE_H
#define NIBBLE_DISPATCH_STATE_H

#include <nibble/nibble.hpp>

#include "dispatch/decision_cache.h"
#include "dispatch/loader.h"
#include "dispatch/select.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace nibble {

/// A device as one back end describes it.
struct ProbedDevice {
  nibble_caps caps{};
  std::string fault;  ///< why the back end cannot use it
};

/// A back end with its devices, asked for once, at first need.
struct Backend {
  LoadedPlugin loaded;
  std::uint32_t order = 0;
  std::once_flag probed;
  std::vector<ProbedDevice> devices;
  std::string no_devices;  ///< why there are none

  /// Of one that was probed: the device, or nullptr.
  [[nodiscard]] const ProbedDevice* find(std::int32_t index) const {
    const bool there = index >= 0 && static_cast<std::size_t>(index) < devices.size();
    return there ? &devices[static_cast<std::size_t>(index)] : nullptr;
  }
};

struct Registry::State : std::enable_shared_from_this<Registry::State> {
  Settings settings;
  std::vector<PluginRecord> records;
  std::vector<std::unique_ptr<Backend>> backends;  ///< loaded ones, in order of preference
  std::vector<KernelRecord> kernels;
  mutable DecisionCache cache;

  /// The devices of a back end; the first call asks it.
  static const Backend& probe(Backend& backend);
  /// Rows of the request's op and of `device`'s type, as candidates there; with `invented`, on that device.
  [[nodiscard]] std::vector<Row> rows_for(nibble_op op, Device device, const nibble_caps* invented) const;
  [[nodiscard]] std::string_view forced(nibble_op op) const;
  [[nodiscard]] Result<const nibble_memory*> memory(Device device) const;
  /// Memory functions of the first back end that has the device and brings some; nullptr: none does.
  [[nodiscard]] const nibble_memory* find_memory(Device device) const;
  /// The request with the settings' defaults filled in, whatever version of the struct it came in.
  [[nodiscard]] nibble_request complete(const nibble_request& request, Workspace workspace) const;
  /// Chooses for a complete request and remembers nothing. `kernel` names one that must be taken; empty: none.
  [[nodiscard]] Result<Plan::Choice> decide(const nibble_request& request, std::string_view kernel) const;
  /// Why no kernel of that device type is there: appended to a refusal.
  [[nodiscard]] std::string absent_backends(nibble_device_type type) const;
};

/// A request's struct_size covers all that version 1.0 had.
Status check_size(const nibble_request& request);

/// Copies a request of any version of the struct; what it lacks is 0. Some 800 bytes: the compiler's own copy of a
/// known size takes three times as long as the library's.
void copy_request(const nibble_request& from, nibble_request& to);

/// Runs a choice: data checks, workspace, the kernel.
Status run_choice(const Plan::Choice& choice, const nibble_request& request, Workspace workspace, void* stream);

}  // namespace nibble

#endif
