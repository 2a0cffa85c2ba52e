// Every environment variable x {good, unknown, malformed, empty, contradictory}, and that the API's settings do the
// same. Apart from the selection tests because these go through real registries and the process's environment.
#include <nibble/nibble.hpp>

#include "tests/unit/fake.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace nibble {
namespace {

/// Sets a variable for one test.
class Scoped {
 public:
  Scoped(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;
  ~Scoped() { unsetenv(name_); }

 private:
  const char* name_;
};

std::string error_of(const char* name, const char* value) {
  const Scoped set(name, value);
  return Registry::create().status().message();
}

std::string chosen(const Result<Registry>& registry) {
  if (!registry) return registry.status().message();
  return registry->explain(fake::dequantize(NIBBLE_Q4_K, NIBBLE_F32))->kernel;
}

TEST(OverridesTest, MalformedValuesNameTheVariableTheValueAndWhatIsExpected) {
  const struct {
    const char *name, *value, *message;
  } cases[] = {
      {"NIBBLE_WORKSPACE_MIB", "0", "NIBBLE_WORKSPACE_MIB=0: expected a whole number from 1 to 1099511627776"},
      {"NIBBLE_WORKSPACE_MIB", "12x", "NIBBLE_WORKSPACE_MIB=12x: expected a whole number from 1 to 1099511627776"},
      {"NIBBLE_WORKSPACE_MIB", "", "NIBBLE_WORKSPACE_MIB=: expected a whole number from 1 to 1099511627776"},
      {"NIBBLE_THREADS", "-1", "NIBBLE_THREADS=-1: expected a whole number from 1 to 65536"},
      {"NIBBLE_MATH", "fp8", "NIBBLE_MATH=fp8: expected f32, tf32 or bf16"},
      {"NIBBLE_MATH", "", "NIBBLE_MATH=: expected f32, tf32 or bf16"},
      {"NIBBLE_EXPLAIN", "yes", "NIBBLE_EXPLAIN=yes: expected 0 or 1"},
      {"NIBBLE_FORCE", "dequantize", "NIBBLE_FORCE=dequantize: expected OP=KERNEL, comma-separated, each op once"},
      {"NIBBLE_FORCE", "=x", "NIBBLE_FORCE==x: expected OP=KERNEL, comma-separated, each op once"},
      {"NIBBLE_BACKEND", "cpu,", "NIBBLE_BACKEND=cpu,: expected names of back ends, comma-separated"},
      {"NIBBLE_DISABLE", ",", "NIBBLE_DISABLE=,: expected globs of kernels or back ends, comma-separated"},
      {"NIBBLE_PLUGIN_PATH", "a::b", "NIBBLE_PLUGIN_PATH=a::b: expected folders, separated by colons"},
  };
  for (const auto& c : cases) EXPECT_EQ(error_of(c.name, c.value), c.message) << c.name << "=" << c.value;
}

TEST(OverridesTest, UnknownNamesListTheValidOnes) {
  EXPECT_NE(error_of("NIBBLE_BACKEND", "metal").find("NIBBLE_BACKEND names 'metal': expected some of cpu,"),
            std::string::npos);
  EXPECT_NE(error_of("NIBBLE_DISABLE", "cpu.nothing.*").find("matches nothing: expected a back end or one of"),
            std::string::npos);
  EXPECT_EQ(error_of("NIBBLE_FORCE", "softmax=x"),
            "NIBBLE_FORCE names operation 'softmax': expected one of dequantize, out_prod, linear");
  const std::string kernel = error_of("NIBBLE_FORCE", "dequantize=nothing");
  EXPECT_NE(kernel.find("names kernel 'nothing' for dequantize: expected one of"), std::string::npos) << kernel;
  EXPECT_NE(kernel.find("reference.dequantize.scalar"), std::string::npos) << kernel;
  EXPECT_EQ(kernel.find("reference.out_prod.scalar"), std::string::npos) << kernel;
}

TEST(OverridesTest, ContradictionsAreErrors) {
  const Scoped disable("NIBBLE_DISABLE", "reference.*.scalar");
  EXPECT_EQ(error_of("NIBBLE_FORCE", "dequantize=reference.dequantize.scalar"),
            "kernel 'reference.dequantize.scalar' is both forced and disabled: expected one of the two");
  EXPECT_EQ(error_of("NIBBLE_FORCE", "linear=cpu.linear.panels.portable,linear=cpu.linear.panels.portable"),
            "NIBBLE_FORCE names operation 'linear' twice: expected once");
}

TEST(OverridesTest, VariablesAndSettingsGiveTheSameChoice) {
  const struct {
    const char *name, *value;
    void (*set)(Settings&);
    const char* expected;
  } cases[] = {
      {"NIBBLE_FORCE", "dequantize=reference.dequantize.scalar",
       [](Settings& s) {
         s.force = {{"dequantize", "reference.dequantize.scalar"}};
       },
       "reference.dequantize.scalar"},
      {"NIBBLE_BACKEND", "reference", [](Settings& s) { s.backends = {"reference"}; }, "reference.dequantize.scalar"},
      {"NIBBLE_DISABLE", "cpu", [](Settings& s) { s.disable = {"cpu"}; }, "reference.dequantize.scalar"},
      {"NIBBLE_DISABLE", "cpu.*", [](Settings& s) { s.disable = {"cpu.*"}; }, "reference.dequantize.scalar"},
      {"NIBBLE_DISABLE", "*.dequantize.simd.*", [](Settings& s) { s.disable = {"*.dequantize.simd.*"}; },
       "reference.dequantize.scalar"},
  };
  const std::string usual = chosen(Registry::create());
  EXPECT_EQ(usual.rfind("cpu.dequantize.simd.", 0), 0u) << usual;
  for (const auto& c : cases) {
    Settings settings;
    c.set(settings);
    EXPECT_EQ(chosen(Registry::create(settings)), c.expected) << c.name;
    const Scoped set(c.name, c.value);
    EXPECT_EQ(chosen(Registry::create()), c.expected) << c.name;
  }
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

TEST(OverridesTest, ALaterRegistrySeesLaterValues) {
  const std::string before = chosen(Registry::create());
  const Scoped set("NIBBLE_BACKEND", "reference");
  EXPECT_NE(chosen(Registry::create()), before);
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
