// What a call may do to a process beside computing: streams, graphs, memory, devices, forks.
// Apart from the conformance cases because here the values are the least of it.
#include "tests/gpu/device_fixture.h"

#include "core/decode.h"

#include NIBBLE_GPU_NATIVE

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

namespace nibble::device_test {
namespace {

constexpr double kMiB = 1 << 20;

/// Files of the driver that this process holds open: none, and there is no context.
int open_device_files() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    for (const char* driver : {"/dev/nvidia", "/dev/kfd", "/dev/dri/"}) count += target.rfind(driver, 0) == 0 ? 1 : 0;
  }
  return count;
}

/// First of all tests: later ones have made a context, and a forked child cannot use its parent's.
TEST(AFork, WorksWhereTheParentOnlyLoaded) {
  const auto kernels = registry().kernels();
  ASSERT_TRUE(std::any_of(kernels.begin(), kernels.end(), [](const auto& k) { return k.backend == kBackend; }));
  EXPECT_EQ(open_device_files(), 0) << "loading the plugins opened the device";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int result = 1;
    try {
      const PlacedWeight w({NIBBLE_Q4_K}, {.shape = {512, 8, 1, 1}}, "fork");
      const auto values = dequantize(w.weight, NIBBLE_F32, {.registry = &registry()});
      result = values.ok() && GPU(DeviceSynchronize)() == GPU(Success) ? 0 : 2;
    } catch (const std::exception& e) {
      fmt::print(stderr, "in the child: {}\n", e.what());
    }
    _exit(result);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the child's status is " << status;
  EXPECT_EQ(open_device_files(), 0) << "the child's work opened the device in its parent";
}

/// Free memory of the device at its lowest while `body` runs, looked at every 200 us.
std::size_t least_free_during(const std::function<void()>& body) {
  const auto free_now = [] {
    std::size_t free = 0, total = 0;
    must(GPU(MemGetInfo)(&free, &total), "MemGetInfo");
    return free;
  };
  std::atomic<bool> done = false;
  std::size_t least = free_now();
  std::thread watch([&] {
    while (!done) {
      least = std::min(least, free_now());
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  body();
  done = true;
  watch.join();
  return std::min(least, free_now());
}

/// Before any other product, so that what the BLAS takes for itself is seen and stated.
TEST(BMemory, OutProdThroughAnOutputHeadStaysWithinTheBudget) {
  constexpr std::int64_t embed = 5120, vocabulary = 152064, tokens = 512;
  const PlacedWeight w({NIBBLE_Q4_K}, {.shape = {embed, vocabulary, 1, 1}}, "output head");
  const Buffer gradient(bytes_of(numbers(tokens * vocabulary, "gradient")));
  const Buffer result(tokens * embed * 4);
  nibble_request r = make_request(NIBBLE_OP_OUT_PROD);
  r.weight = w.weight;
  r.src1 = on_device(make_tensor(nullptr, NIBBLE_F32, {tokens, vocabulary}), gradient.data());
  r.dst = on_device(make_tensor(nullptr, NIBBLE_F32, {embed, tokens}), result.data());
  const Stream stream;
  const auto plan = registry().plan(r);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_LE(plan->workspace().bytes, std::uint64_t{256} << 20);

  std::size_t before = 0, total = 0;
  must(GPU(MemGetInfo)(&before, &total), "MemGetInfo");
  const auto call = [&] {
    for (int i = 0; i < 3; ++i) {
      const Status status = plan->run(r, {}, stream.get());
      EXPECT_TRUE(status.ok()) << status.message();
    }
    stream.wait();
  };
  const std::size_t first = least_free_during(call);
  const std::size_t again = least_free_during(call);
  GPU(MemPool_t) pool = nullptr;
  std::uint64_t pooled = 0;
  must(GPU(DeviceGetDefaultMemPool)(&pool, 0), "DeviceGetDefaultMemPool");
  must(GPU(MemPoolGetAttribute)(pool, GPU(MemPoolAttrUsedMemHigh), &pooled), "MemPoolGetAttribute");
  const double taken = static_cast<double>(before - std::min(first, again)) / kMiB;
  const double own = static_cast<double>(pooled) / kMiB;
  fmt::print(
      "{}, {}x{}, {} tokens: workspace {:.1f} MiB, peak of stream-ordered memory {:.1f} MiB, "
      "peak beyond operands {:.1f} MiB, so the BLAS and modules {:.1f} MiB\n",
      plan->kernel().name, embed, vocabulary, tokens, static_cast<double>(plan->workspace().bytes) / kMiB, own, taken,
      taken - own);
  EXPECT_LE(own, 256.0);
  // cuBLAS's workspace is 32 MiB on 9.0; the rest is code that was loaded lazily. What rocBLAS takes nobody has seen.
  EXPECT_TRUE(kBackend != "cuda" || taken - own <= 128.0);
}

/// One call of each operation on operands that lie on the device.
struct Calls {
  Calls()
      : w({NIBBLE_NF4, true}, {.shape = {512, 96, 1, 1}}, "calls"),
        source(numbers(96 * 8, "src1")),
        src1(bytes_of(source)),
        dst(512 * 96 * 4) {
    request(NIBBLE_OP_DEQUANTIZE, {}, {512, 96});
    request(NIBBLE_OP_OUT_PROD, {8, 96}, {512, 8});
    request(NIBBLE_OP_LINEAR, {512, 1}, {96, 1});
  }
  void request(nibble_op op, std::initializer_list<std::int64_t> src1_shape,
               std::initializer_list<std::int64_t> dst_shape) {
    nibble_request r = make_request(op);
    r.weight = w.weight;
    if (src1_shape.size() != 0) r.src1 = on_device(make_tensor(nullptr, NIBBLE_F32, src1_shape), src1.data());
    r.dst = on_device(make_tensor(nullptr, NIBBLE_F32, dst_shape), dst.data());
    requests.push_back(r);
  }
  std::vector<std::uint8_t> run(const nibble_request& r, void* stream = nullptr) const {
    dst.poison();
    const Status status = registry().run(r, {}, stream);
    EXPECT_TRUE(status.ok()) << status.message();
    must(GPU(DeviceSynchronize)(), "a call");
    return dst.download();
  }

  PlacedWeight w;
  std::vector<float> source;
  Buffer src1, dst;
  std::vector<nibble_request> requests;
};

void delay(GPU(Stream_t), GPU(Error_t), void*) { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }

/// The operands' bytes arrive late on the stream: work on any other stream, or before them, sees the poison.
TEST(Streams, AreTheCallersAndAreNotWaitedFor) {
  Calls calls;
  for (const nibble_request& r : calls.requests) {
    SCOPED_TRACE(op_name(r.op));
    const auto expected = calls.run(r);
    calls.dst.poison();
    calls.w.memory.front().poison();
    const Stream stream;
    const auto s = static_cast<GPU(Stream_t)>(stream.get());
    auto& packed = calls.w.host.packed;
    must(GPU(HostRegister)(packed.data(), packed.size(), 0), "HostRegister");  // or the copy would be waited for
    const auto start = std::chrono::steady_clock::now();
    must(GPU(StreamAddCallback)(s, delay, nullptr, 0), "StreamAddCallback");
    must(GPU(MemcpyAsync)(calls.w.memory.front().data(), packed.data(), packed.size(), GPU(MemcpyHostToDevice), s),
         "copy");
    const Status status = registry().run(r, {}, s);
    const auto returned = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(GPU(StreamQuery)(s), GPU(ErrorNotReady)) << "the call waited for its stream";
    EXPECT_LT(returned, std::chrono::milliseconds(250));
    stream.wait();
    must(GPU(HostUnregister)(packed.data()), "HostUnregister");
    EXPECT_EQ(calls.dst.download(), expected);
  }
}

/// A captured call allocates nothing from the device, replays on new contents, and captures again with other pointers.
TEST(Graphs, ReplayOnNewContentsAndAreCapturedAgain) {
  Calls calls;
  const Buffer other(calls.dst.size());
  const PlacedWeight second({NIBBLE_NF4, true}, {.shape = {512, 96, 1, 1}}, "other contents");
  for (const nibble_request& r : calls.requests) {
    SCOPED_TRACE(op_name(r.op));
    const auto plan = registry().plan(r);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const Buffer workspace(std::max<std::size_t>(plan->workspace().bytes, 256));
    const Stream stream;
    const auto s = static_cast<GPU(Stream_t)>(stream.get());
    const auto capture = [&](const nibble_request& request) {
      GPU(Graph_t) graph = nullptr;
      GPU(GraphExec_t) ready = nullptr;
      must(GPU(StreamBeginCapture)(s, GPU(StreamCaptureModeGlobal)), "begin of a capture");
      const Status status = plan->run(request, {workspace.data(), workspace.size()}, s);
      must(GPU(StreamEndCapture)(s, &graph), "end of a capture");
      EXPECT_TRUE(status.ok()) << status.message();
      must(GPU(GraphInstantiateWithFlags)(&ready, graph, 0), "GraphInstantiate");
      must(GPU(GraphDestroy)(graph), "GraphDestroy");
      return ready;
    };
    const auto replay = [&](GPU(GraphExec_t) graph, const Buffer& dst) {
      dst.poison();
      must(GPU(GraphLaunch)(graph, s), "GraphLaunch");
      stream.wait();
      return dst.download();
    };
    const auto first = calls.run(r);
    GPU(GraphExec_t) graph = capture(r);
    EXPECT_EQ(replay(graph, calls.dst), first);
    // New contents in the same places.
    for (std::size_t i = 0; i < calls.w.memory.size(); ++i) calls.w.memory[i].upload(second.memory[i].download());
    const auto changed = calls.run(r);
    EXPECT_NE(changed, first);
    EXPECT_EQ(replay(graph, calls.dst), changed);
    // Another place for the result.
    nibble_request moved = r;
    moved.dst.data = other.data();
    GPU(GraphExec_t) again = capture(moved);
    EXPECT_EQ(replay(again, other), changed);
    must(GPU(GraphExecDestroy)(graph), "GraphExecDestroy");
    must(GPU(GraphExecDestroy)(again), "GraphExecDestroy");
    calls.w = PlacedWeight({NIBBLE_NF4, true}, {.shape = {512, 96, 1, 1}}, "calls");
    for (nibble_request& each : calls.requests) each.weight = calls.w.weight;
  }
}

/// Takes the device's memory until no more than `leave` bytes, or than the runtime gives out, are left.
std::vector<Buffer> take_all_but(std::size_t leave) {
  GPU(MemPool_t) pool = nullptr;
  must(GPU(DeviceSynchronize)(), "DeviceSynchronize");
  must(GPU(DeviceGetDefaultMemPool)(&pool, 0), "DeviceGetDefaultMemPool");
  must(GPU(MemPoolTrimTo)(pool, 0), "MemPoolTrimTo");  // what earlier calls gave back to it would serve the next
  std::vector<Buffer> taken;
  for (std::size_t piece = std::size_t{1} << 34; piece >= std::size_t{1} << 21;) {
    std::size_t free = 0, total = 0;
    must(GPU(MemGetInfo)(&free, &total), "MemGetInfo");
    void* probe = nullptr;
    if (free < piece + leave || GPU(Malloc)(&probe, piece) != GPU(Success)) {
      static_cast<void>(GPU(GetLastError)());
      piece /= 2;
      continue;
    }
    must(GPU(Free)(probe), "Free");
    taken.emplace_back(piece);
  }
  return taken;
}

/// The row that decodes a weight of one matrix in blocks: the BLAS's, or where there is none the portable kernel's.
std::string row_in_blocks() {
  const std::string name = fmt::format("{}.out_prod.row_blocks", kBackend);
  const auto kernels = registry().kernels();
  const bool there = std::any_of(kernels.begin(), kernels.end(), [&](const auto& k) { return k.kernel->name == name; });
  return there ? name : fmt::format("{}.out_prod.portable", kBackend);
}

TEST(Errors, ShortMemoryServesInSmallerBlocksAndNoneIsAStatus) {
  const Calls calls;
  const nibble_request& r = calls.requests[1];
  const auto expected = calls.run(r);
  nibble_request large = make_request(NIBBLE_OP_OUT_PROD);
  const PlacedWeight w({NIBBLE_Q4_K}, {.shape = {8192, 8192, 1, 1}}, "large");
  const Buffer gradient(8192 * 4), result(8192 * 4);
  large.weight = w.weight;
  large.src1 = on_device(make_tensor(nullptr, NIBBLE_F32, {1, 8192}), gradient.data());
  large.dst = on_device(make_tensor(nullptr, NIBBLE_F32, {8192, 1}), result.data());
  const auto plan = registry().plan(large, row_in_blocks());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_GE(plan->workspace().bytes, std::uint64_t{128} << 20);
  {
    const auto taken = take_all_but(std::size_t{96} << 20);
    const Status status = plan->run(large);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  {
    const auto taken = take_all_but(0);
    const Status status = plan->run(large);
    EXPECT_EQ(status.code(), NIBBLE_OUT_OF_MEMORY) << status.message();
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
    fmt::print("out of memory says: {}\n", status.message());
    EXPECT_EQ(GPU(GetLastError)(), GPU(Success)) << "an error was left behind";
  }
  EXPECT_EQ(calls.run(r), expected);
}

TEST(Devices, TheCurrentOneIsLeftAloneAndTheTensorsOneIsUsed) {
  int count = 0;
  must(GPU(GetDeviceCount)(&count), "GetDeviceCount");
  if (count < 2) GTEST_SKIP() << "tensors on device 1 while 0 is current need a second GPU; this machine has " << count;
  const Calls calls;
  const nibble_request& on_first = calls.requests[0];
  const auto expected = calls.run(on_first);
  must(GPU(SetDevice)(1), "SetDevice");
  std::vector<std::uint8_t> got;
  {
    const PlacedWeight w({NIBBLE_NF4, true}, {.shape = {512, 96, 1, 1}}, "calls");
    const Buffer dst(calls.dst.size());
    nibble_request r = on_first;
    r.weight = w.weight;
    r.dst.data = dst.data();
    for (Tensor* t :
         {&r.weight.packed, &r.weight.code, &r.weight.absmax, &r.weight.nested_absmax, &r.weight.nested_code, &r.dst}) {
      t->device_index = 1;
    }
    must(GPU(SetDevice)(0), "SetDevice");
    const Status status = registry().run(r);
    EXPECT_TRUE(status.ok()) << status.message();
    int current = -1;
    must(GPU(GetDevice)(&current), "GetDevice");
    EXPECT_EQ(current, 0);
    must(GPU(SetDevice)(1), "SetDevice");
    must(GPU(DeviceSynchronize)(), "a call on device 1");
    got = dst.download();
  }
  must(GPU(SetDevice)(0), "SetDevice");
  EXPECT_EQ(got, expected);
}

}  // namespace
}  // namespace nibble::device_test
