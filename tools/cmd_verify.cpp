// nibble verify: every kernel that supports a tensor, against the reference, by bits.
// Apart from the other subcommands: one file each.
#include "tools/commands.h"
#include "tools/common.h"
#include "tools/compare.h"
#include "tools/pieces.h"
#include "tools/table.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

namespace nibble::cli {
namespace {

constexpr std::string_view kReference = "reference.dequantize.scalar";
/// NaN in every type, so that a value that was not written shows; where a NaN is right, the other one is tried as well.
constexpr std::uint8_t kNanPoison = 0xff, kFinitePoison = 0x11;
/// Before and after the output.
constexpr std::uint8_t kCanary = 0xc3;
constexpr std::uint64_t kCanaryBytes = 256;

struct Flags {
  std::string file;
  std::vector<std::string> names, devices;
  bool json = false, quiet = false;
};

/// One kernel on one tensor to one type, over all of the tensor's pieces.
struct Check {
  std::string kernel, device;
  Format type = NIBBLE_F32;
  std::uint64_t values = 0, different = 0;
  std::string fault;  ///< the first thing that is wrong; empty: all equal
};

struct TensorReport {
  const FileTensor* tensor = nullptr;
  std::vector<Check> checks;
};

/// What all checks of a run share.
struct Context {
  const Registry& registry;
  std::vector<Device> devices;
};

/// The devices asked for, or all that this machine has.
std::vector<Device> devices_of(const Registry& registry, std::span<const std::string> names) {
  std::vector<Device> devices;
  for (const std::string& name : names) {
    devices.push_back(parse_device(name));
    require(registry.memory(devices.back()).status(), kUnserved);
  }
  if (!names.empty()) return devices;
  devices.push_back({});
  for (const DeviceRecord& d : registry.devices()) {
    const bool known = std::find(devices.begin(), devices.end(), d.device) != devices.end();
    if (d.reason.empty() && !known) devices.push_back(d.device);
  }
  return devices;
}

nibble_request request_for(const Weight& weight, Format type, void* out) {
  nibble_request r = make_request(NIBBLE_OP_DEQUANTIZE);
  const Tensor& packed = weight.packed;
  r.weight = weight;
  r.dst = make_tensor(out, type, std::span(packed.shape, packed.rank), device_of(packed));
  return r;
}

/// "[3, 17]", outermost first, from a place in stored order.
std::string place_text(const FileTensor& tensor, std::uint64_t place) {
  std::vector<std::int64_t> index(tensor.shape.size());
  for (std::size_t d = index.size(); d-- > 0;) {
    const auto size = static_cast<std::uint64_t>(tensor.shape[d]);
    index[d] = static_cast<std::int64_t>(place % size);
    place /= size;
  }
  return shape_text(index);
}

/// Runs a plan into poisoned memory between canaries. `out` gets the values; the answer is a fault or nothing.
std::string run_between_canaries(const Registry& registry, const Plan& plan, nibble_request& request,
                                 std::uint64_t bytes, std::uint8_t poison, std::vector<std::uint8_t>& out) {
  std::vector<std::uint8_t> image(bytes + 2 * kCanaryBytes, kCanary);
  std::fill_n(image.begin() + kCanaryBytes, bytes, poison);
  Buffer buffer(registry, device_of(request.dst), image.size());
  buffer.upload(image);
  request.dst.data = buffer.data();
  request.dst.byte_offset = kCanaryBytes;
  if (Status s = plan.run(request); !s) return s.message();
  const auto result = buffer.read(image.size(), image);
  const auto intact = [](std::span<const std::uint8_t> s) {
    return std::all_of(s.begin(), s.end(), [](auto b) { return b == kCanary; });
  };
  if (!intact(result.first(kCanaryBytes)) || !intact(result.last(kCanaryBytes))) return "wrote outside of its output";
  out.assign(result.begin() + kCanaryBytes, result.end() - kCanaryBytes);
  return {};
}

std::string difference_text(const FileTensor& tensor, Piece piece, Format type, const Comparison& c) {
  return fmt::format("value {} is {}: expected {}",
                     place_text(tensor, static_cast<std::uint64_t>(piece.first) + c.first),
                     value_text(type, c.got_bits), value_text(type, c.expected_bits));
}

/// One piece through one kernel, added to `check`.
void check_piece(const Registry& registry, const Plan& plan, nibble_request request, const FileTensor& tensor,
                 Piece piece, std::span<const std::uint8_t> expected, Check& check) {
  std::vector<std::uint8_t> got;
  bool expects_nan = false;
  for (const std::uint8_t poison : {kNanPoison, kFinitePoison}) {
    if (poison == kFinitePoison && !expects_nan) break;
    const std::string fault = run_between_canaries(registry, plan, request, expected.size(), poison, got);
    if (!fault.empty()) {
      if (check.fault.empty()) check.fault = fault;
      return;
    }
    const Comparison c = compare_values(check.type, expected, got);
    expects_nan = c.expects_nan;
    if (poison == kNanPoison) check.values += c.values;
    if (c.different == 0) continue;
    check.different += c.different;
    if (check.fault.empty()) check.fault = difference_text(tensor, piece, check.type, c);
    return;
  }
}

std::vector<std::uint8_t> reference_values(const Registry& registry, const Weight& weight, Format type) {
  std::vector<std::uint8_t> values(static_cast<std::uint64_t>(element_count(weight.packed)) *
                                   find_format(type)->block_bytes);
  const nibble_request request = request_for(weight, type, values.data());
  const Plan plan = require(registry.plan(request, kReference));
  require(plan.run(request));
  return values;
}

Check& check_for(std::vector<Check>& checks, const char* kernel, Device device, Format type) {
  const std::string name = device_name(device);
  for (Check& c : checks) {
    if (c.kernel == kernel && c.device == name && c.type == type) return c;
  }
  return checks.emplace_back(Check{kernel, name, type, 0, 0, {}});
}

/// Every kernel that takes this piece on this device.
void check_on_device(const Context& context, const PlacedWeight& placed, Piece piece, Format type,
                     std::span<const std::uint8_t> expected, TensorReport& report) {
  const Device device = device_of(placed.view().packed);
  for (const KernelRecord& record : context.registry.kernels()) {
    const nibble_kernel& k = *record.kernel;
    if (k.op != NIBBLE_OP_DEQUANTIZE || k.device_type != device.type || k.name == kReference) continue;
    const nibble_request request = request_for(placed.view(), type, nullptr);
    auto plan = context.registry.plan(request, k.name);
    if (!plan && plan.status().code() == NIBBLE_UNSUPPORTED) continue;
    Check& check = check_for(report.checks, k.name, device, type);
    if (!plan) {
      check.fault = plan.status().message();
      continue;
    }
    check_piece(context.registry, *plan, request, *report.tensor, piece, expected, check);
  }
}

TensorReport verify_tensor(const Context& context, const FileTensor& tensor, Progress& progress) {
  TensorReport report{&tensor, {}};
  for (const Piece piece : pieces_of(tensor.weight)) {
    const Weight weight = slice(tensor.weight, piece);
    std::vector<PlacedWeight> placed;
    for (const Device device : context.devices) placed.emplace_back(context.registry, weight, device);
    for (const Format type : kResultTypes) {
      if (interrupted()) fail(kCheckFailed, "verification is not finished: interrupted");
      const std::vector<std::uint8_t> expected = reference_values(context.registry, weight, type);
      for (const PlacedWeight& p : placed) check_on_device(context, p, piece, type, expected, report);
    }
    progress.advance(tensor.name, static_cast<std::uint64_t>(piece.count));
  }
  return report;
}

struct Summary {
  std::size_t tensors = 0, uncompared = 0, checks = 0, failed = 0;
  std::set<std::string> kernels;
  std::uint64_t values = 0, different = 0;
  std::string first_fault;
};

Summary summary_of(std::span<const TensorReport> reports) {
  Summary s;
  for (const TensorReport& r : reports) {
    const bool compared = std::any_of(r.checks.begin(), r.checks.end(), [](const Check& c) { return c.values > 0; });
    (compared || !r.checks.empty() ? s.tensors : s.uncompared) += 1;
    for (const Check& c : r.checks) {
      ++s.checks;
      s.kernels.insert(c.kernel);
      s.values += c.values;
      s.different += c.different;
      if (c.fault.empty()) continue;
      ++s.failed;
      if (!s.first_fault.empty()) continue;
      s.first_fault = fmt::format("tensor '{}', {} to {} on {}: {}", r.tensor->name, c.kernel, format_name(c.type),
                                  c.device, c.fault);
    }
  }
  return s;
}

Json report_json(const Summary& s, std::span<const TensorReport> reports) {
  Json tensors = Json::array();
  for (const TensorReport& r : reports) {
    Json checks = Json::array();
    for (const Check& c : r.checks) {
      checks.push_back({{"kernel", c.kernel},
                        {"device", c.device},
                        {"to", format_name(c.type)},
                        {"values", c.values},
                        {"different", c.different},
                        {"equal", c.fault.empty()},
                        {"fault", c.fault.empty() ? Json(nullptr) : Json(c.fault)}});
    }
    tensors.push_back(
        {{"name", r.tensor->name}, {"format", r.tensor->type}, {"shape", r.tensor->shape}, {"checks", checks}});
  }
  return {{"equal", s.failed == 0 && s.values > 0},
          {"tensors_compared", s.tensors},
          {"tensors_not_compared", s.uncompared},
          {"kernels", s.kernels},
          {"values_compared", s.values},
          {"values_different", s.different},
          {"tensors", tensors}};
}

void print_report(const Summary& s, std::span<const TensorReport> reports) {
  Table table({"tensor", "format", ">kernels equal", ">values compared", "first fault"});
  for (const TensorReport& r : reports) {
    std::set<std::string> served, faulty;
    std::uint64_t values = 0;
    std::string fault;
    for (const Check& c : r.checks) {
      served.insert(c.kernel);
      values += c.values;
      if (c.fault.empty()) continue;
      faulty.insert(c.kernel);
      if (fault.empty()) fault = fmt::format("{} to {}: {}", c.kernel, format_name(c.type), c.fault);
    }
    table.add({r.tensor->name, r.tensor->type, fmt::format("{}/{}", served.size() - faulty.size(), served.size()),
               fmt::format("{}", values), fault});
  }
  const std::string verdict = s.failed == 0 ? (s.values > 0 ? "all equal" : "nothing compared")
                                            : fmt::format("{} of {} checks failed", s.failed, s.checks);
  fmt::print("{}\n{} tensors, {} kernels, {} values compared, {}\n", table.text(), s.tensors, s.kernels.size(),
             s.values, verdict);
  if (s.uncompared > 0) fmt::print("{} tensors have no values, or no kernel but the reference\n", s.uncompared);
}

/// Here and not by the plan that fails: settings took it away, whatever the tensor.
void require_reference(const Registry& registry) {
  for (const KernelRecord& k : registry.kernels()) {
    if (k.kernel->name == kReference && !k.disabled) return;
  }
  fail(kUnserved, "nothing to compare with: NIBBLE_BACKEND or NIBBLE_DISABLE leaves out {}: expected it allowed",
       kReference);
}

int run(const Flags& flags) {
  for (const std::string& name : flags.devices) parse_device(name);
  const WeightFile file = open_file(flags.file);
  const Chosen chosen = choose_tensors(file, flags.file, flags.names);
  const std::vector<const FileTensor*>& tensors = chosen.tensors;
  const Registry registry = require(Registry::create());
  require_reference(registry);
  const Context context{registry, devices_of(registry, flags.devices)};
  std::uint64_t values = 0;
  for (const FileTensor* t : tensors) values += static_cast<std::uint64_t>(element_count(t->weight.packed));
  std::vector<TensorReport> reports;
  reports.reserve(tensors.size());
  Progress progress(flags.quiet, values);
  for (const FileTensor* t : tensors) reports.push_back(verify_tensor(context, *t, progress));
  progress.clear();
  const Summary summary = summary_of(reports);
  if (flags.json) {
    print_json(report_json(summary, reports));
  } else {
    print_report(summary, reports);
  }
  if (summary.failed > 0) fail(kCheckFailed, "{}", summary.first_fault);
  if (summary.values == 0) {
    fail(kCheckFailed, "{}: nothing compared: expected a kernel besides {} that serves some tensor's values",
         flags.file, kReference);
  }
  refuse_broken(chosen, flags.file);
  return kDone;
}

}  // namespace

Action add_verify(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand("verify", "Every kernel that supports a tensor against the reference, by bits");
  sub->add_option("FILE", flags->file, "A GGUF or safetensors file")->required();
  sub->add_option("-t,--tensor", flags->names, "A tensor by name, repeatable; without it all that can be decoded")
      ->allow_extra_args(false);
  sub->add_option("--device", flags->devices, "cpu, cuda[:N] or hip[:N], repeatable; without it all of this machine's")
      ->allow_extra_args(false);
  sub->add_flag("--json", flags->json, "Print JSON alone");
  sub->add_flag("-q,--quiet", flags->quiet, "No progress on the terminal");
  sub->footer(
      "Status 1 where a value differs by a bit (any NaN equals any NaN), where a kernel writes outside of its output,\n"
      "and where nothing was compared. Tensors of more than 16777216 values are compared piece by piece.\n\n"
      "Examples:\n  nibble verify model.gguf\n  nibble verify model.gguf -t output.weight --device cuda:0 --json");
  return [flags] { return run(*flags); };
}

}  // namespace nibble::cli
