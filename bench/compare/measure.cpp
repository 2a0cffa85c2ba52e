// Operands, graphs, events.
// Apart from the header so that nothing else sees the runtime.
#include "bench/compare/measure.h"

#include "tests/gpu/device_fixture.h"
#include "tests/support/bits.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>

namespace nibble::bench {
namespace {

using device_test::Buffer;
using device_test::must;
using device_test::on_device;
using device_test::PlacedWeight;

std::size_t bytes_of(Format type, std::int64_t count) {
  return static_cast<std::size_t>(count * test::element_bytes(type));
}

/// One call's operands.
struct Operands {
  explicit Operands(const Call& c)
      : weight({c.format, c.nested}, {.shape = {c.columns, c.rows, 1, 1}}, "compare"), request(make_request(c.op)) {
    request.weight = weight.weight;
    request.math = c.math;
    const bool forward = c.op == NIBBLE_OP_LINEAR;
    if (c.op == NIBBLE_OP_DEQUANTIZE) {
      place_dst(c.to, {c.columns, c.rows});
      return;
    }
    const std::int64_t in = forward ? c.columns : c.rows, out = forward ? c.rows : c.columns;
    std::vector<std::uint8_t> values(bytes_of(c.activations, in * c.tokens));
    test::Random random("activations");
    for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(test::element_bytes(c.activations)))
      test::put_element_bits(c.activations, values.data() + i, test::rounded_bits(c.activations, random.normal()));
    memory.push_back(std::make_unique<Buffer>(values));
    // A layer's activations lie token by token: [features, tokens], which out_prod sees transposed.
    const Tensor src1 = make_tensor(nullptr, c.activations, {in, c.tokens});
    request.src1 = on_device(forward ? src1 : transposed(src1), memory.back()->data());
    place_dst(c.to, {out, c.tokens});
  }

  void place_dst(Format type, std::initializer_list<std::int64_t> shape) {
    const Tensor dst = make_tensor(nullptr, type, shape);
    memory.push_back(std::make_unique<Buffer>(bytes_of(type, element_count(dst))));
    request.dst = on_device(dst, memory.back()->data());
  }

  /// Stored weight and activations in, results out.
  [[nodiscard]] std::uint64_t moved_bytes() const {
    std::uint64_t sum = 0;
    for (const Buffer& b : weight.memory) sum += b.size();
    for (const auto& b : memory) sum += b->size();
    return sum;
  }

  PlacedWeight weight;
  std::vector<std::unique_ptr<Buffer>> memory;
  nibble_request request;
};

/// One side: a plan and a workspace for each call of a cell.
struct Side {
  std::vector<Plan> plans;
  std::vector<std::unique_ptr<Buffer>> workspaces;
  std::uint64_t workspace_bytes = 0;

  Side(const Registry& registry, const std::vector<Operands>& calls, const std::string& kernel,
       std::string_view (*usual)(nibble_op), std::size_t count) {
    for (const Operands& c : calls) {
      // With one call a cell its kernel can be named; several take the usual ones.
      const std::string name = kernel.empty() || count > 1 ? std::string(usual(c.request.op)) : kernel;
      auto plan = registry.plan(c.request, name);
      if (!plan) throw std::runtime_error(plan.status().message());
      workspaces.push_back(std::make_unique<Buffer>(std::max<std::size_t>(plan->workspace().bytes, 256)));
      workspace_bytes = std::max(workspace_bytes, plan->workspace().bytes);
      plans.push_back(*plan);
    }
  }

  void run(const std::vector<Operands>& calls, void* stream) const {
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const Status s = plans[i].run(calls[i].request, {workspaces[i]->data(), workspaces[i]->size()}, stream);
      if (!s) throw std::runtime_error(s.message());
    }
  }
};

class Clock {
 public:
  Clock() {
    must(cudaEventCreate(&start_), "cudaEventCreate");
    must(cudaEventCreate(&stop_), "cudaEventCreate");
  }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  ~Clock() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }
  [[nodiscard]] cudaStream_t stream() const { return static_cast<cudaStream_t>(stream_.get()); }
  double us(const std::function<void()>& work) const {
    must(cudaEventRecord(start_, stream()), "cudaEventRecord");
    work();
    must(cudaEventRecord(stop_, stream()), "cudaEventRecord");
    must(cudaEventSynchronize(stop_), "a timed batch");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, start_, stop_), "cudaEventElapsedTime");
    return 1e3 * static_cast<double>(ms);
  }

 private:
  device_test::Stream stream_;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

/// A batch of calls as a graph, so that launches cost as little as they can.
class Graph {
 public:
  Graph(cudaStream_t stream, const std::function<void()>& work) : stream_(stream) {
    cudaGraph_t graph = nullptr;
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin of a capture");
    work();
    must(cudaStreamEndCapture(stream, &graph), "end of a capture");
    count_kernels(graph);
    must(cudaGraphInstantiate(&graph_, graph, 0), "cudaGraphInstantiate");
    must(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { cudaGraphExecDestroy(graph_); }
  [[nodiscard]] std::size_t kernels() const { return kernels_; }
  void launch() const { must(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch"); }

 private:
  void count_kernels(cudaGraph_t graph) {
    std::size_t count = 0;
    must(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
    std::vector<cudaGraphNode_t> nodes(count);
    must(cudaGraphGetNodes(graph, nodes.data(), &count), "cudaGraphGetNodes");
    for (const cudaGraphNode_t node : nodes) {
      cudaGraphNodeType type{};
      must(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
      kernels_ += type == cudaGraphNodeTypeKernel ? 1 : 0;
    }
  }

  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
  std::size_t kernels_ = 0;
};

/// So many copies of the operands that a call finds none of its own in the cache.
int slots_for(std::uint64_t moved) {
  cudaDeviceProp properties{};
  must(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  const auto cache = static_cast<std::uint64_t>(properties.l2CacheSize);
  return static_cast<int>(std::clamp<std::uint64_t>(3 * cache / std::max<std::uint64_t>(moved, 1) + 2, 2, 64));
}

}  // namespace

CellTimes measure(const Registry& registry, const CellSpec& cell, const std::string& baseline,
                  const std::string& candidate, const Effort& effort) {
  std::vector<std::vector<Operands>> slots(1);
  for (const Call& c : cell.calls) slots.front().emplace_back(c);
  CellTimes times;
  for (const Operands& o : slots.front()) times.moved_bytes += o.moved_bytes();
  times.slots = slots_for(times.moved_bytes);
  while (slots.size() < static_cast<std::size_t>(times.slots)) {
    slots.emplace_back();
    for (const Call& c : cell.calls) slots.back().emplace_back(c);
  }
  const Side sides[] = {{registry, slots.front(), baseline, baseline_of, cell.calls.size()},
                        {registry, slots.front(), candidate, candidate_of, cell.calls.size()}};
  times.baseline_workspace = sides[0].workspace_bytes;
  times.candidate_workspace = sides[1].workspace_bytes;
  for (const Side& side : sides) {
    for (const Plan& plan : side.plans) times.kernels.emplace_back(plan.kernel().name);
  }

  const Clock clock;
  std::size_t next = 0;
  const auto calls = [&](const Side& side, int count) {
    for (int i = 0; i < count; ++i) side.run(slots[next++ % slots.size()], clock.stream());
  };
  for (const Side& side : sides) calls(side, effort.warmups);
  const double one = clock.us([&] { calls(sides[0], 5); }) / 5;
  times.calls_in_batch = std::clamp(static_cast<int>(effort.batch_us / std::max(one, 1.0)), 3, 400);

  const bool in_graph = cell.kind != Kind::public_path;
  std::vector<std::unique_ptr<Graph>> graphs;
  for (const Side& side : sides) {
    if (!in_graph) break;
    graphs.push_back(std::make_unique<Graph>(clock.stream(), [&] { calls(side, times.calls_in_batch); }));
    graphs.back()->launch();
    const double launches = static_cast<double>(graphs.back()->kernels()) / times.calls_in_batch;
    (graphs.size() == 1 ? times.baseline_launches : times.candidate_launches) = launches;
  }
  std::vector<double>* const samples[] = {&times.baseline_us, &times.candidate_us};
  for (int batch = 0; batch < effort.batches; ++batch) {
    for (int turn = 0; turn < 2; ++turn) {
      const auto side = static_cast<std::size_t>((batch + turn) % 2);  // who goes first changes
      const double us = clock.us([&] { in_graph ? graphs[side]->launch() : calls(sides[side], times.calls_in_batch); });
      samples[side]->push_back(us / times.calls_in_batch);
    }
  }
  return times;
}

double copy_bandwidth(int batches) {
  constexpr std::size_t kBytes = std::size_t{1} << 29;
  constexpr int kCopies = 10;
  const Clock clock;
  const Buffer from(kBytes), to(kBytes);
  std::vector<double> samples;
  for (int i = 0; i < batches + 2; ++i) {
    const double us = clock.us([&] {
      for (int k = 0; k < kCopies; ++k)
        must(cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, clock.stream()), "copy");
    });
    if (i >= 2) samples.push_back(us / kCopies);
  }
  return 2.0 * kBytes / summarize(samples).median;
}

}  // namespace nibble::bench
