// A folder of plugins for one test, and a decode by one kernel.
// Apart from the tests because all that load bad plugins begin with them.
#ifndef NIBBLE_TESTS_PLUGINS_FIXTURE_H
#define NIBBLE_TESTS_PLUGINS_FIXTURE_H

#include <nibble/nibble.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::test {

namespace fs = std::filesystem;

class PluginsTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  void add(const std::string& name) const {
    fs::copy_file(fs::path(NIBBLE_BAD_PLUGINS) / "nibble_bad.so", fs::path(folder_) / ("nibble_" + name + ".so"));
  }
  void add_built(const std::string& name) const {
    fs::copy_file(fs::path(NIBBLE_BAD_PLUGINS) / (name + ".so"), fs::path(folder_) / (name + ".so"));
  }
  [[nodiscard]] std::string path(const std::string& file) const { return folder_ + "/" + file; }
  [[nodiscard]] Result<Registry> load(const std::vector<std::string>& folders = {}) const {
    Settings s;
    s.plugin_path = folders.empty() ? std::vector{folder_} : folders;
    return Registry::create(s);
  }
  [[nodiscard]] Registry loaded(const std::vector<std::string>& folders = {}) const {
    auto registry = load(folders);
    EXPECT_EQ(registry.status().message(), "");
    return std::move(registry).value();
  }

 private:
  std::string folder_ = testing::TempDir() + "nibble_plugins_" + std::to_string(getpid());
};

inline const PluginRecord* find(const Registry& registry, std::string_view backend) {
  for (const PluginRecord& p : registry.plugins()) {
    if (p.backend == backend) return &p;
  }
  return nullptr;
}

inline std::string reason_of(const Registry& registry, std::string_view backend) {
  const PluginRecord* p = find(registry, backend);
  return p == nullptr ? "not found" : p->loaded ? "loaded: " + p->reason : p->reason;
}

/// Decodes 32 values of Q8_0, all of them 2, with one kernel: the status's line, or the first value.
struct Decode {
  std::array<std::uint8_t, 34> block{};
  std::array<float, 32> out{};
  nibble_request request = make_request(NIBBLE_OP_DEQUANTIZE);

  Decode() {
    block.fill(2);
    block[0] = 0, block[1] = 0x3c;  // the scale, 1 as a half
    request.weight = make_weight(make_tensor(block.data(), NIBBLE_Q8_0, {32}));
    request.dst = make_tensor(out.data(), NIBBLE_F32, {32});
  }
  std::string run(const Registry& registry, const std::string& kernel) {
    const auto plan = registry.plan(request, kernel);
    if (!plan) return plan.status().message();
    const Status s = plan->run(request);
    return s ? fmt::format("{}", out[0]) : s.message();
  }
};

}  // namespace nibble::test

#endif
