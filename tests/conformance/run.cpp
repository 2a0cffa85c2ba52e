// The steps of a run.
// Apart from the header so that it stays an interface.
#include "tests/conformance/run.h"

#include "tests/conformance/error_bound.h"
#include "tests/support/bits.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>

namespace nibble::conformance {
namespace {

using Kind = Verdict::Kind;
using Behind = test::GuardedBuffer::Behind;

Verdict failed(std::string text) { return {Kind::failed, std::move(text)}; }

void set_device(Tensor& t, const Device& device) {
  t.device_type = device.type;
  t.device_index = device.index;
}

/// The request's inputs on a device.
class PlacedInputs {
 public:
  PlacedInputs(const RowOnDevice& row, const Problem& problem, nibble_request& request) : problem_(problem) {
    for (std::size_t i = 0; i < kInputCount; ++i) {
      Tensor& t = kInputs[i].of(request);
      if (!present(t)) continue;
      const std::size_t skew = i == kWeight ? problem.weight_skew : 0;
      buffers_[i] = std::make_unique<test::GuardedBuffer>(*row.memory, problem.bytes[i], skew, Behind::nothing);
      // The pointer leads to the allocation's start: a kernel that forgets byte_offset reads canaries.
      t.data = buffers_[i]->base();
      t.byte_offset = buffers_[i]->offset();
    }
  }

  /// Empty, or which input was written.
  [[nodiscard]] std::string check() const {
    for (std::size_t i = 0; i < kInputCount; ++i) {
      if (buffers_[i] && !buffers_[i]->holds(problem_.bytes[i]))
        return fmt::format("{} was written: expected inputs left alone", kInputs[i].name);
    }
    return {};
  }

 private:
  const Problem& problem_;
  std::array<std::unique_ptr<test::GuardedBuffer>, kInputCount> buffers_;
};

/// The caller's workspace: NaN, so that a kernel that counts on zeros shows, with a canary behind.
std::unique_ptr<test::GuardedBuffer> make_workspace(const RowOnDevice& row, std::uint64_t bytes) {
  std::vector<std::uint8_t> content(bytes);
  test::poison(content);
  return std::make_unique<test::GuardedBuffer>(*row.memory, content, 0, Behind::canary);
}

std::string check_exact(const Tensor& dst, const std::uint8_t* image, const ExactValues& expected) {
  std::string first;
  std::size_t wrong = 0;
  test::for_each_element(dst, [&](std::size_t index, std::int64_t at) {
    const std::uint32_t got = test::element_bits(dst.format, image + at), want = expected.bits[index];
    if (test::same_bits(dst.format, got, want) || wrong++ != 0) return;
    first = fmt::format("dst{} is {}: expected {}", test::place_text(dst, index), test::show(dst.format, got),
                        test::show(dst.format, want));
  });
  return wrong == 0 ? "" : fmt::format("{}; {} of {} elements differ", first, wrong, expected.bits.size());
}

/// Puts the elements as they were back into a copy of the image: what then differs is padding.
std::string check_padding(const Tensor& dst, std::vector<std::uint8_t> image, const std::vector<std::uint8_t>& before) {
  test::for_each_element(dst, [&](std::size_t, std::int64_t at) {
    std::copy_n(before.begin() + at, test::element_bytes(dst.format), image.begin() + at);
  });
  const auto [was, is] = std::mismatch(before.begin(), before.end(), image.begin());
  if (was == before.end()) return {};
  return fmt::format("byte {} of dst, between its rows, was written: expected padding left alone",
                     was - before.begin());
}

std::string check_values(const Problem& problem, const std::vector<std::uint8_t>& image, nibble_math math) {
  const Tensor& dst = problem.request.dst;
  if (const auto* exact = std::get_if<ExactValues>(&problem.expected)) return check_exact(dst, image.data(), *exact);
  return check_bounded(dst, image.data(), std::get<BoundedValues>(problem.expected), math);
}

/// One run with everything placed.
class Runner {
 public:
  Runner(const RowOnDevice& row, const Problem& problem, const RunOptions& options)
      : row_(row), problem_(problem), options_(options), request_(problem.request) {
    request_.math = row.kernel->math;
    request_.workspace_limit_bytes = options.limit_bytes;
    request_.threads = options.threads;
    for (const InputSlot& slot : kInputs) {
      if (present(slot.of(request_))) set_device(slot.of(request_), row.device);
    }
    set_device(request_.dst, row.device);
  }

  Verdict run() {
    if (auto refused = plan()) return *refused;
    // Only now: most rows refuse most cases, and memory of a GPU is slow to get.
    const PlacedInputs inputs(row_, problem_, request_);
    Verdict verdict = run_once();
    for (int i = 1; i < options_.runs && verdict.kind == Kind::executed; ++i) {
      Verdict again = run_once();
      if (again.kind != Kind::executed) return again;
      if (again.dst != verdict.dst)
        return failed(fmt::format("run {} gave other bits than the first: expected the same from run to run", i + 1));
    }
    if (const std::string fault = inputs.check(); !fault.empty()) return failed(fault);
    return verdict;
  }

 private:
  /// Empty where the row serves the request.
  std::optional<Verdict> plan() {
    if (auto refused = plan_once()) return refused;
    const nibble_workspace_need need = plan_->workspace();
    if (need.bytes < need.minimum_bytes) {
      return failed(fmt::format("workspace of {} bytes serves best, {} at least: expected at least the minimum",
                                need.bytes, need.minimum_bytes));
    }
    if (options_.workspace != RunOptions::Workspace::limited || need.minimum_bytes == 0) return {};
    request_.workspace_limit_bytes = need.minimum_bytes;
    if (auto refused = plan_once()) return refused;
    if (plan_->workspace().bytes <= need.minimum_bytes) return {};
    return failed(fmt::format("asks for {} bytes of workspace: expected at most the limit of {}",
                              plan_->workspace().bytes, need.minimum_bytes));
  }

  std::optional<Verdict> plan_once() {
    auto plan = row_.registry->plan(request_, row_.kernel->name);
    if (plan) {
      plan_ = *plan;
      return {};
    }
    const Status s = plan.status();
    if (s.code() != NIBBLE_UNSUPPORTED)
      return failed(fmt::format("plan failed, {}: {}", status_name(s.code()), s.message()));
    if (s.message().empty() || s.message().find('\n') != std::string::npos) {
      return failed(fmt::format("refused with '{}': expected one line with a reason", s.message()));
    }
    return Verdict{.kind = Kind::unsupported, .text = s.message(), .refused = request_};
  }

  Verdict run_once() {
    const test::GuardedBuffer dst(*row_.memory, problem_.dst, problem_.dst_skew, Behind::canary);
    request_.dst.data = dst.base();
    request_.dst.byte_offset = dst.offset();
    std::unique_ptr<test::GuardedBuffer> workspace;
    if (const std::uint64_t bytes = own_workspace_bytes(); bytes != 0) workspace = make_workspace(row_, bytes);
    const Workspace given = workspace ? Workspace{workspace->content(), own_workspace_bytes()} : Workspace{};
    if (const Status s = plan_->run(request_, given, row_.memory->stream()); !s) {
      return failed(fmt::format("run failed, {}: {}", status_name(s.code()), s.message()));
    }
    row_.memory->synchronize();
    Verdict verdict;
    if (const std::string fault = dst.fetch(verdict.dst); !fault.empty()) return failed("dst " + fault);
    std::vector<std::uint8_t> rest;
    const std::string broken = workspace ? workspace->fetch(rest) : "";
    if (!broken.empty()) return failed("the workspace " + broken);
    for (const std::string& fault : {check_values(problem_, verdict.dst, row_.kernel->math),
                                     check_padding(request_.dst, verdict.dst, problem_.dst)}) {
      if (!fault.empty()) return failed(fault);
    }
    return verdict;
  }

  [[nodiscard]] std::uint64_t own_workspace_bytes() const {
    const nibble_workspace_need& need = plan_->workspace();
    if (options_.workspace == RunOptions::Workspace::best) return need.bytes;
    return options_.workspace == RunOptions::Workspace::minimum ? need.minimum_bytes : 0;
  }

  const RowOnDevice& row_;
  const Problem& problem_;
  const RunOptions& options_;
  nibble_request request_;
  std::optional<Plan> plan_;
};

}  // namespace

Verdict run_problem(const RowOnDevice& row, const Problem& problem, const RunOptions& options) {
  try {
    return Runner(row, problem, options).run();
  } catch (const std::exception& e) {
    return failed(e.what());
  }
}

}  // namespace nibble::conformance
