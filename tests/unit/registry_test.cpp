// Registries, plans and the operations' functions on the CPU: choice, reuse, memory, errors.
// Apart from conformance, which compares values: here it is what surrounds a kernel.
#include <nibble/nibble.hpp>

#include "dispatch/decision_cache.h"
#include "tests/unit/fake.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace nibble {
namespace {

/// Two rows of Q8_0 with scale 0.5 and codes 0..31 and -1..-32.
std::array<std::uint8_t, 68> q8_rows() {
  std::array<std::uint8_t, 68> bytes{};
  for (int row = 0; row < 2; ++row) {
    std::uint8_t* block = bytes.data() + row * 34;
    block[1] = 0x38;  // 0.5 as a half
    for (int i = 0; i < 32; ++i) block[2 + i] = static_cast<std::uint8_t>(row == 0 ? i : -1 - i);
  }
  return bytes;
}

const Registry& registry() { return Registry::default_registry().value(); }

TEST(ApiTest, DequantizeIntoAGivenViewLeavesItsPaddingAlone) {
  auto bytes = q8_rows();
  const Weight w = make_weight(make_tensor(bytes.data(), NIBBLE_Q8_0, {32, 2}));
  std::vector<float> out(2 * 40, -7.0f);
  Tensor dst = make_tensor(out.data(), NIBBLE_F32, {32, 2});
  dst.byte_stride[1] = 40 * 4;
  dst.byte_stride[2] = dst.byte_stride[3] = 80 * 4;
  ASSERT_EQ(dequantize(w, dst).message(), "");
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(out[static_cast<std::size_t>(i)], 0.5f * static_cast<float>(i));
    EXPECT_EQ(out[static_cast<std::size_t>(40 + i)], -0.5f * static_cast<float>(i + 1));
  }
  for (int i = 32; i < 40; ++i) EXPECT_EQ(out[static_cast<std::size_t>(i)], -7.0f);
}

TEST(ApiTest, TheAllocatingFormsGiveShapesAndValues) {
  auto bytes = q8_rows();
  const Weight w = make_weight(make_tensor(bytes.data(), NIBBLE_Q8_0, {32, 2}));
  std::vector<float> x(32, 1.0f), g = {2.0f, 4.0f};
  auto values = dequantize(w, NIBBLE_F32);
  ASSERT_EQ(values.status().message(), "");
  EXPECT_EQ(static_cast<const float*>(values->view().data)[63], -16.0f);
  auto y = linear(w, make_tensor(x.data(), NIBBLE_F32, {32, 1}), {}, NIBBLE_F32);
  ASSERT_EQ(y.status().message(), "");
  EXPECT_EQ(y->view().shape[0], 2);
  EXPECT_EQ(static_cast<const float*>(y->view().data)[0], 0.5f * 31 * 32 / 2);
  auto d = out_prod(w, make_tensor(g.data(), NIBBLE_F32, {1, 2}), NIBBLE_F32);
  ASSERT_EQ(d.status().message(), "");
  EXPECT_EQ(d->view().shape[0], 32);
  EXPECT_EQ(static_cast<const float*>(d->view().data)[3], 2.0f * 1.5f + 4.0f * -2.0f);
}

TEST(ApiTest, PackedTransposedGivesTheSameBufferWithSwappedStrides) {
  auto bytes = q8_rows();
  const Weight w = make_weight(make_tensor(bytes.data(), NIBBLE_Q8_0, {32, 2}));
  auto t = dequantize(w, NIBBLE_F32, {.packed_transposed = true});
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->view().shape[0], 2);
  EXPECT_EQ(t->view().shape[1], 32);
  EXPECT_EQ(t->view().byte_stride[0], 32 * 4);
  EXPECT_EQ(t->view().byte_stride[1], 4);
}

TEST(ApiTest, DataFaultsAreStatuses) {
  auto bytes = q8_rows();
  alignas(4) std::array<std::uint8_t, 260> out{};
  const Tensor packed = make_tensor(bytes.data(), NIBBLE_Q8_0, {32, 2});
  EXPECT_EQ(dequantize(make_weight(packed), make_tensor(nullptr, NIBBLE_F32, {32, 2})).message(),
            "dst has no data: expected a pointer");
  EXPECT_EQ(
      dequantize(make_weight(make_tensor(nullptr, NIBBLE_Q8_0, {32, 2})), make_tensor(out.data(), NIBBLE_F32, {32, 2}))
          .message(),
      "weight has no data: expected a pointer");
  Tensor odd = make_tensor(out.data(), NIBBLE_F32, {32, 2});
  odd.byte_offset = 2;
  EXPECT_EQ(dequantize(make_weight(packed), odd).message(),
            "dst lies at an address that is not a multiple of 4, the size of f32");
}

TEST(ApiTest, AForeignDeviceIsNotServedBehindTheCallersBack) {
  const Device cuda{NIBBLE_DEVICE_CUDA, 0};
  float out[32];
  const Weight w = make_weight(make_tensor(out, NIBBLE_Q8_0, {32}, cuda));
  const Status mixed = dequantize(w, make_tensor(out, NIBBLE_F32, {32}));
  EXPECT_EQ(mixed.message(), "weight is on cuda:0 and dst on cpu: expected one device");
  Settings cpu_alone;
  cpu_alone.backends = {"cpu", "reference"};
  auto r = Registry::create(cpu_alone);
  ASSERT_TRUE(r.ok());
  const Status none = dequantize(w, make_tensor(out, NIBBLE_F32, {32}, cuda), {.registry = &*r});
  EXPECT_EQ(none.code(), NIBBLE_UNSUPPORTED);
  EXPECT_NE(none.message().find("dispatch never falls back to another device"), std::string::npos) << none.message();
}

TEST(ApiTest, EmptyTensorsAreNoWork) {
  const Weight w = make_weight(make_tensor(nullptr, NIBBLE_Q8_0, {32, 0}));
  EXPECT_EQ(dequantize(w, make_tensor(nullptr, NIBBLE_F32, {32, 0})).message(), "");
}

TEST(ApiTest, AnEmptyBatchIsNoWorkForAnyKernel) {
  nibble_request r = make_request(NIBBLE_OP_OUT_PROD);
  r.weight = make_weight(make_tensor(nullptr, NIBBLE_Q4_K, {256, 8, 0, 1}));
  r.src1 = make_tensor(nullptr, NIBBLE_F32, {3, 8, 0, 1});
  r.dst = make_tensor(nullptr, NIBBLE_F32, {256, 3, 0, 1});
  std::size_t served = 0;
  for (const DeviceRecord& d : registry().devices()) {
    for (const KernelRecord& k : registry().kernels()) {
      const bool here = k.backend == d.backend && (k.kernel->isa & ~d.caps.isa) == 0;
      if (!here || k.kernel->op != NIBBLE_OP_OUT_PROD || k.kernel->device_type != NIBBLE_DEVICE_CPU) continue;
      auto plan = registry().plan(r, k.kernel->name);
      ASSERT_TRUE(plan.ok()) << k.kernel->name << ": " << plan.status().message();
      EXPECT_EQ(plan->run(r).message(), "") << k.kernel->name;
      ++served;
    }
  }
  EXPECT_GE(served, 2u);  // the reference's, and one of the CPU's at least
}

TEST(PlanTest, RunsAgainWithOtherDataAndRefusesAnotherShape) {
  auto bytes = q8_rows();
  float first[64], second[64];
  nibble_request r = make_request(NIBBLE_OP_DEQUANTIZE);
  r.weight = make_weight(make_tensor(bytes.data(), NIBBLE_Q8_0, {32, 2}));
  r.dst = make_tensor(first, NIBBLE_F32, {32, 2});
  auto plan = registry().plan(r);
  ASSERT_EQ(plan.status().message(), "");
  ASSERT_EQ(plan->run(r).message(), "");
  r.dst.data = second;
  ASSERT_EQ(plan->run(r).message(), "");
  EXPECT_TRUE(std::ranges::equal(first, second));
  r.weight.packed.shape[1] = r.dst.shape[1] = 1;
  EXPECT_NE(plan->run(r).message().find("request differs from the one that"), std::string::npos);
}

TEST(PlanTest, OutlivesItsRegistry) {
  auto bytes = q8_rows();
  float out[64];
  nibble_request r = make_request(NIBBLE_OP_DEQUANTIZE);
  r.weight = make_weight(make_tensor(bytes.data(), NIBBLE_Q8_0, {32, 2}));
  r.dst = make_tensor(out, NIBBLE_F32, {32, 2});
  auto plan = [&] { return Registry::create(Settings{})->plan(r); }();
  ASSERT_EQ(plan.status().message(), "");
  EXPECT_EQ(plan->run(r).message(), "");
}

TEST(PlanTest, ANamedKernelIsTakenOrRefusedWithItsReason) {
  const nibble_request r = fake::dequantize(NIBBLE_Q4_K, NIBBLE_F32);
  EXPECT_STREQ(registry().plan(r, "reference.dequantize.scalar")->kernel().name, "reference.dequantize.scalar");
  std::string names;
  for (const KernelRecord& k : registry().kernels()) {
    if (k.kernel->op == NIBBLE_OP_DEQUANTIZE) names += (names.empty() ? "" : ", ") + std::string(k.kernel->name);
  }
  EXPECT_EQ(registry().plan(r, "reference.linear.scalar").status().message(),
            "plan names kernel 'reference.linear.scalar' for dequantize: expected one of " + names);
  const Status unknown = registry().plan(r, "no.such\n").status();
  EXPECT_EQ(unknown.code(), NIBBLE_NOT_FOUND);
  EXPECT_EQ(unknown.message(), "plan names kernel 'no.such\\x0a' for dequantize: expected one of " + names);
}

TEST(PlanTest, OneThatWasMovedFromIsEmptyAndSaysSo) {
  auto bytes = q8_rows();
  float out[64];
  nibble_request r = make_request(NIBBLE_OP_DEQUANTIZE);
  r.weight = make_weight(make_tensor(bytes.data(), NIBBLE_Q8_0, {32, 2}));
  r.dst = make_tensor(out, NIBBLE_F32, {32, 2});
  Plan plan = registry().plan(r).value();
  const std::string name = plan.kernel().name;
  const Plan taken = std::move(plan);
  EXPECT_EQ(taken.kernel().name, name);
  EXPECT_EQ(taken.run(r).message(), "");
  // NOLINTBEGIN(bugprone-use-after-move)
  EXPECT_EQ(plan.run(r).code(), NIBBLE_INVALID_ARGUMENT);
  EXPECT_EQ(plan.run(r).message(), "the plan is empty: expected one that was not moved from");
  EXPECT_STREQ(plan.kernel().name, "");
  EXPECT_EQ(plan.request().op, 0u);
  EXPECT_EQ(plan.workspace().bytes, 0u);
  plan = taken;
  EXPECT_EQ(plan.run(r).message(), "");
  // NOLINTEND(bugprone-use-after-move)
}

TEST(RegistryTest, OneThatWasMovedFromIsStillWhole) {
  Registry first = Registry::create(Settings{}).value();
  const Registry second = std::move(first);  // NOLINT(performance-move-const-arg): that it copies is what is tested
  EXPECT_EQ(first.kernels().data(), second.kernels().data());  // NOLINT(bugprone-use-after-move)
}

TEST(AbiTest, AStructThatIsTooShortIsNamed) {
  nibble_request r = fake::dequantize(NIBBLE_Q4_K, NIBBLE_F32);
  const Plan plan = registry().plan(r).value();
  const std::string expected = ": expected at least 824, its size in ABI 1.0";
  for (const std::uint32_t size : {0u, 12u, 823u}) {
    r.struct_size = size;
    const std::string line = "request has struct_size " + std::to_string(size) + expected;
    EXPECT_EQ(registry().run(r).message(), line);
    EXPECT_EQ(registry().plan(r).status().message(), line);
    EXPECT_EQ(registry().explain(r).status().message(), line);
    EXPECT_EQ(plan.run(r).message(), line);
  }
  r.struct_size = 825;  // of a newer caller
  EXPECT_EQ(registry().explain(r).status().message(), "");
  EXPECT_EQ(plan.run(r).message(), "weight has no data: expected a pointer");
}

TEST(AbiTest, InventedCapabilitiesAreCheckedAndTheirTextsEnd) {
  const nibble_request r = fake::dequantize(NIBBLE_Q4_K, NIBBLE_F32);
  nibble_caps caps = fake::caps("cpu:avx2");
  caps.struct_size = 191;
  EXPECT_EQ(registry().explain(r, &caps).status().message(),
            "caps have struct_size 191: expected at least 192, their size in ABI 1.0");
  caps.struct_size = sizeof caps;
  std::memset(caps.arch, 'a', sizeof caps.arch);
  std::memset(caps.name, 'b', sizeof caps.name);
  caps.arch[0] = '\n';
  const auto decision = registry().explain(r, &caps);
  ASSERT_TRUE(decision.ok()) << decision.status().message();
  EXPECT_EQ(decision->device, "cpu (\\x0a" + std::string(30, 'a') + ", invented)");
}

TEST(PlanTest, WorkspaceRulesAreKept) {
  auto bytes = q8_rows();
  std::vector<float> g = {2.0f, 4.0f}, out(32);
  nibble_request r = make_request(NIBBLE_OP_OUT_PROD);
  r.weight = make_weight(make_tensor(bytes.data(), NIBBLE_Q8_0, {32, 2}));
  r.src1 = make_tensor(g.data(), NIBBLE_F32, {1, 2});
  r.dst = make_tensor(out.data(), NIBBLE_F32, {32, 1});
  auto plan = registry().plan(r, "reference.out_prod.scalar");
  ASSERT_EQ(plan.status().message(), "");
  ASSERT_EQ(plan->workspace().minimum_bytes, 256 * sizeof(double));
  std::vector<double> scratch(256);
  EXPECT_EQ(plan->run(r, {scratch.data(), 2048}).message(), "");
  EXPECT_EQ(plan->run(r, {scratch.data(), 2047}).message(),
            "workspace of 2047 bytes for reference.out_prod.scalar: expected at least 2048, aligned to 8");
  r.workspace_limit_bytes = 1024;
  auto limited = registry().plan(r, "reference.out_prod.scalar");
  EXPECT_EQ(limited->run(r).code(), NIBBLE_OUT_OF_MEMORY);
}

TEST(ExplainTest, InventedDevicesGetAnAnswerAndItsReason) {
  Settings cpu_alone;
  cpu_alone.backends = {"cpu", "reference"};
  auto r = Registry::create(cpu_alone);
  ASSERT_TRUE(r.ok());
  const nibble_caps sm103 = fake::caps("cuda:10.3"), avx2 = fake::caps("cpu:avx2");
  auto none = r->explain(fake::dequantize(NIBBLE_NF4, NIBBLE_F16, 256), &sm103);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->kernel, "");
  EXPECT_NE(none->reason.find("no loaded back end has a kernel there"), std::string::npos) << none->reason;
  EXPECT_EQ(none->device, "cuda (10.3, invented)");
  EXPECT_EQ(r->explain(fake::dequantize(NIBBLE_NF4, NIBBLE_F16, 256), &avx2)->kernel, "cpu.dequantize.simd.avx2");
}

/// Wavefronts as AMD documents them: 64 on GCN and CDNA, 32 on RDNA.
TEST(CapsTest, AmdArchitecturesHaveTheirNameAndTheirLanes) {
  const struct {
    const char* arch;
    std::uint32_t lanes;
  } cases[] = {{"gfx900", 64}, {"gfx906", 64},  {"gfx908", 64},  {"gfx90a", 64},  {"gfx942", 64},
               {"gfx950", 64}, {"gfx1030", 32}, {"gfx1100", 32}, {"gfx1151", 32}, {"gfx1201", 32}};
  for (const auto& c : cases) {
    const nibble_caps caps = fake::caps((std::string("hip:") + c.arch).c_str());
    EXPECT_EQ(caps.device_type, NIBBLE_DEVICE_HIP) << c.arch;
    EXPECT_STREQ(caps.arch, c.arch);
    EXPECT_EQ(caps.lanes, c.lanes) << c.arch;
    EXPECT_EQ(caps.arch_major, 0u) << c.arch << ": numbers are CUDA's, and rules compare them";
  }
}

TEST(CapsTest, SpecsAreUnderstoodOrRefused) {
  EXPECT_EQ(fake::caps("cuda:12.1").arch_minor, 1u);
  EXPECT_EQ(fake::caps("cpu:sse4").isa, std::uint64_t{NIBBLE_ISA_PORTABLE | NIBBLE_ISA_SSE4});
  for (const char* bad :
       {"", "cuda", "cuda:", "cuda:10", "cuda:x.y", "cuda:10.3x", "cpu:mmx", "tpu:5", "cpu:", "hip:90a", "hip:gfx",
        "hip:gfx90", "hip:gfx803", "hip:gfx90x", "hip:abc90a", "hip:gfx90a12", "hip:gfx11000", "hip:gfx90a:xnack+"}) {
    EXPECT_FALSE(invent_caps(bad).ok()) << bad;
  }
}

TEST(CacheTest, RemembersByShapeAndIgnoresData) {
  DecisionCache cache;
  Plan::Choice c;
  c.key = fake::dequantize(NIBBLE_Q4_K, NIBBLE_F32);
  c.hash = request_hash(c.key);
  EXPECT_EQ(cache.find(c.key, c.hash), nullptr);
  const Plan::Choice* kept = cache.add(c);
  ASSERT_NE(kept, nullptr);
  nibble_request moved = c.key;
  moved.dst.data = &moved;
  moved.weight.packed.byte_offset = 64;
  EXPECT_EQ(cache.find(moved, request_hash(moved)), kept);
  EXPECT_EQ(cache.add(c), kept);
  nibble_request other = c.key;
  other.dst.byte_stride[3] += 4;  // not part of the hash
  EXPECT_EQ(cache.find(other, request_hash(other)), nullptr);
}

TEST(CacheTest, AFullTableStopsRememberingAndKeepsWhatItHas) {
  DecisionCache cache;
  Plan::Choice c;
  c.hash = 5;  // all in one neighbourhood
  int kept = 0;
  for (std::uint32_t i = 0; i < 20; ++i) {
    c.key = fake::dequantize(NIBBLE_Q4_K, NIBBLE_F32);
    c.key.threads = i;
    if (cache.add(c) != nullptr) ++kept;
  }
  EXPECT_EQ(kept, 8);
  c.key.threads = 3;
  EXPECT_NE(cache.find(c.key, 5), nullptr);
}

}  // namespace
}  // namespace nibble
