// Values of every variable, of every kind: what is fine and what it sets, what is wrong and the words for it.
// Apart from the test so that the table is one page.
#ifndef NIBBLE_TESTS_UNIT_OVERRIDES_CASES_H
#define NIBBLE_TESTS_UNIT_OVERRIDES_CASES_H

#include <nibble/nibble.hpp>

#include <cstdint>
#include <utility>

namespace nibble::overrides {

enum class Kind : std::uint8_t { good, unknown, malformed, empty, contradictory };
inline constexpr Kind kKinds[] = {Kind::good, Kind::unknown, Kind::malformed, Kind::empty, Kind::contradictory};

/// A value of a variable. With `set` it is fine and says the same; else `message` is part of the error's line, which
/// names what is valid.
struct Case {
  const char* variable;
  Kind kind;
  const char* value;
  void (*set)(Settings&);
  const char* message;
  std::pair<const char*, const char*> beside = {"NIBBLE_EXPLAIN", "0"};  ///< another variable, to contradict
};

inline void nothing(Settings&) {}
inline constexpr const char* kMib = ": expected a whole number from 1 to 1099511627776";
inline constexpr const char* kThreads = ": expected a whole number from 1 to 65536";
inline constexpr const char* kOps = "expected OP=KERNEL, comma-separated, OP one of dequantize, out_prod, linear";

inline const Case kCases[] = {
    {"NIBBLE_BACKEND", Kind::good, "reference", [](Settings& s) { s.backends = {"reference"}; }, ""},
    {"NIBBLE_BACKEND", Kind::good, "reference,cpu",
     [](Settings& s) {
       s.backends = {"reference", "cpu"};
     },
     ""},
    {"NIBBLE_BACKEND", Kind::unknown, "metal", nullptr, "NIBBLE_BACKEND names 'metal': expected some of cpu, "},
    {"NIBBLE_BACKEND", Kind::unknown, "CPU", nullptr, "NIBBLE_BACKEND names 'CPU': expected some of cpu, "},
    {"NIBBLE_BACKEND", Kind::unknown, "me\n\x1b[1m", nullptr, "NIBBLE_BACKEND names 'me\\x0a\\x1b[1m': expected some"},
    {"NIBBLE_BACKEND", Kind::malformed, "cpu,", nullptr,
     "NIBBLE_BACKEND=cpu,: expected names of back ends as 'nibble info' lists them, comma-separated"},
    {"NIBBLE_BACKEND", Kind::empty, "", nothing, ""},
    {"NIBBLE_BACKEND", Kind::contradictory, "cpu,cpu", nullptr, "NIBBLE_BACKEND names 'cpu' twice: expected once"},
    {"NIBBLE_BACKEND",
     Kind::contradictory,
     "reference,cpu",
     nullptr,
     "back end 'cpu' is asked for by NIBBLE_BACKEND and disabled by 'cpu.*': expected one of the two",
     {"NIBBLE_DISABLE", "cpu.*"}},

    {"NIBBLE_FORCE", Kind::good, "dequantize=reference.dequantize.scalar",
     [](Settings& s) {
       s.force = {{"dequantize", "reference.dequantize.scalar"}};
     },
     ""},
    {"NIBBLE_FORCE", Kind::unknown, "softmax=x", nullptr,
     "NIBBLE_FORCE names operation 'softmax': expected one of dequantize, out_prod, linear"},
    {"NIBBLE_FORCE", Kind::unknown, "soft\nmax=x", nullptr, "NIBBLE_FORCE names operation 'soft\\x0amax': expected"},
    {"NIBBLE_FORCE", Kind::unknown, "dequantize=\n", nullptr, "NIBBLE_FORCE names kernel '\\x0a' for dequantize: "},
    {"NIBBLE_FORCE", Kind::unknown, "dequantize=nothing", nullptr,
     "NIBBLE_FORCE names kernel 'nothing' for dequantize: expected one of cpu.dequantize.simd."},
    {"NIBBLE_FORCE", Kind::unknown, "dequantize=reference.linear.scalar", nullptr,
     "NIBBLE_FORCE names kernel 'reference.linear.scalar' for dequantize: expected one of cpu.dequantize.simd."},
    {"NIBBLE_FORCE", Kind::malformed, "dequantize", nullptr, kOps},
    {"NIBBLE_FORCE", Kind::malformed, "=x", nullptr, kOps},
    {"NIBBLE_FORCE", Kind::malformed, "dequantize=", nullptr, kOps},
    {"NIBBLE_FORCE", Kind::malformed, "dequantize=x,", nullptr, kOps},
    {"NIBBLE_FORCE", Kind::empty, "", nothing, ""},
    {"NIBBLE_FORCE", Kind::contradictory, "linear=reference.linear.scalar,linear=cpu.linear.panels.portable", nullptr,
     "NIBBLE_FORCE names operation 'linear' twice: expected once"},
    {"NIBBLE_FORCE",
     Kind::contradictory,
     "dequantize=reference.dequantize.scalar",
     nullptr,
     "kernel 'reference.dequantize.scalar' is both forced and disabled: expected one of the two",
     {"NIBBLE_DISABLE", "reference.*.scalar"}},
    {"NIBBLE_FORCE",
     Kind::contradictory,
     "dequantize=cpu.dequantize.simd.portable",
     nullptr,
     "names kernel 'cpu.dequantize.simd.portable' for dequantize: expected one of reference.dequantize.scalar",
     {"NIBBLE_BACKEND", "reference"}},

    {"NIBBLE_DISABLE", Kind::good, "cpu", [](Settings& s) { s.disable = {"cpu"}; }, ""},
    {"NIBBLE_DISABLE", Kind::good, "cpu.*", [](Settings& s) { s.disable = {"cpu.*"}; }, ""},
    {"NIBBLE_DISABLE", Kind::good, "*.dequantize.simd.*,reference.linear.scalar",
     [](Settings& s) {
       s.disable = {"*.dequantize.simd.*", "reference.linear.scalar"};
     },
     ""},
    {"NIBBLE_DISABLE", Kind::unknown, "cpu.nothing.*", nullptr,
     "NIBBLE_DISABLE names 'cpu.nothing.*', which matches nothing: expected a back end or one of cpu."},
    {"NIBBLE_DISABLE", Kind::unknown, "\t", nullptr, "NIBBLE_DISABLE names '\\x09', which matches nothing: expected"},
    {"NIBBLE_DISABLE", Kind::malformed, ",", nullptr,
     "NIBBLE_DISABLE=,: expected globs of kernels or back ends as 'nibble info' lists them, comma-separated"},
    {"NIBBLE_DISABLE", Kind::empty, "", nothing, ""},
    {"NIBBLE_DISABLE",
     Kind::contradictory,
     "*",
     nullptr,
     "back end 'reference' is asked for by NIBBLE_BACKEND and disabled by '*': expected one of the two",
     {"NIBBLE_BACKEND", "reference"}},

    {"NIBBLE_PLUGIN_PATH", Kind::good, "/tmp:/",
     [](Settings& s) {
       s.plugin_path = {"/tmp", "/"};
     },
     ""},
    {"NIBBLE_PLUGIN_PATH", Kind::unknown, "/nonexistent", [](Settings& s) { s.plugin_path = {"/nonexistent"}; }, ""},
    {"NIBBLE_PLUGIN_PATH", Kind::malformed, "a::b", nullptr,
     "NIBBLE_PLUGIN_PATH=a::b: expected folders, separated by colons"},
    {"NIBBLE_PLUGIN_PATH", Kind::empty, "", nothing, ""},
    {"NIBBLE_PLUGIN_PATH", Kind::contradictory, "/tmp:/tmp",
     [](Settings& s) {
       s.plugin_path = {"/tmp", "/tmp"};
     },
     ""},

    {"NIBBLE_WORKSPACE_MIB", Kind::good, "64", [](Settings& s) { s.workspace_mib = 64; }, ""},
    {"NIBBLE_WORKSPACE_MIB", Kind::unknown, "lots", nullptr, kMib},
    {"NIBBLE_WORKSPACE_MIB", Kind::malformed, "0", nullptr, kMib},
    {"NIBBLE_WORKSPACE_MIB", Kind::malformed, "12x", nullptr, kMib},
    {"NIBBLE_WORKSPACE_MIB", Kind::malformed, "1099511627777", nullptr, kMib},
    {"NIBBLE_WORKSPACE_MIB", Kind::malformed, "99999999999999999999", nullptr, kMib},
    {"NIBBLE_WORKSPACE_MIB", Kind::empty, "", nullptr, kMib},
    {"NIBBLE_WORKSPACE_MIB", Kind::contradictory, "1,2", nullptr, kMib},

    {"NIBBLE_MATH", Kind::good, "f32", [](Settings& s) { s.math = NIBBLE_MATH_F32; }, ""},
    {"NIBBLE_MATH", Kind::unknown, "fp8", nullptr, "NIBBLE_MATH=fp8: expected f32, tf32 or bf16"},
    {"NIBBLE_MATH", Kind::malformed, " f32", nullptr, "NIBBLE_MATH= f32: expected f32, tf32 or bf16"},
    {"NIBBLE_MATH", Kind::malformed, "\rf32", nullptr, "NIBBLE_MATH=\\x0df32: expected f32, tf32 or bf16"},
    {"NIBBLE_MATH", Kind::malformed, "default", nullptr, "NIBBLE_MATH=default: expected f32, tf32 or bf16"},
    {"NIBBLE_MATH", Kind::empty, "", nullptr, "NIBBLE_MATH=: expected f32, tf32 or bf16"},
    {"NIBBLE_MATH", Kind::contradictory, "f32,tf32", nullptr, "NIBBLE_MATH=f32,tf32: expected f32, tf32 or bf16"},

    {"NIBBLE_THREADS", Kind::good, "2", [](Settings& s) { s.threads = 2; }, ""},
    {"NIBBLE_THREADS", Kind::unknown, "all", nullptr, kThreads},
    {"NIBBLE_THREADS", Kind::malformed, "-1", nullptr, kThreads},
    {"NIBBLE_THREADS", Kind::malformed, "0", nullptr, kThreads},
    {"NIBBLE_THREADS", Kind::malformed, "65537", nullptr, kThreads},
    {"NIBBLE_THREADS", Kind::empty, "", nullptr, kThreads},
    {"NIBBLE_THREADS", Kind::contradictory, "1,2", nullptr, kThreads},

    {"NIBBLE_EXPLAIN", Kind::good, "1", [](Settings& s) { s.explain = true; }, ""},
    {"NIBBLE_EXPLAIN", Kind::good, "0", nothing, ""},
    {"NIBBLE_EXPLAIN", Kind::unknown, "yes", nullptr, "NIBBLE_EXPLAIN=yes: expected 0 or 1"},
    {"NIBBLE_EXPLAIN", Kind::malformed, "01", nullptr, "NIBBLE_EXPLAIN=01: expected 0 or 1"},
    {"NIBBLE_EXPLAIN", Kind::empty, "", nullptr, "NIBBLE_EXPLAIN=: expected 0 or 1"},
    {"NIBBLE_EXPLAIN", Kind::contradictory, "0,1", nullptr, "NIBBLE_EXPLAIN=0,1: expected 0 or 1"},
};

}  // namespace nibble::overrides

#endif
