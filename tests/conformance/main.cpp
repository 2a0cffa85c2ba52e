// nibble_conformance: every kernel's row on every device against the same cases.
// Apart from the suite because only here the environment is read.
//
//   NIBBLE_CONFORMANCE=reduced       fewer combinations, for sanitizers
//   NIBBLE_TEST_REQUIRE=cpu,cuda     fails where one of these back ends executed nothing
//   NIBBLE_TEST_DATA=DIR             holds golden/ and expected_failures.txt; without it, what was installed with this
//                                    program, or what it was built from
//   GTEST_TOTAL_SHARDS, GTEST_SHARD_INDEX   as everywhere, but a case's rows stay together
// Settings of the library (NIBBLE_BACKEND, NIBBLE_PLUGIN_PATH, ...) hold as everywhere.
#include "tests/conformance/suite.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::conformance {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::optional<std::size_t> number(const std::string& text) {
  std::size_t x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return x;
}

/// Takes GoogleTest's variables out of the environment, so that it runs all that is registered.
Result<Shard> take_shard() {
  constexpr const char *kCount = "GTEST_TOTAL_SHARDS", *kIndex = "GTEST_SHARD_INDEX";
  const std::string count = variable(kCount), index = variable(kIndex);
  if (count.empty() && index.empty()) return Shard{};
  const auto shards = number(count), own = number(index);
  if (!shards || !own || *own >= *shards) {
    return Status(NIBBLE_INVALID_ARGUMENT, fmt::format("{}='{}' and {}='{}': expected a number, and one below it",
                                                       kCount, count, kIndex, index));
  }
  unsetenv(kCount);
  unsetenv(kIndex);
  return Shard{*own, *shards};
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string data_folder() {
  if (std::string given = variable("NIBBLE_TEST_DATA"); !given.empty()) return given;
  std::error_code none;
  const auto installed =
      std::filesystem::read_symlink("/proc/self/exe", none).parent_path() / "../share/nibble/conformance";
  return std::filesystem::is_directory(installed, none) ? installed.string() : NIBBLE_TEST_DATA;
}

int fail(std::string_view why) {
  fmt::print(stderr, "nibble_conformance: {}\n", why);
  return 2;
}

int run(const std::string& program) {
  const std::string mode = variable("NIBBLE_CONFORMANCE");
  if (!mode.empty() && mode != "full" && mode != "reduced")
    return fail(fmt::format("NIBBLE_CONFORMANCE={}: expected full or reduced", mode));
  const std::string data = data_folder();
  auto expected = ExpectedFailures::read(data + "/expected_failures.txt");
  if (!expected) return fail(expected.status().message());
  const auto shard = take_shard();
  if (!shard) return fail(shard.status().message());
  const auto registry = Registry::create();
  if (!registry) return fail(registry.status().message());
  Suite suite(*registry, *expected, mode == "reduced", *shard, program);
  add_golden_cases(suite, data + "/golden");
  add_table_cases(suite);
  add_dequantize_cases(suite);
  add_out_prod_cases(suite);
  add_linear_cases(suite);
  add_workspace_cases(suite);
  add_determinism_cases(suite);
  const int result = RUN_ALL_TESTS();
  if (GTEST_FLAG_GET(list_tests)) return result;
  const Part part = GTEST_FLAG_GET(filter) != "*" ? Part::chosen : shard->count > 1 ? Part::shard : Part::all;
  return suite.summarize(split(variable("NIBBLE_TEST_REQUIRE")), part) ? result : 1;
}

}  // namespace
}  // namespace nibble::conformance

int main(int argc, char** argv) {
  try {
    GTEST_FLAG_SET(brief, true);  // tens of thousands of tests: --gtest_brief=0 lists them all
    const std::string program = argv[0];
    testing::InitGoogleTest(&argc, argv);
    return nibble::conformance::run(program);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nibble_conformance: %s\n", error.what());
    return 2;
  }
}
