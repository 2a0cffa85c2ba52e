// The path of a call: remembered choice, data checks, workspace, kernel.
// Apart from the registry because this part is timed in nanoseconds and must not allocate for a repeated call.
#include "core/ops/validate.h"
#include "dispatch/allocation.h"
#include "dispatch/state.h"

#include <fmt/format.h>

#include <algorithm>

namespace nibble {
namespace {

/// Memory for one call, on the device, freed when it goes: on a GPU in stream order, so the work may still be running.
class CallWorkspace {
 public:
  CallWorkspace(const nibble_memory* memory, std::int32_t device, void* stream)
      : memory_(memory), device_(device), stream_(stream) {}
  CallWorkspace(const CallWorkspace&) = delete;
  CallWorkspace& operator=(const CallWorkspace&) = delete;
  ~CallWorkspace() { release(memory_, device_, allocation_.base, stream_); }

  /// What serves best, or less where memory is short, never below the minimum.
  Status allocate(const nibble_workspace_need& need, const char* kernel) {
    const std::uint64_t least = std::max<std::uint64_t>(need.minimum_bytes, 1);
    for (bytes_ = std::max(need.bytes, least);; bytes_ = std::max(bytes_ / 2, least)) {
      TextBuffer text;
      const nibble_status status =
          nibble::allocate(memory_, device_, bytes_, need.alignment, stream_, allocation_, text);
      if (status == NIBBLE_OK) return {};
      if (status != NIBBLE_OUT_OF_MEMORY) {
        return {status, fmt::format("{} needs {} bytes of workspace: {}", kernel, bytes_,
                                    text.line("allocate failed without a reason"))};
      }
      if (bytes_ == least) {
        return {status,
                fmt::format("{} needs {} bytes of workspace at least: {}", kernel, least, text.line("out of memory"))};
      }
    }
  }
  [[nodiscard]] Workspace get() const { return {allocation_.data, bytes_}; }

 private:
  const nibble_memory* memory_;
  std::int32_t device_;
  void* stream_;
  Allocation allocation_;
  std::uint64_t bytes_ = 0;
};

Status check_request_data(const nibble_request& r) {
  return check_data({{"weight", &r.weight.packed},
                     {"code", &r.weight.code},
                     {"absmax", &r.weight.absmax},
                     {"nested_absmax", &r.weight.nested_absmax},
                     {"nested_code", &r.weight.nested_code},
                     {"src1", &r.src1},
                     {"bias", &r.bias},
                     {"dst", &r.dst}});
}

Status check_workspace(const Plan::Choice& c, Workspace w) {
  const std::uint64_t alignment = std::max<std::uint64_t>(c.need.alignment, 1);
  if (w.bytes >= c.need.minimum_bytes && reinterpret_cast<std::uintptr_t>(w.data) % alignment == 0) return {};
  return {NIBBLE_INVALID_ARGUMENT, fmt::format("workspace of {} bytes for {}: expected at least {}, aligned to {}",
                                               w.bytes, c.kernel->name, c.need.minimum_bytes, alignment)};
}

Status execute(const Plan::Choice& c, const nibble_request& r, Workspace w, void* stream) {
  TextBuffer text;
  const nibble_status status =
      guarded(text, [&] { return c.kernel->execute(c.kernel, c.caps, &r, w.data, w.bytes, stream, text.get()); });
  if (status == NIBBLE_OK) return {};
  return {status, fmt::format("{}: {}", c.kernel->name, text.line("failed without a reason"))};
}

Status execute_with_own_workspace(const Plan::Choice& c, const nibble_request& r, void* stream) {
  if (c.need.minimum_bytes > r.workspace_limit_bytes) {
    return {NIBBLE_OUT_OF_MEMORY,
            fmt::format("{} needs {} bytes of workspace at least: expected no more than the limit of {}",
                        c.kernel->name, c.need.minimum_bytes, r.workspace_limit_bytes)};
  }
  CallWorkspace own(c.memory, r.weight.packed.device_index, stream);
  if (Status s = own.allocate(c.need, c.kernel->name); !s) return s;
  return execute(c, r, own.get(), stream);
}

}  // namespace

Status run_choice(const Plan::Choice& c, const nibble_request& r, Workspace workspace, void* stream) {
  if (!c.operands.any_result()) return {};
  if (!c.operands.ready(r)) {
    if (Status s = check_request_data(r); !s) return s;
  }
  if (c.need.bytes == 0) return execute(c, r, {}, stream);
  if (workspace.data != nullptr) {
    if (Status s = check_workspace(c, workspace); !s) return s;
    return execute(c, r, workspace, stream);
  }
  return execute_with_own_workspace(c, r, stream);
}

Status Registry::run(const nibble_request& request, Workspace workspace, void* stream) const {
  if (Status s = check_size(request); !s) return s;
  const nibble_request r = state_->complete(request, workspace);
  const std::uint64_t hash = request_hash(r);
  if (const Plan::Choice* known = state_->cache.find(r, hash)) return run_choice(*known, r, workspace, stream);
  auto choice = state_->decide(r, {});
  if (!choice) return choice.status();
  const Plan::Choice* kept = state_->cache.add(*choice);
  return run_choice(kept != nullptr ? *kept : *choice, r, workspace, stream);
}

Plan::Plan(std::shared_ptr<const Choice> choice) : choice_(std::move(choice)) {}

namespace {

// What a plan that was moved from answers with.
constexpr nibble_kernel kNoKernel = [] {
  nibble_kernel k{};
  k.name = "";
  return k;
}();
constexpr Plan::Choice kNoChoice = [] {
  Plan::Choice c;
  c.kernel = &kNoKernel;
  return c;
}();

}  // namespace

const nibble_kernel& Plan::kernel() const { return *(choice_ ? *choice_ : kNoChoice).kernel; }
const nibble_request& Plan::request() const { return (choice_ ? *choice_ : kNoChoice).key; }
const nibble_workspace_need& Plan::workspace() const { return (choice_ ? *choice_ : kNoChoice).need; }

Status Plan::run(const nibble_request& request, Workspace workspace, void* stream) const {
  if (choice_ == nullptr) return {NIBBLE_INVALID_ARGUMENT, "the plan is empty: expected one that was not moved from"};
  if (Status s = check_size(request); !s) return s;
  const nibble_request& key = choice_->key;
  if (!same_tensors(request, key)) {
    return {NIBBLE_INVALID_ARGUMENT,
            fmt::format("request differs from the one that {} was planned for: expected other data pointers alone",
                        kernel().name)};
  }
  const auto differs = [](auto asked, auto planned) { return asked != 0 && asked != planned; };
  if (differs(request.math, key.math) || differs(request.threads, key.threads) ||
      differs(request.workspace_limit_bytes, key.workspace_limit_bytes)) {
    return {NIBBLE_INVALID_ARGUMENT,
            fmt::format("request asks for class {}, {} threads and a limit of {} bytes: expected those that {} was "
                        "planned for, {}, {} and {}, or 0",
                        math_name(request.math), request.threads, request.workspace_limit_bytes, kernel().name,
                        math_name(key.math), key.threads, key.workspace_limit_bytes)};
  }
  // What the settings filled in is taken from the plan.
  const bool complete = request.math == key.math && request.threads == key.threads &&
                        request.workspace_limit_bytes == key.workspace_limit_bytes;
  if (complete) return run_choice(*choice_, request, workspace, stream);
  nibble_request r;
  copy_request(request, r);
  r.math = key.math;
  r.threads = key.threads;
  r.workspace_limit_bytes = key.workspace_limit_bytes;
  return run_choice(*choice_, r, workspace, stream);
}

}  // namespace nibble
