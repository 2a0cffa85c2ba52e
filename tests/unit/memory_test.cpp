// What a product adds to the process: out_prod through a 27B model's output head must never expand the weight.
// Apart from the other tests because a process has one peak, and here nothing else may move it.
#include <nibble/nibble.hpp>

#include "tests/support/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

namespace nibble::test {
namespace {

/// "VmRSS" or "VmHWM" of this process in MiB.
double status_mib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string name;
  double kib = 0;
  while (status >> name) {
    if (name == field + ":" && status >> kib) return kib / 1024;
    std::getline(status, name);
  }
  return std::nan("");
}

/// Sets the kernel's record of the peak to what is resident now.
bool restart_peak() {
  std::ofstream clear("/proc/self/clear_refs");
  return static_cast<bool>(clear << "5" << std::flush);
}

TEST(Memory, OutProdThroughAnOutputHeadAddsLessThan64MiB) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory is counted with the process";
#endif
  constexpr std::int64_t embed = 5120, vocabulary = 152064, tokens = 4;
  Random random("output head");
  const HostWeight w =
      make_host_weight({NIBBLE_Q4_K}, {.shape = {embed, vocabulary, 1, 1}}, Contents::moderate, random);
  std::vector<float> gradient(tokens * vocabulary, 0x1p-10f), result(tokens * embed, std::nanf(""));
  nibble_request r = make_request(NIBBLE_OP_OUT_PROD);
  r.weight = w.weight;
  r.src1 = make_tensor(gradient.data(), NIBBLE_F32, {tokens, vocabulary});
  r.dst = make_tensor(result.data(), NIBBLE_F32, {embed, tokens});

  // Loading the plugins comes first: a CUDA plugin brings cuBLAS's library, some 150 MiB, whatever is computed.
  const Registry& registry = Registry::default_registry().value();
  if (!restart_peak()) GTEST_SKIP() << "/proc/self/clear_refs cannot be written here";
  const double before = status_mib("VmRSS");
  const Status status = registry.run(r);
  const double added = status_mib("VmHWM") - before;
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(std::all_of(result.begin(), result.end(), [](float v) { return std::isfinite(v); }));
  RecordProperty("added_mib", std::to_string(added));
  std::printf("out_prod added %.1f MiB beside a weight of %.0f MiB\n", added,
              static_cast<double>(w.packed.size()) / 1048576);
  EXPECT_LT(added, 64.0);  // a NaN, from a field that is not there, fails too
}

}  // namespace
}  // namespace nibble::test
