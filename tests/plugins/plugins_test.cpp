// Plugins that are bad on purpose: each is recorded with its reason, the rest works, and nothing takes the process
// down. Apart from the registry's own tests because these load foreign code through the public interface.
#include <nibble/nibble.hpp>

#include "tests/plugins/expected.h"
#include "tests/plugins/fixture.h"
#include "tests/support/sanitized.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

namespace nibble {
namespace {

using test::Decode;
using test::expected_records;
using test::ExpectedRecord;
using test::find;
using test::kSanitized;
using test::PluginsTest;
using test::reason_of;
namespace fs = std::filesystem;

void expect_the_rest_works(const Registry& registry) {
  Decode d;
  EXPECT_EQ(registry.run(d.request).message(), "");
  EXPECT_EQ(d.out[31], 2.0f);
}

/// DLPack's number of a device type that no back end here serves.
constexpr nibble_device_type kVulkan = 7;

/// What this build finds without a folder of the test's: cpu, reference, and the GPUs' where their compilers were.
std::size_t own_plugins() { return Registry::create().value().plugins().size(); }

TEST_F(PluginsTest, EachIsRecordedWithItsReasonAndTheRestWorks) {
  const std::vector<ExpectedRecord> all = expected_records();
  for (const ExpectedRecord& e : all) add(e.name);
  const Registry registry = loaded();
  for (const ExpectedRecord& e : all) {
    const PluginRecord* p = find(registry, e.name);
    ASSERT_NE(p, nullptr) << e.name;
    EXPECT_EQ(p->loaded, e.loaded) << e.name << ": " << p->reason;
    EXPECT_EQ(p->reason, e.reason) << e.name;
    // A bad row takes no good one with it.
    const std::string row = std::string(e.name) + ".dequantize.good";
    const bool runs = e.loaded && p->device_type == NIBBLE_DEVICE_CPU && e.name != std::string("no_kernels") &&
                      !std::string_view(e.name).starts_with("throws_in_device");
    EXPECT_EQ(Decode().run(registry, row) == "1", runs) << row << ": " << Decode().run(registry, row);
  }
  EXPECT_EQ(find(registry, "newer_minor")->abi_minor, 7u);
  EXPECT_EQ(find(registry, "odd_version")->version, "1\\x0a2");
  EXPECT_EQ(registry.plugins().size(), all.size() + own_plugins()) << "expected the bad ones and this build's";
  expect_the_rest_works(registry);
}

TEST_F(PluginsTest, AnExceptionOutOfAKernelIsAStatus) {
  for (const char* name : {"throws_in_supports", "throws_in_workspace_query", "throws_in_execute"}) add(name);
  const Registry registry = loaded();
  const std::string thrown = "the plugin threw, which it must not: thrown on purpose";
  EXPECT_EQ(
      Decode().run(registry, "throws_in_supports.dequantize.bad"),
      "no kernel for dequantize of q8_0 to f32 on cpu: throws_in_supports.dequantize.bad is forced, but " + thrown);
  EXPECT_EQ(Decode().run(registry, "throws_in_workspace_query.dequantize.bad"),
            "throws_in_workspace_query.dequantize.bad: " + thrown);
  EXPECT_EQ(Decode().run(registry, "throws_in_execute.dequantize.bad"), "throws_in_execute.dequantize.bad: " + thrown);
}

TEST_F(PluginsTest, APlanIsNotRunOnOtherTerms) {
  const Registry registry = loaded();
  Decode d;
  const auto plan = registry.plan(d.request);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  nibble_request other = d.request;
  other.threads = 1234567;
  EXPECT_NE(plan->run(other).message().find("1234567 threads"), std::string::npos) << plan->run(other).message();
  other.threads = plan->request().threads;
  EXPECT_EQ(plan->run(other).message(), "");
}

TEST_F(PluginsTest, WorkspacesAreWhatCanBeHad) {
  for (const char* name : {"odd_alignment", "endless_minimum", "least_above_best", "best_above_limit"}) add(name);
  const Registry registry = loaded();
  EXPECT_EQ(Decode().run(registry, "odd_alignment.dequantize.bad"),
            "odd_alignment.dequantize.bad asks for a workspace aligned to 96: expected a power of two up to 1048576");
  EXPECT_EQ(Decode().run(registry, "endless_minimum.dequantize.bad"),
            "endless_minimum.dequantize.bad asks for 18446744073709551615 bytes of workspace at least: expected "
            "72057594037927936 at most");
  const nibble_request request = Decode().request;
  for (const char* row : {"least_above_best.dequantize.bad", "best_above_limit.dequantize.bad"}) {
    const auto plan = registry.plan(request, row);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_GE(plan->workspace().bytes, plan->workspace().minimum_bytes);
    Decode d;
    EXPECT_EQ(plan->run(d.request).message(), "") << row;
  }
}

TEST_F(PluginsTest, AnExceptionOutOfMemoryFunctionsIsAStatus) {
  add("throws_in_allocate");
  add("throws_in_release");
  const Device hip{NIBBLE_DEVICE_HIP, 0};
  Settings s;
  s.plugin_path = {path("")};
  const std::int64_t shape[] = {4};
  s.backends = {"throws_in_allocate"};
  const auto allocates = Registry::create(s);
  EXPECT_EQ(OwnedTensor::allocate(*allocates, NIBBLE_F32, shape, hip).status().message(),
            "64 bytes on hip:0: the plugin threw, which it must not: thrown on purpose");
  s.backends = {"throws_in_release"};
  const auto releases = Registry::create(s);
  EXPECT_EQ(OwnedTensor::allocate(*releases, NIBBLE_F32, shape, hip).status().message(), "");  // released here
}

TEST_F(PluginsTest, ABadDeviceLeavesTheOthersUsable) {
  for (const char* name : {"null_device_1", "no_devices", "minus_one_device", "too_many_devices", "endless_text",
                           "throws_in_device_count", "throws_in_device_caps"}) {
    add(name);
  }
  std::map<std::string, std::vector<std::string>> reasons;
  const Registry registry = loaded();
  for (const DeviceRecord& d : registry.devices()) {
    reasons[std::string(d.backend)].push_back(d.reason);
    EXPECT_LT(strnlen(d.caps.arch, sizeof d.caps.arch), sizeof d.caps.arch) << d.backend;
    EXPECT_LT(strnlen(d.caps.name, sizeof d.caps.name), sizeof d.caps.name) << d.backend;
    if (d.backend != "endless_text") continue;
    EXPECT_EQ(std::string_view(d.caps.arch).substr(0, 5), "aaa?a");
    EXPECT_EQ(std::string_view(d.caps.name).substr(0, 7), "bbbbb?b");
    EXPECT_EQ(d.caps.struct_size, sizeof d.caps);
  }
  const auto only = [](const char* reason) { return std::vector<std::string>{reason}; };
  const char* thrown = "the plugin threw, which it must not: thrown on purpose";
  EXPECT_EQ(reasons["null_device_1"], (std::vector<std::string>{"", "it fell off the bus", ""}));
  EXPECT_EQ(reasons["no_devices"], only("no driver"));
  EXPECT_EQ(reasons["minus_one_device"], only("it reports no devices"));
  EXPECT_EQ(reasons["too_many_devices"], only("it reports 2147483647 devices: expected at most 1024"));
  EXPECT_EQ(reasons["throws_in_device_count"], only(thrown));
  EXPECT_EQ(reasons["throws_in_device_caps"], only(thrown));
  expect_the_rest_works(registry);
}

TEST_F(PluginsTest, FilesThatAreNoPlugins) {
  for (const char* name : {"nibble_no_query", "nibble_lacks_library", "nibble_lacks_symbol"}) add_built(name);
  std::ofstream(path("nibble_text.so")) << std::string(4096, 'x');  // longer than an ELF header
  std::ofstream(path("nibble_empty.so")) << "";
  for (const auto& [name, bytes] : {std::pair{"nibble_cut", 3000}, {"nibble_cut_header", 80}}) {
    fs::copy_file(fs::path(NIBBLE_BAD_PLUGINS) / "nibble_no_query.so", path(name + std::string(".so")));
    fs::resize_file(path(name + std::string(".so")), bytes);  // dlopen would read beyond it: a bus error
  }
  std::ofstream(path("nibble_.so")) << "";            // no name: not looked at
  std::ofstream(path("libnibble_other.so.1")) << "";  // neither
  for (const char* name : {"nibble_a.b.so", "nibble_a\nb.so", "nibble_reference.so"})
    std::ofstream(path(name)) << "never opened";
  fs::create_directory(path("nibble_folder.so"));
  fs::create_symlink("nibble_loop.so", path("nibble_loop.so"));
  fs::create_symlink("gone", path("nibble_dangling.so"));
  ASSERT_EQ(mkfifo(path("nibble_pipe.so").c_str(), 0600), 0);  // dlopen would wait for a writer
  const Registry registry = loaded();
  const std::pair<const char*, const char*> expected[] = {
      {"no_query", "it has no symbol nibble_plugin_query"},
      {"lacks_library", "libnibble_test_absent.so: cannot open shared object file"},
      {"lacks_symbol", "undefined symbol: absent_function"},
      {"text", "invalid ELF header"},
      {"empty", "file too short"},
      {"cut", "it is cut off: 3000 bytes, and its program header maps "},
      {"cut_header", "it is cut off: 80 bytes end within its program header"},
      {"folder", "it is not a regular file"},
      {"loop", "it cannot be read: Too many levels of symbolic links"},
      {"dangling", "it cannot be read: No such file or directory"},
      {"pipe", "it is not a regular file"},
      {"a\nb", "its name holds other than a-z, 0-9 and '_'"},
      {"a.b", "its name holds a '.', which ends a back end's name in a kernel's"},
      {"reference", "the name 'reference' is the library's own"}};
  for (const auto& [backend, reason] : expected) {
    EXPECT_NE(reason_of(registry, backend).find(reason), std::string::npos)
        << backend << ": " << reason_of(registry, backend);
  }
  EXPECT_EQ(registry.plugins().size(), std::size(expected) + own_plugins());
  expect_the_rest_works(registry);
}

TEST_F(PluginsTest, FoldersThatCannotBeRead) {
  std::ofstream(path("file")) << "";
  fs::create_symlink("loop", path("loop"));
  fs::create_directory(path("closed"));
  fs::permissions(path("closed"), fs::perms::none);
  const bool root = geteuid() == 0;  // who may read everything
  ASSERT_EQ(root ? seteuid(65534) : 0, 0);
  const auto registry = load({path("missing"), path("file"), path("loop"), path("closed")});
  ASSERT_EQ(root ? seteuid(0) : 0, 0);
  ASSERT_TRUE(registry.ok()) << registry.status().message();
  const auto plugins = registry->plugins();
  ASSERT_GE(plugins.size(), 4u);
  EXPECT_EQ(plugins[0].reason, "folder cannot be read: No such file or directory");
  EXPECT_EQ(plugins[1].reason, "folder cannot be read: Not a directory");
  EXPECT_EQ(plugins[2].reason, "folder cannot be read: Too many levels of symbolic links");
  EXPECT_EQ(plugins[3].reason, "folder cannot be read: Permission denied");
  Decode d;
  EXPECT_EQ(registry->run(d.request).message(), "");
}

TEST_F(PluginsTest, TheFirstFolderWinsAndTheOtherSaysSo) {
  add("honest");
  fs::create_directory(path("second"));
  fs::copy_file(path("nibble_honest.so"), path("second/nibble_honest.so"));
  const Registry registry = loaded({path("second"), path("")});
  ASSERT_GE(registry.plugins().size(), 2u);
  EXPECT_TRUE(registry.plugins()[0].loaded);
  EXPECT_EQ(registry.plugins()[1].backend, "honest");
  EXPECT_EQ(registry.plugins()[1].reason, "shadowed by " + path("second/nibble_honest.so"));
  EXPECT_EQ(Decode().run(registry, "honest.dequantize.good"), "1");
}

TEST_F(PluginsTest, AFolderWithControlCharactersStaysOutOfTheLines) {
  const std::string folder = path("two\nlines"), missing = path("gone\n");
  fs::create_directory(folder);
  add("honest");
  fs::rename(path("nibble_honest.so"), folder + "/nibble_honest.so");
  add("honest");
  std::ofstream(folder + "/nibble_empty.so") << "";
  const Registry registry = loaded({missing, folder, path("")});
  for (const PluginRecord& p : registry.plugins()) EXPECT_EQ(p.reason.find('\n'), std::string::npos) << p.reason;
  EXPECT_EQ(reason_of(registry, "empty"), "file too short");
  nibble_request foreign = Decode().request;
  foreign.weight.packed.device_type = foreign.dst.device_type = kVulkan;
  const std::string none = registry.run(foreign).message();
  EXPECT_NE(none.find("gone\\x0a (folder cannot be read"), std::string::npos) << none;
  EXPECT_EQ(none.find('\n'), std::string::npos) << none;
}

TEST_F(PluginsTest, TenThousandFiles) {
  constexpr std::size_t kFiles = kSanitized ? 1000 : 10000;
  for (std::size_t i = 0; i < kFiles; ++i) std::ofstream(path(fmt::format("nibble_n{}.so", i))) << "no library";
  add("honest");
  const Registry registry = loaded();
  EXPECT_EQ(registry.plugins().size(), kFiles + 1 + own_plugins());
  EXPECT_EQ(Decode().run(registry, "honest.dequantize.good"), "1");
  expect_the_rest_works(registry);
  // A message names a few of them.
  nibble_request foreign = Decode().request;
  foreign.weight.packed.device_type = foreign.dst.device_type = kVulkan;
  const std::string none = registry.run(foreign).message();
  EXPECT_NE(none.find(fmt::format("; and {} more", kFiles - 8)), std::string::npos) << none.substr(0, 2000);
  EXPECT_LT(none.size(), 4096u);
}

TEST_F(PluginsTest, HelpersOfTheSameNameDoNotMix) {
  add_built("nibble_twin_a");
  add_built("nibble_twin_b");
  const Registry registry = loaded();
  EXPECT_EQ(Decode().run(registry, "twin_a.dequantize.helper"), "1");
  EXPECT_EQ(Decode().run(registry, "twin_b.dequantize.helper"), "2");
  EXPECT_EQ(Decode().run(registry, "twin_a.dequantize.helper"), "1");
}

/// Whether the file is part of this process.
bool is_mapped(const std::string& file) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with(file)) return true;
  }
  return false;
}

TEST_F(PluginsTest, WhatIsDisabledIsNeverOpened) {
  add("kept_out");  // a name of its own: what was once loaded stays
  Settings s;
  s.plugin_path = {path("")};
  for (const auto& spoil :
       {+[](Settings& t) { t.disable = {"kept_out"}; }, +[](Settings& t) { t.disable = {"kept*"}; },
        +[](Settings& t) { t.disable = {"kept[\t_]out"}; }, +[](Settings& t) { t.disable = {"kept_out.*"}; },
        +[](Settings& t) { t.backends = {"cpu"}; }}) {
    Settings without = s;
    spoil(without);
    const auto registry = Registry::create(without);
    ASSERT_TRUE(registry.ok()) << registry.status().message();
    EXPECT_FALSE(find(*registry, "kept_out")->loaded);
    EXPECT_EQ(reason_of(*registry, "kept_out").find('\t'), std::string::npos) << reason_of(*registry, "kept_out");
    EXPECT_FALSE(is_mapped(path("nibble_kept_out.so"))) << find(*registry, "kept_out")->reason;
  }
  ASSERT_TRUE(find(*Registry::create(s), "kept_out")->loaded);
  EXPECT_TRUE(is_mapped(path("nibble_kept_out.so")));
}

std::size_t resident_bytes() {
  std::size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST_F(PluginsTest, LoadingAThousandTimesDoesNotGrowTheProcess) {
  for (const ExpectedRecord& e : expected_records()) add(e.name);
  for (const char* name : {"nibble_no_query", "nibble_lacks_library"}) add_built(name);
  const auto make = [&](int times) {
    for (int i = 0; i < times; ++i) {
      const Registry registry = loaded();
      Decode d;
      ASSERT_EQ(registry.run(d.request).message(), "");
      ASSERT_FALSE(registry.devices().empty());
    }
  };
  make(kSanitized ? 5 : 100);
  const std::size_t before = resident_bytes();
  make(kSanitized ? 10 : 1000);
  const std::size_t after = resident_bytes();
  // Sanitizers keep what is freed for a while.
  const std::size_t most = before + (kSanitized ? std::size_t{256} << 20 : std::size_t{1} << 20);
  EXPECT_LT(after, most) << before << " -> " << after;
}

}  // namespace
}  // namespace nibble
