// nibble's public C++ interface: registries, plans, and the operations.
// Apart from abi.h, which plugins see, and from io.hpp, which reads files.
//
//   auto file = nibble::WeightFile::open("model.gguf");
//   if (!file) return fail(file.status().message());                // a value may be taken only where there is one
//   auto weight = file->find("output.weight");
//   if (!weight) return fail(weight.status().message());
//   auto values = nibble::dequantize((*weight)->weight, NIBBLE_F32);   // allocates
//   auto status = nibble::out_prod((*weight)->weight, grad, dst);      // into dst
//
// Every function here may be called from any thread. Nothing throws across this interface but std::bad_alloc on the
// host; nothing aborts, exits or prints (NIBBLE_EXPLAIN=1 asks for printing).
#ifndef NIBBLE_NIBBLE_HPP
#define NIBBLE_NIBBLE_HPP

#include <nibble/abi.h>
#include <nibble/status.hpp>
#include <nibble/tensor.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nibble {

/// "0.1.0"
NIBBLE_EXPORT std::string_view version();

/// What the environment variables say, as data. A default-constructed one is an empty environment.
struct Settings {
  std::vector<std::string> backends;                       ///< NIBBLE_BACKEND: only these, in this order; empty: all
  std::vector<std::pair<std::string, std::string>> force;  ///< NIBBLE_FORCE: op, kernel
  std::vector<std::string> disable;                        ///< NIBBLE_DISABLE: globs of kernels or back ends
  std::vector<std::string> plugin_path;  ///< NIBBLE_PLUGIN_PATH: folders looked at before the install's own
  std::uint64_t workspace_mib = 256;     ///< NIBBLE_WORKSPACE_MIB
  nibble_math math = NIBBLE_MATH_TF32;   ///< NIBBLE_MATH: for requests that name none
  std::uint32_t threads = 0;             ///< NIBBLE_THREADS: most CPU threads a call; 0: all the process may use
  bool explain = false;                  ///< NIBBLE_EXPLAIN: the trace of each new decision to stderr

  /// Reads the variables now. NIBBLE_BAD_SETTING names the variable, its value and the valid ones.
  NIBBLE_EXPORT static Result<Settings> from_environment();
  /// Variables that begin with NIBBLE_ and that nothing reads: most often a slip in a name.
  NIBBLE_EXPORT static std::vector<std::string> unknown_variables();
  /// Their names, in the order of the fields.
  NIBBLE_EXPORT static std::span<const std::string_view> variables();

  friend bool operator==(const Settings&, const Settings&) = default;
};

/// A plugin that was found: what it is, or why it is not in use.
struct PluginRecord {
  std::string backend;  ///< "cpu"; from the file's name
  std::string path;     ///< empty for what is linked in
  bool loaded = false;
  std::string reason;  ///< why it is not loaded, or remarks about rows that were left out
  std::string version;
  std::uint32_t abi_major = 0, abi_minor = 0;
  nibble_device_type device_type = 0;
};

/// A kernel's row and where it comes from.
struct KernelRecord {
  const nibble_kernel* kernel = nullptr;
  std::string_view backend;
  bool disabled = false;
};

/// A device as one back end sees it.
struct DeviceRecord {
  std::string_view backend;
  Device device;
  nibble_caps caps{};
  std::string reason;  ///< set where the back end has no devices or cannot use this one
};

/// One row's fate in a decision.
struct Candidate {
  std::string kernel;
  bool accepted = false;
  std::string reason;
};

/// What was chosen and why, with every row that was considered.
struct Decision {
  std::string kernel;  ///< empty: none
  std::string reason;
  std::string device;
  std::vector<Candidate> candidates;
};

/// Memory for a call's intermediate results, on the request's device, aligned as the plan asks.
struct Workspace {
  void* data = nullptr;
  std::uint64_t bytes = 0;
};

class Plan;

/// The kernels of all plugins, with the settings it was made with. Immutable, so calls take no lock. A copy shares
/// the original's state, which lives as long as any copy or Plan, and a move is a copy: no registry is ever empty.
/// Environment and plugin folders are read when one is made, and not again.
class Registry {
 public:
  Registry(const Registry&) = default;
  Registry& operator=(const Registry&) = default;

  /// From the environment's settings.
  NIBBLE_EXPORT static Result<Registry> create();
  NIBBLE_EXPORT static Result<Registry> create(const Settings& settings);
  /// Made from the environment at first use. A bad setting stays its status for the process's life.
  NIBBLE_EXPORT static const Result<Registry>& default_registry();

  [[nodiscard]] NIBBLE_EXPORT std::span<const PluginRecord> plugins() const;
  [[nodiscard]] NIBBLE_EXPORT std::span<const KernelRecord> kernels() const;
  [[nodiscard]] NIBBLE_EXPORT const Settings& settings() const;
  /// Asks each back end for its devices (may contact a driver). One record a device, or one with a reason.
  [[nodiscard]] NIBBLE_EXPORT std::vector<DeviceRecord> devices() const;
  /// Memory functions for a device, of the first back end that has it and brings some; a status where none does. The
  /// pointer is nullptr for the CPU, where the host's own memory serves.
  [[nodiscard]] NIBBLE_EXPORT Result<const nibble_memory*> memory(Device device) const;

  /// Which kernel serves `request` and why. No data is touched; pointers may be null. With `caps`, on that invented
  /// device instead of the request's own. A malformed request is a status; "no kernel" is a Decision without kernel.
  [[nodiscard]] NIBBLE_EXPORT Result<Decision> explain(const nibble_request& request,
                                                       const nibble_caps* caps = nullptr) const;

  /// The choice for requests of this shape, kept for reuse. With `kernel`, that one by name, as NIBBLE_FORCE would:
  /// its needs still hold, and a disabled one is refused.
  [[nodiscard]] NIBBLE_EXPORT Result<Plan> plan(const nibble_request& request, std::string_view kernel = {}) const;

  /// Chooses (a repeated shape is remembered) and runs. Without a workspace one is allocated for the call: on a GPU in
  /// stream order. The work is done when this returns on a CPU, enqueued on `stream` on a GPU.
  NIBBLE_EXPORT Status run(const nibble_request& request, Workspace workspace = {}, void* stream = nullptr) const;

  struct State;

 private:
  explicit Registry(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

/// A kept choice. Holds the registry's state; may be copied and used from any thread. One that was moved from is empty:
/// its kernel has the name "", its request and workspace are zeros, and `run` is NIBBLE_INVALID_ARGUMENT.
class Plan {
 public:
  [[nodiscard]] NIBBLE_EXPORT const nibble_kernel& kernel() const;
  /// The planned request with what the settings filled in. A copy of it, with this call's data, is what `run` takes
  /// fastest: any other is completed first, which costs a copy.
  [[nodiscard]] NIBBLE_EXPORT const nibble_request& request() const;
  /// Workspace that `run` wants; with less than minimum_bytes it fails.
  [[nodiscard]] NIBBLE_EXPORT const nibble_workspace_need& workspace() const;
  /// As Registry::run. `request` must be the planned one but for data pointers and byte offsets.
  NIBBLE_EXPORT Status run(const nibble_request& request, Workspace workspace = {}, void* stream = nullptr) const;

  struct Choice;

 private:
  friend class Registry;
  explicit Plan(std::shared_ptr<const Choice> choice);
  std::shared_ptr<const Choice> choice_;  ///< keeps the registry's state too
};

/// Memory that a convenience form allocated, on the weight's device. Move-only.
class OwnedTensor {
 public:
  NIBBLE_EXPORT OwnedTensor(OwnedTensor&&) noexcept;
  NIBBLE_EXPORT OwnedTensor& operator=(OwnedTensor&&) noexcept;
  NIBBLE_EXPORT ~OwnedTensor();
  /// A view that borrows from this object.
  [[nodiscard]] const Tensor& view() const { return view_; }

  /// Uninitialized, contiguous, 64-byte aligned; `shape` innermost first.
  NIBBLE_EXPORT static Result<OwnedTensor> allocate(const Registry& registry, Format type,
                                                    std::span<const std::int64_t> shape, Device device,
                                                    void* stream = nullptr);

 private:
  friend Result<OwnedTensor> dequantize(const Weight&, Format, const struct Options&);
  OwnedTensor() = default;
  Tensor view_{};
  const nibble_memory* memory_ = nullptr;
  void* data_ = nullptr;
  void* stream_ = nullptr;
  std::shared_ptr<const void> owner_;
};

/// What an operation may be told. The defaults serve.
struct Options {
  const Registry* registry = nullptr;  ///< nullptr: the default one
  Workspace workspace{};               ///< empty: allocated for the call
  void* stream = nullptr;              ///< a CUDA or HIP stream; nullptr: the device's default stream
  nibble_math math = NIBBLE_MATH_DEFAULT;
  std::uint32_t threads = 0;
  bool accumulate = false;  ///< out_prod: add to dst
  bool packed_transposed =
      false;  ///< dequantize, allocating: give the transposed view, as bitsandbytes does for [1, n]
};

// The operations. dst shares no memory with an input, which is not checked, and is written whole or, after a failure,
// in part.

/// dst = the weight's values, rounded once to dst's type (f32, f16, bf16). Same shape, any row strides.
NIBBLE_EXPORT Status dequantize(const Weight& weight, const Tensor& dst, const Options& options = {});
/// The same into new memory of type `to`.
NIBBLE_EXPORT Result<OwnedTensor> dequantize(const Weight& weight, Format to, const Options& options = {});

/// dst[i0, i1, i2, i3] = sum over k of weight[i0, k, i2/r2, i3/r3] * src1[i1, k, i2, i3]: the gradient with respect to
/// a frozen layer's input, with weight [in, out] and src1 [tokens, out] (innermost first) the output's gradient.
NIBBLE_EXPORT Status out_prod(const Weight& weight, const Tensor& src1, const Tensor& dst, const Options& options = {});
NIBBLE_EXPORT Result<OwnedTensor> out_prod(const Weight& weight, const Tensor& src1, Format to,
                                           const Options& options = {});

/// dst[o, t] = sum over i of weight[i, o] * src1[i, t], + bias[o] where bias is present.
NIBBLE_EXPORT Status linear(const Weight& weight, const Tensor& src1, const Tensor& bias, const Tensor& dst,
                            const Options& options = {});
NIBBLE_EXPORT Result<OwnedTensor> linear(const Weight& weight, const Tensor& src1, const Tensor& bias, Format to,
                                         const Options& options = {});

/// A request of the current ABI with nothing set but its size and op.
inline nibble_request make_request(nibble_op op) {
  nibble_request r{};
  r.struct_size = sizeof r;
  r.op = op;
  return r;
}

/// "cuda:10.3", "cuda:9.0", "hip:gfx90a", "cpu:avx2": a device to ask `explain` about. NIBBLE_INVALID_ARGUMENT
/// lists what is understood.
NIBBLE_EXPORT Result<nibble_caps> invent_caps(std::string_view spec);
/// Such devices, one for each that some kernel treats apart: what no kernel serves on any of these, none serves.
NIBBLE_EXPORT std::span<const std::string_view> known_devices();

/// "dequantize", "out_prod", "linear"; nullopt-like 0 for an unknown name, "op 9" for an unknown number.
NIBBLE_EXPORT nibble_op find_op_id(std::string_view name);
NIBBLE_EXPORT std::string op_name(nibble_op op);
/// All operations' names, in their order.
NIBBLE_EXPORT std::span<const std::string_view> op_names();
/// "f32", "tf32", "bf16" and back; NIBBLE_MATH_DEFAULT for an unknown name.
NIBBLE_EXPORT nibble_math find_math(std::string_view name);
NIBBLE_EXPORT std::string math_name(nibble_math math);

/// The screenful that `nibble explain` and NIBBLE_EXPLAIN print.
NIBBLE_EXPORT std::string to_text(const Decision& decision);

}  // namespace nibble

#endif
