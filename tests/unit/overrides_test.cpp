// Every environment variable x {good, unknown, malformed, empty, contradictory}, and that the API's settings do the
// same. Apart from the selection tests because these go through real registries and the process's environment.
#include <nibble/nibble.hpp>

#include "tests/unit/fake.h"
#include "tests/unit/overrides_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace nibble {
namespace {

using overrides::Case;
using overrides::kCases;
using overrides::Kind;
using overrides::kKinds;

/// Sets a variable for one test.
class Scoped {
 public:
  Scoped(std::string name, const char* value) : name_(std::move(name)) { setenv(name_.c_str(), value, 1); }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;
  ~Scoped() { unsetenv(name_.c_str()); }

 private:
  std::string name_;
};

std::string chosen(const Result<Registry>& registry) {
  if (!registry) return registry.status().message();
  return registry->explain(fake::dequantize(NIBBLE_Q4_K, NIBBLE_F32))->kernel;
}

std::string label(const Case& c) { return std::string(c.variable) + "=" + c.value + " beside " + c.beside.first; }

TEST(OverridesTest, TheTableHasEveryVariableAndKind) {
  for (const std::string_view variable : Settings::variables()) {
    for (const Kind kind : kKinds) {
      EXPECT_TRUE(std::any_of(std::begin(kCases), std::end(kCases),
                              [&](const Case& c) { return c.variable == variable && c.kind == kind; }))
          << variable << ", kind " << static_cast<int>(kind);
    }
  }
}

TEST(OverridesTest, WhatIsWrongIsOneLineWithTheValidValues) {
  for (const Case& c : kCases) {
    if (c.set != nullptr) continue;
    const Scoped beside(c.beside.first, c.beside.second), set(c.variable, c.value);
    const Status status = Registry::create().status(), read = Settings::from_environment().status();
    EXPECT_EQ(status.code(), NIBBLE_BAD_SETTING) << label(c);
    if (c.kind == Kind::malformed) {
      EXPECT_EQ(read.message(), status.message()) << label(c);
    }
    EXPECT_NE(status.message().find(c.message), std::string::npos) << label(c) << ": " << status.message();
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << label(c);
  }
}

TEST(OverridesTest, AVeryLongValueMakesNoVeryLongLine) {
  const std::string name(100000, 'x');
  const std::string values[] = {name, name + ",", "dequantize=" + name, name + "=" + name, name + "::"};
  for (const std::string_view variable : Settings::variables()) {
    for (const std::string& value : values) {
      const Scoped set(std::string(variable), value.c_str());
      const auto registry = Registry::create();
      std::size_t longest = registry.status().message().size();
      if (registry.ok()) {
        for (const PluginRecord& p : registry->plugins()) longest = std::max(longest, p.reason.size());
      }
      EXPECT_LT(longest, 6000u) << variable << "=" << value.substr(0, 20);
    }
  }
}

/// What a registry chooses and leaves out: the same for two that were told the same.
std::string everything(const Result<Registry>& registry) {
  if (!registry) return registry.status().message();
  std::string text = to_text(*registry->explain(fake::dequantize(NIBBLE_Q4_K, NIBBLE_F32)));
  for (const PluginRecord& p : registry->plugins()) text += p.backend + p.path + ": " + p.reason + "\n";
  for (const KernelRecord& k : registry->kernels())
    text += std::string(k.kernel->name) + (k.disabled ? " -\n" : " +\n");
  return text;
}

TEST(OverridesTest, SettingsSayTheSameAsVariables) {
  for (const Case& c : kCases) {
    if (c.set == nullptr) continue;
    Settings settings;
    c.set(settings);
    const auto from_code = Registry::create(settings);
    const Scoped set(c.variable, c.value);
    const auto read = Settings::from_environment();
    ASSERT_TRUE(read.ok()) << label(c) << ": " << read.status().message();
    EXPECT_EQ(*read, settings) << label(c);
    const auto from_variable = Registry::create();
    ASSERT_TRUE(from_variable.ok()) << label(c) << ": " << from_variable.status().message();
    EXPECT_EQ(from_variable->settings(), settings) << label(c);
    EXPECT_EQ(everything(from_variable), everything(from_code)) << label(c);
  }
}

TEST(OverridesTest, SettingsFromCodeAreCheckedAsVariablesAre) {
  const std::pair<void (*)(Settings&), const char*> cases[] = {
      {[](Settings& s) { s.workspace_mib = 0; }, "NIBBLE_WORKSPACE_MIB=0: expected a whole number from 1 to"},
      {[](Settings& s) { s.workspace_mib = UINT64_MAX; }, "NIBBLE_WORKSPACE_MIB=18446744073709551615: expected"},
      {[](Settings& s) { s.threads = 65537; }, "NIBBLE_THREADS=65537: expected a whole number from 1 to 65536"},
      {[](Settings& s) { s.math = NIBBLE_MATH_DEFAULT; }, "NIBBLE_MATH=0: expected f32, tf32 or bf16"},
      {[](Settings& s) { s.math = 4; }, "NIBBLE_MATH=4: expected f32, tf32 or bf16"},
      {[](Settings& s) { s.backends = {""}; }, "NIBBLE_BACKEND names '': expected some of cpu, "},
      {[](Settings& s) { s.disable = {""}; }, "NIBBLE_DISABLE names '', which matches nothing"},
      {[](Settings& s) {
         s.force = {{"", ""}};
       },
       "NIBBLE_FORCE names operation '': expected one of dequantize"}};
  for (const auto& [set, message] : cases) {
    Settings settings;
    set(settings);
    const Status status = Registry::create(settings).status();
    EXPECT_EQ(status.code(), NIBBLE_BAD_SETTING) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }
}

TEST(OverridesTest, GoodValuesChangeTheChoice) {
  const std::string usual = chosen(Registry::create());
  EXPECT_EQ(usual.rfind("cpu.dequantize.simd.", 0), 0u) << usual;
  for (const auto& [variable, value] : {std::pair{"NIBBLE_FORCE", "dequantize=reference.dequantize.scalar"},
                                        {"NIBBLE_BACKEND", "reference"},
                                        {"NIBBLE_DISABLE", "cpu"},
                                        {"NIBBLE_DISABLE", "cpu.*"},
                                        {"NIBBLE_DISABLE", "*.dequantize.simd.*"}}) {
    const Scoped set(variable, value);
    EXPECT_EQ(chosen(Registry::create()), "reference.dequantize.scalar") << variable << "=" << value;
  }
}

TEST(OverridesTest, BackEndsComeInTheOrderThatIsAskedFor) {
  for (const auto& [value, first] : {std::pair{"reference,cpu", "reference"}, {"cpu,reference", "cpu"}}) {
    const Scoped set("NIBBLE_BACKEND", value);
    const auto registry = Registry::create();
    ASSERT_TRUE(registry.ok()) << registry.status().message();
    EXPECT_EQ(registry->kernels().front().backend, first);
    EXPECT_EQ(registry->devices().front().backend, first);
  }
}

TEST(OverridesTest, WhatARequestLeavesOpenIsFilledIn) {
  Settings settings;
  settings.math = NIBBLE_MATH_BF16;
  settings.threads = 7;
  settings.workspace_mib = 3;
  const auto registry = Registry::create(settings);
  nibble_request r = fake::dequantize(NIBBLE_Q4_K, NIBBLE_F32);
  r.math = NIBBLE_MATH_DEFAULT;
  const auto open = registry->plan(r);
  EXPECT_EQ(open->request().math, NIBBLE_MATH_BF16);
  EXPECT_EQ(open->request().threads, 7u);
  EXPECT_EQ(open->request().workspace_limit_bytes, 3u << 20);
  r.math = NIBBLE_MATH_F32;
  r.threads = 2;
  r.workspace_limit_bytes = 5;
  const auto said = registry->plan(r);
  EXPECT_EQ(said->request().math, NIBBLE_MATH_F32);
  EXPECT_EQ(said->request().threads, 2u);
  EXPECT_EQ(said->request().workspace_limit_bytes, 5u);
}

TEST(OverridesTest, EachNewDecisionIsExplainedWhereThatIsAskedFor) {
  const nibble_request r = fake::dequantize(NIBBLE_Q4_K, NIBBLE_F32);
  for (const bool asked : {false, true}) {
    Settings settings;
    settings.explain = asked;
    const auto registry = Registry::create(settings);
    testing::internal::CaptureStderr();
    const auto plan = registry->plan(r);
    const std::string printed = testing::internal::GetCapturedStderr();
    EXPECT_EQ(printed, asked ? to_text(*registry->explain(r)) : "") << plan.status().message();
  }
}

TEST(OverridesTest, AForcedKernelWhoseNeedsFailSaysWhich) {
  const Scoped set("NIBBLE_FORCE", "dequantize=reference.dequantize.scalar,out_prod=cpu.out_prod.panels.portable");
  const auto registry = Registry::create();
  ASSERT_TRUE(registry.ok()) << registry.status().message();
  nibble_request strict = fake::dequantize(NIBBLE_Q4_K, NIBBLE_U8);
  strict.dst.format = NIBBLE_F32;
  strict.weight.packed = make_tensor(nullptr, NIBBLE_Q4_K, {4096, 8}, {NIBBLE_DEVICE_CPU, 3});
  strict.dst = make_tensor(nullptr, NIBBLE_F32, {4096, 8}, {NIBBLE_DEVICE_CPU, 3});
  const auto plan = registry->plan(strict);
  EXPECT_EQ(plan.status().code(), NIBBLE_UNSUPPORTED);
  EXPECT_EQ(plan.status().message(),
            "no kernel for dequantize of q4_k to f32 on cpu: reference.dequantize.scalar is forced, but there is no "
            "device of that number");
}

#if defined(__x86_64__)
TEST(OverridesTest, AForcedInstructionSetThatIsNotOfferedIsNamed) {
  const Scoped set("NIBBLE_FORCE", "dequantize=cpu.dequantize.simd.avx512");
  const auto registry = Registry::create();
  ASSERT_TRUE(registry.ok()) << registry.status().message();
  const nibble_caps sse4 = fake::caps("cpu:sse4");
  const auto none = registry->explain(fake::dequantize(NIBBLE_Q4_K, NIBBLE_F32), &sse4);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->kernel, "");
  EXPECT_EQ(none->reason,
            "no kernel for dequantize of q4_k to f32 on cpu: cpu.dequantize.simd.avx512 is forced, but needs avx512, "
            "which this processor or its operating system does not offer");
}
#endif

TEST(OverridesTest, VariablesThatNothingReadsAreNoticed) {
  const auto before = Settings::unknown_variables();
  const Scoped slip("NIBBLE_THREAD", "2"), known("NIBBLE_THREADS", "2"), test("NIBBLE_TEST_REQUIRE", "cpu");
  auto expected = before;
  expected.emplace_back("NIBBLE_THREAD");
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(Settings::unknown_variables(), expected);
  EXPECT_TRUE(Registry::create().ok());
}

TEST(OverridesTest, ADisabledBackEndIsNeverOpened) {
  Settings settings;
  settings.disable = {"cpu"};
  auto registry = Registry::create(settings);
  ASSERT_TRUE(registry.ok()) << registry.status().message();
  bool seen = false;
  for (const PluginRecord& p : registry->plugins()) {
    if (p.backend != "cpu") continue;
    seen = true;
    EXPECT_FALSE(p.loaded);
    EXPECT_EQ(p.reason, "disabled by 'cpu'");
    EXPECT_EQ(p.abi_major, 0u);  // its query function was not called
  }
  EXPECT_TRUE(seen);
}

TEST(OverridesTest, ALaterRegistrySeesLaterValuesAndAnEarlierOneKeepsItsOwn) {
  const auto earlier = Registry::create();
  const std::string before = chosen(earlier);
  const Scoped set("NIBBLE_BACKEND", "reference");
  EXPECT_EQ(chosen(Registry::create()), "reference.dequantize.scalar");
  EXPECT_EQ(chosen(earlier), before);
}

TEST(OverridesTest, AnUnreadableFolderIsRecordedAndTheRestWorks) {
  const Scoped set("NIBBLE_PLUGIN_PATH", "/nonexistent/plugins");
  auto registry = Registry::create();
  ASSERT_TRUE(registry.ok());
  EXPECT_EQ(registry->plugins().front().path, "/nonexistent/plugins");
  EXPECT_EQ(registry->plugins().front().reason, "folder cannot be read: No such file or directory");
  EXPECT_EQ(chosen(registry).rfind("cpu.", 0), 0u);
}

}  // namespace
}  // namespace nibble
