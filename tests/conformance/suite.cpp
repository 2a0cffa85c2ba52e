// Registration, verdicts, counts.
// Apart from the header so that cases see the interface alone.
#include "tests/conformance/suite.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>

namespace nibble::conformance {
namespace {

class ConformanceTest : public testing::Test {
 public:
  explicit ConformanceTest(std::function<void()> body) : body_(std::move(body)) {}
  void TestBody() override { body_(); }

 private:
  std::function<void()> body_;
};

void register_test(const std::string& suite, const std::string& name, std::function<void()> body) {
  testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                        [body = std::move(body)]() -> testing::Test* { return new ConformanceTest(body); });
}

std::string row_label(const nibble_kernel& kernel, std::int32_t device) {
  return device == 0 ? std::string(kernel.name) : fmt::format("{}@{}", kernel.name, device);
}

/// A case that cannot be built fails as one that gives wrong values does.
Verdict guarded(const Body& body, const RowOnDevice& row) {
  try {
    return body(row);
  } catch (const std::exception& e) {
    return {Verdict::Kind::failed, e.what()};
  }
}

/// Why a row does not serve a request, on its own device or an invented one; empty: it does.
std::string refusal(const RowOnDevice& row, const nibble_request& request, const nibble_caps* caps = nullptr) {
  const auto decision = row.registry->explain(request, caps);
  if (!decision) return decision.status().message();
  for (const Candidate& c : decision->candidates) {
    if (c.kernel == row.kernel->name) return c.accepted ? "" : c.reason;
  }
  return "no candidate";
}

bool serves_elsewhere(const RowOnDevice& row, const nibble_request& request) {
  const auto specs = known_devices();
  return std::any_of(specs.begin(), specs.end(), [&](std::string_view spec) {
    const nibble_caps caps = invent_caps(spec).value();
    return caps.device_type == row.device.type && refusal(row, request, &caps).empty();
  });
}

void print_reasons(std::string_view what, const std::map<std::string, std::size_t>& reasons) {
  for (const auto& [reason, count] : reasons) fmt::print("  {:>7} {}: {}\n", count, what, reason);
}

std::size_t total(const std::map<std::string, std::size_t>& reasons) {
  std::size_t sum = 0;
  for (const auto& [reason, count] : reasons) sum += count;
  return sum;
}

}  // namespace

Suite::Suite(const Registry& registry, ExpectedFailures expected, bool reduced, Shard shard, std::string program)
    : expected_(std::move(expected)), reduced_(reduced), shard_(shard), program_(std::move(program)) {
  for (const PluginRecord& p : registry.plugins()) {
    if (!p.loaded) ++counts_[p.backend].skipped["not loaded: " + p.reason];
  }
  for (const DeviceRecord& d : registry.devices()) {
    const std::string backend(d.backend);
    Counts& counts = counts_[backend];
    if (!d.reason.empty()) {
      ++counts.skipped[fmt::format("{}: {}", d.device.index < 0 ? "no device" : device_name(d.device), d.reason)];
      continue;
    }
    const auto functions = registry.memory(d.device);
    if (!functions) {
      ++counts.skipped[functions.status().message()];
      continue;
    }
    memories_.push_back(std::make_unique<test::DeviceMemory>(*functions, d.device.index));
    for (const KernelRecord& k : registry.kernels()) {
      if (k.backend != d.backend) continue;
      rows_.push_back(
          {&registry, k.kernel, backend, d.device, memories_.back().get(), row_label(*k.kernel, d.device.index)});
    }
  }
}

void Suite::add(nibble_op op, const CaseName& name, Build build, const RunOptions& options) {
  const auto shared = std::make_shared<const Build>(std::move(build));
  add_body(op, name, [this, shared, options](const RowOnDevice& row) {
    return run_problem(row, problem(shared.get(), *shared), options);
  });
}

void Suite::add_body(nibble_op op, const CaseName& name, Body body) {
  if (!takes_next_case()) return;
  const auto shared = std::make_shared<const std::pair<CaseName, Body>>(name, std::move(body));
  for (const RowOnDevice& row : rows_) {
    if (row.kernel->op != op) continue;
    const std::string test = fmt::format("{}/{}/{}", row.label, name.format, name.name);
    register_test(name.suite, test, [this, &row, shared, full = name.suite + '.' + test] {
      run_test(full, row, shared->first, shared->second);
    });
  }
}

void Suite::add_check(const std::string& suite, const std::string& name, std::function<std::string()> check) {
  if (!takes_next_case()) return;
  register_test(suite, name, [this, check = std::move(check), full = suite + '.' + name] {
    if (const std::string fault = check(); !fault.empty()) ADD_FAILURE() << fault << "\n" << rerun(full);
  });
}

void Suite::leave_out(const std::string& reason, std::size_t cases) {
  for (auto& [backend, counts] : counts_) counts.skipped[reason] += cases;
}

const Problem& Suite::problem(const void* key, const Build& build) {
  if (kept_key_ != key) {
    kept_key_ = nullptr;
    kept_ = {};  // before the next is built: the large ones do not fit twice everywhere
    kept_ = build();
    kept_key_ = key;
  }
  return kept_;
}

std::string Suite::rerun(const std::string& full_name) const {
  return fmt::format("rerun: {}{} --gtest_filter='{}'", reduced_ ? "NIBBLE_CONFORMANCE=reduced " : "", program_,
                     full_name);
}

void Suite::run_test(const std::string& full_name, const RowOnDevice& row, const CaseName& name, const Body& body) {
  Counts& counts = counts_[row.backend];
  RowCounts& of_row = row_counts_[row.label];
  const std::string format = name.format.substr(0, name.format.find('.'));
  const Verdict verdict = guarded(body, row);
  if (verdict.kind == Verdict::Kind::unsupported) {
    const std::string why = refusal(row, verdict.refused);
    const std::string& reason = why.empty() ? verdict.text : why;  // no candidate's: the workspace's, for one
    ++counts.unsupported[fmt::format("{}: {}", row.label, reason)];
    if (of_row.executed.count(format) == 0 && of_row.elsewhere.count(format) == 0 &&
        serves_elsewhere(row, verdict.refused))
      of_row.elsewhere.emplace(format, reason);
    return;
  }
  ++counts.executed;
  ++of_row.executed[format];
  const std::string* known = expected_.reason(full_name);
  const bool failed = verdict.kind == Verdict::Kind::failed;
  if (known != nullptr && failed) {
    ++counts.failed_as_expected;
  } else if (known != nullptr) {
    ++counts.failed;
    ADD_FAILURE() << full_name << " passed: expected to fail as listed (" << *known << "); take it off the list\n"
                  << rerun(full_name);
  } else if (failed) {
    ++counts.failed;
    ADD_FAILURE() << full_name << ": " << verdict.text << "\n" << rerun(full_name);
  }
}

std::string Suite::print_row(const RowOnDevice& row) const {
  static const RowCounts kNone;
  const auto found = row_counts_.find(row.label);
  const RowCounts& counts = found != row_counts_.end() ? found->second : kNone;
  std::vector<std::string> never;
  std::map<std::string, std::size_t> elsewhere;
  for (std::uint64_t i = 0; i < row.kernel->format_count; ++i) {
    const std::string format = format_name(row.kernel->formats[i]);
    if (counts.executed.count(format) != 0) continue;
    if (const auto reason = counts.elsewhere.find(format); reason != counts.elsewhere.end()) {
      ++elsewhere[reason->second];
    } else {
      never.push_back(format);
    }
  }
  fmt::print("{}: {} executed, {} of {} formats", row.label, total(counts.executed), counts.executed.size(),
             row.kernel->format_count);
  for (const auto& [reason, formats] : elsewhere) fmt::print("; {} for other devices: {}", formats, reason);
  std::string text = fmt::format("{}", fmt::join(never, " "));
  fmt::print("{}{}\n", text.empty() ? "" : "; never with ", text);
  return text;
}

bool Suite::summarize(const std::vector<std::string>& required, Part part) const {
  bool good = true;
  const auto fault = [&](const std::string& text) {
    fmt::print("FAILED: {}\n", text);
    good = false;
  };
  std::size_t executed = 0;
  fmt::print("\nconformance{}\n", reduced_ ? ", reduced" : "");
  for (const auto& [backend, c] : counts_) {
    fmt::print("{}: {} executed, {} failed, {} failed as expected, {} unsupported, {} skipped\n", backend, c.executed,
               c.failed, c.failed_as_expected, total(c.unsupported), total(c.skipped));
    print_reasons("unsupported", c.unsupported);
    print_reasons("skipped", c.skipped);
    executed += c.executed;
  }
  if (executed == 0) fault("nothing was executed");
  for (const std::string& backend : required) {
    const auto found = counts_.find(backend);
    if (found == counts_.end() || found->second.executed == 0)
      fault(fmt::format("NIBBLE_TEST_REQUIRE names '{}', which executed nothing", backend));
  }
  if (part == Part::chosen) return good;
  for (const RowOnDevice& row : rows_) {
    const std::string never = print_row(row);
    const bool must = std::find(required.begin(), required.end(), row.backend) != required.end();
    if (part == Part::all && must && !never.empty())
      fault(fmt::format("{} never ran with what it claims to serve: {}", row.label, never));
  }
  return good;
}

}  // namespace nibble::conformance
