// What the registry records of each way in which a plugin can be bad.
// Apart from the test so that the table reads beside bad_plugin.cpp's.
#ifndef NIBBLE_TESTS_PLUGINS_EXPECTED_H
#define NIBBLE_TESTS_PLUGINS_EXPECTED_H

#include <nibble/abi.h>

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::test {

/// A plugin of bad_plugin.cpp under the name of its fault, and what its record must say.
struct ExpectedRecord {
  const char* name;
  bool loaded;
  std::string reason;
};

inline std::string left_out(std::string_view fault) { return fmt::format("rows left out: {}", fault); }

inline std::vector<ExpectedRecord> expected_records() {
  const auto size = [](const char* thing, std::size_t given, std::size_t expected) {
    return fmt::format("{} has struct_size {}: expected at least {}", thing, given, expected);
  };
  const auto plugin_size = [&](std::size_t given) { return size("its nibble_plugin", given, sizeof(nibble_plugin)); };
  const char* thrown = "the plugin threw, which it must not: thrown on purpose";
  return {
      {"honest", true, ""},
      {"null_answer", false, "it does not speak ABI major 1"},
      {"other_major", false, "it speaks ABI 2.0: expected major 1"},
      {"newer_minor", true, ""},
      {"tiny", false, plugin_size(4)},
      {"shorter", false, plugin_size(sizeof(nibble_plugin) - 8)},
      {"longer", true, ""},
      {"foreign_name", false, "it calls itself 'cpu': expected 'foreign_name', as its file"},
      {"null_name", false, "it calls itself '': expected 'null_name', as its file"},
      {"null_version", true, ""},
      {"null_device_count", false, "it lacks device_count or device_caps"},
      {"null_device_caps", false, "it lacks device_count or device_caps"},
      {"null_kernels", false, "its list of kernels is null"},
      {"no_kernels", true, ""},
      {"endless_kernels", false, "it has 4611686018427387904 kernels: expected at most 65536"},
      {"endless_formats", true,
       left_out("endless_formats.dequantize.bad: 1152921504606846976 formats: expected at most 4096")},
      {"endless_types", true, left_out("endless_types.dequantize.bad: 65 types: expected at most 64")},
      {"null_allocate", false, "one of its memory functions is null"},
      {"short_memory", false, size("its nibble_memory", 16, sizeof(nibble_memory))},
      {"fails_in_open", false, "open failed (device error): no licence"},
      {"fails_in_open_in_silence", false, "open failed (out of memory): no reason given"},
      {"speaks_in_two_lines", false, "open failed (device error): the first"},
      {"speaks_in_colour", false, "open failed (device error): \\x1b[31mred"},
      {"odd_version", true, ""},
      {"null_row", true, left_out("a null row")},
      {"short_row", true, left_out(size("a row", offsetof(nibble_kernel, execute), sizeof(nibble_kernel)))},
      {"long_row", true, ""},
      {"nameless_row", true, left_out("a row without a name")},
      {"foreign_row", true, left_out("cpu.dequantize.simd.avx2: expected a name that begins with foreign_row.")},
      {"odd_row_name", true, left_out("a row whose name holds other than a-z, 0-9, '_' and '.'")},
      {"duplicate_row", true, left_out("duplicate_row.dequantize.good: a name that another row has")},
      {"unknown_op", true, left_out("unknown_op.dequantize.bad: op 77, which this version does not know")},
      {"unknown_tier", true, left_out("unknown_tier.dequantize.bad: tier 5: expected 1 to 4")},
      {"no_class", true, left_out("no_class.dequantize.bad: math 0: expected 1 (f32) to 3 (bf16)")},
      {"no_execute", true, left_out("no_execute.dequantize.bad: no execute function")},
      {"other_device_row", true, left_out("other_device_row.dequantize.bad: another device type than its plugin's")},
      {"null_formats", true, left_out("null_formats.dequantize.bad: a null list")},
      {"null_types", true, left_out("null_types.dequantize.bad: a null list")},
      {"throws_in_query", false, thrown},
      {"throws_a_number", false, "the plugin threw something that is not a std::exception, which it must not"},
      {"throws_in_open", false, fmt::format("open failed (internal error): {}", thrown)},
      {"throws_in_device_count", true, ""},
      {"throws_in_device_caps", true, ""},
      {"throws_in_supports", true, ""},
      {"throws_in_workspace_query", true, ""},
      {"odd_alignment", true, ""},
      {"endless_minimum", true, ""},
      {"least_above_best", true, ""},
      {"best_above_limit", true, ""},
      {"throws_in_execute", true, ""},
      {"throws_in_allocate", true, ""},
      {"throws_in_release", true, ""},
      {"null_device_1", true, ""},
      {"no_devices", true, ""},
      {"minus_one_device", true, ""},
      {"too_many_devices", true, ""},
      {"endless_text", true, ""},
      {"bare_hip", true, ""},
      {"hip_with_memory", true, ""},
      {"odd_memory", true, ""},
      {"broken_memory", true, ""},
      {"short_of_memory", true, ""},
      {"waits_for_its_end", true, ""},
  };
}

}  // namespace nibble::test

#endif
