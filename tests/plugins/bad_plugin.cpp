// A plugin that is bad in one way, which the name of its file tells: nibble_null_row.so has a null row.
// Apart from the test so that it stands where a plugin does; one file for all ways, so that the test copies what it
// needs.
#include <nibble/abi.h>

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace {

[[noreturn]] void throw_words() { throw std::runtime_error("thrown on purpose"); }

nibble_status say(nibble_status status, nibble_text* why, const char* words) {
  if (why != nullptr && why->capacity > std::strlen(words)) std::strcpy(why->data, words);
  return status;
}

template <std::uint64_t kBytes, std::uint64_t kLeast, std::uint64_t kAlignment>
nibble_status asks(const nibble_kernel*, const nibble_caps*, const nibble_request*, nibble_workspace_need* need,
                   nibble_text*) {
  need->bytes = kBytes;
  need->minimum_bytes = kLeast;
  need->alignment = kAlignment;
  return NIBBLE_OK;
}

nibble_status one_device(std::int32_t* out, nibble_text*) {
  *out = 1;
  return NIBBLE_OK;
}
nibble_status three_devices(std::int32_t* out, nibble_text*) {
  *out = 3;
  return NIBBLE_OK;
}

nibble_status caps(std::int32_t, nibble_caps* out, nibble_text*) {
  out->lanes = out->processors = 1;
  out->isa = NIBBLE_ISA_PORTABLE;
  std::strcpy(out->arch, "portable");
  std::strcpy(out->name, "bad on purpose");
  return NIBBLE_OK;
}

/// Writes 1 to every element of a contiguous f32 dst.
nibble_status ones(const nibble_kernel*, const nibble_caps*, const nibble_request* r, void*, std::uint64_t, void*,
                   nibble_text*) {
  auto* out = reinterpret_cast<float*>(static_cast<char*>(r->dst.data) + r->dst.byte_offset);
  for (std::int64_t i = 0; i < r->dst.shape[0] * r->dst.shape[1]; ++i) out[i] = 1.0f;
  return NIBBLE_OK;
}

nibble_status allocate(std::int32_t, std::uint64_t bytes, void*, void** out, nibble_text*) {
  *out = new char[bytes];
  return NIBBLE_OK;
}
nibble_status release(std::int32_t, void* data, void*, nibble_text*) {
  delete[] static_cast<char*>(data);
  return NIBBLE_OK;
}
std::atomic<int> odd_pieces = 0;

/// Memory that lies 8 bytes behind a place aligned to 4096.
nibble_status allocate_oddly(std::int32_t, std::uint64_t bytes, void*, void** out, nibble_text*) {
  *out = static_cast<char*>(std::aligned_alloc(4096, (bytes + 8 + 4095) / 4096 * 4096)) + 8;
  ++odd_pieces;
  return NIBBLE_OK;
}
nibble_status release_oddly(std::int32_t, void* data, void*, nibble_text*) {
  std::free(static_cast<char*>(data) - 8);
  --odd_pieces;
  return NIBBLE_OK;
}
nibble_status move(std::int32_t, void* to, const void* from, std::uint64_t bytes, void*, nibble_text*) {
  std::memcpy(to, from, bytes);
  return NIBBLE_OK;
}
nibble_status wait(std::int32_t, void*, nibble_text*) { return NIBBLE_OK; }
nibble_status make_stream(std::int32_t, void** out, nibble_text*) {
  *out = nullptr;
  return NIBBLE_OK;
}

/// Writes over all of its workspace, which must be aligned to 4096 and come from allocate_oddly.
nibble_status in_own_memory(const nibble_kernel*, const nibble_caps*, const nibble_request*, void* workspace,
                            std::uint64_t bytes, void*, nibble_text* why) {
  if (odd_pieces != 1 || bytes < 1000 || reinterpret_cast<std::uintptr_t>(workspace) % 4096 != 0)
    return say(NIBBLE_INTERNAL, why, "a workspace that was not asked for");
  std::memset(workspace, 1, bytes);
  return NIBBLE_OK;
}

constexpr nibble_format kFormats[] = {NIBBLE_Q8_0}, kTypes[] = {NIBBLE_F32};

/// All of a plugin, good until a fault changes it: two rows, of which the first stays good.
struct Parts {
  std::string name, good_name, bad_name;
  nibble_kernel good{}, bad{};
  const nibble_kernel* rows[3] = {&good, &bad, &good};
  nibble_memory memory{sizeof memory, 0, allocate, release, move, move, wait, make_stream, wait_stream};
  nibble_plugin plugin{};
  bool silent = false;  ///< the query answers NULL

  static nibble_status wait_stream(std::int32_t, void*, nibble_text*) { return NIBBLE_OK; }

  explicit Parts(std::string from) : name(std::move(from)) {
    good_name = name + ".dequantize.good";
    bad_name = name + ".dequantize.bad";
    good.struct_size = sizeof good;
    good.op = NIBBLE_OP_DEQUANTIZE;
    good.name = good_name.c_str();
    good.tier = NIBBLE_TIER_BY_RULE;
    good.device_type = NIBBLE_DEVICE_CPU;
    good.formats = kFormats;
    good.types = kTypes;
    good.format_count = good.type_count = 1;
    good.execute = ones;
    bad = good;
    bad.name = bad_name.c_str();
    plugin.struct_size = sizeof plugin;
    plugin.abi_major = NIBBLE_ABI_MAJOR;
    plugin.abi_minor = NIBBLE_ABI_MINOR;
    plugin.device_type = NIBBLE_DEVICE_CPU;
    plugin.name = name.c_str();
    plugin.version = "0";
    plugin.kernels = rows;
    plugin.kernel_count = 2;
    plugin.device_count = one_device;
    plugin.device_caps = caps;
  }

  /// Another type of device, with memory functions: what is not the CPU needs some.
  void make_hip() {
    plugin.device_type = good.device_type = bad.device_type = NIBBLE_DEVICE_HIP;
    plugin.memory = &memory;
  }
};

struct Fault {
  const char* name;
  void (*apply)(Parts& p);
};

// NOLINTBEGIN(readability-function-size)
constexpr Fault kFaults[] = {
    {"honest", [](Parts&) {}},
    // What the query answers.
    {"null_answer", [](Parts& p) { p.silent = true; }},
    {"other_major", [](Parts& p) { p.plugin.abi_major = 2; }},
    {"newer_minor", [](Parts& p) { p.plugin.abi_minor = 7; }},
    {"tiny", [](Parts& p) { p.plugin.struct_size = 4; }},
    {"shorter", [](Parts& p) { p.plugin.struct_size = offsetof(nibble_plugin, memory); }},
    {"longer", [](Parts& p) { p.plugin.struct_size += 64; }},
    {"foreign_name", [](Parts& p) { p.plugin.name = "cpu"; }},
    {"null_name", [](Parts& p) { p.plugin.name = nullptr; }},
    {"null_version", [](Parts& p) { p.plugin.version = nullptr; }},
    {"null_device_count", [](Parts& p) { p.plugin.device_count = nullptr; }},
    {"null_device_caps", [](Parts& p) { p.plugin.device_caps = nullptr; }},
    {"null_kernels", [](Parts& p) { p.plugin.kernels = nullptr; }},
    {"no_kernels", [](Parts& p) { p.plugin.kernels = nullptr, p.plugin.kernel_count = 0; }},
    {"endless_kernels", [](Parts& p) { p.plugin.kernel_count = std::uint64_t{1} << 62; }},
    {"endless_formats", [](Parts& p) { p.bad.format_count = std::uint64_t{1} << 60; }},
    {"endless_types", [](Parts& p) { p.bad.type_count = 65; }},
    {"null_allocate", [](Parts& p) { p.make_hip(), p.memory.allocate = nullptr; }},
    {"short_memory", [](Parts& p) { p.make_hip(), p.memory.struct_size = 16; }},
    {"fails_in_open",
     [](Parts& p) { p.plugin.open = [](nibble_text* why) { return say(NIBBLE_DEVICE_ERROR, why, "no licence"); }; }},
    {"fails_in_open_in_silence",
     [](Parts& p) { p.plugin.open = [](nibble_text*) { return nibble_status{NIBBLE_OUT_OF_MEMORY}; }; }},
    {"speaks_in_two_lines",
     [](Parts& p) {
       p.plugin.open = [](nibble_text* why) { return say(NIBBLE_DEVICE_ERROR, why, "the first\nand the second"); };
     }},
    {"speaks_in_colour",
     [](Parts& p) { p.plugin.open = [](nibble_text* why) { return say(NIBBLE_DEVICE_ERROR, why, "\x1b[31mred"); }; }},
    {"odd_version", [](Parts& p) { p.plugin.version = "1\n2"; }},
    // Rows.
    {"null_row", [](Parts& p) { p.rows[1] = nullptr; }},
    {"short_row", [](Parts& p) { p.bad.struct_size = offsetof(nibble_kernel, execute); }},
    {"long_row", [](Parts& p) { p.bad.struct_size += 64; }},
    {"nameless_row", [](Parts& p) { p.bad.name = nullptr; }},
    {"foreign_row", [](Parts& p) { p.bad.name = "cpu.dequantize.simd.avx2"; }},
    {"odd_row_name", [](Parts& p) { p.bad_name += "\na,b=c", p.bad.name = p.bad_name.c_str(); }},
    {"duplicate_row", [](Parts& p) { p.plugin.kernel_count = 3; }},
    {"unknown_op", [](Parts& p) { p.bad.op = 77; }},
    {"unknown_tier", [](Parts& p) { p.bad.tier = 5; }},
    {"no_class",
     [](Parts& p) {
       p.bad.op = NIBBLE_OP_LINEAR;
       p.bad.math = NIBBLE_MATH_DEFAULT;
     }},
    {"no_execute", [](Parts& p) { p.bad.execute = nullptr; }},
    {"other_device_row", [](Parts& p) { p.bad.device_type = NIBBLE_DEVICE_CUDA; }},
    {"null_formats", [](Parts& p) { p.bad.formats = nullptr; }},
    {"null_types", [](Parts& p) { p.bad.types = nullptr; }},
    // Exceptions out of each function.
    {"throws_in_query", [](Parts&) { throw_words(); }},
    {"throws_a_number", [](Parts&) { throw 42; }},
    {"throws_in_open", [](Parts& p) { p.plugin.open = [](nibble_text*) -> nibble_status { throw_words(); }; }},
    {"throws_in_device_count",
     [](Parts& p) { p.plugin.device_count = [](std::int32_t*, nibble_text*) -> nibble_status { throw_words(); }; }},
    {"throws_in_device_caps",
     [](Parts& p) {
       p.plugin.device_caps = [](std::int32_t, nibble_caps*, nibble_text*) -> nibble_status { throw_words(); };
     }},
    {"throws_in_supports",
     [](Parts& p) {
       p.bad.supports = [](const nibble_kernel*, const nibble_caps*, const nibble_request*,
                           nibble_text*) -> nibble_status { throw_words(); };
     }},
    {"throws_in_workspace_query",
     [](Parts& p) {
       p.bad.query = [](const nibble_kernel*, const nibble_caps*, const nibble_request*, nibble_workspace_need*,
                        nibble_text*) -> nibble_status { throw_words(); };
     }},
    // Workspaces that cannot be had.
    {"odd_alignment", [](Parts& p) { p.bad.query = asks<64, 0, 96>; }},
    {"endless_minimum", [](Parts& p) { p.bad.query = asks<~std::uint64_t{0}, ~std::uint64_t{0}, 64>; }},
    {"least_above_best",
     [](Parts& p) {
       p.bad.query = asks<0, 1000, 64>;
       p.bad.execute = [](const nibble_kernel*, const nibble_caps*, const nibble_request*, void* workspace,
                          std::uint64_t bytes, void*, nibble_text*) -> nibble_status {
         return workspace != nullptr && bytes >= 1000 ? NIBBLE_OK : NIBBLE_INTERNAL;
       };
     }},
    {"best_above_limit",
     [](Parts& p) {
       p.bad.query = asks<~std::uint64_t{0}, 0, 64>;
       p.bad.execute = [](const nibble_kernel*, const nibble_caps*, const nibble_request* r, void* workspace,
                          std::uint64_t bytes, void*, nibble_text*) -> nibble_status {
         return workspace != nullptr && bytes <= r->workspace_limit_bytes ? NIBBLE_OK : NIBBLE_INTERNAL;
       };
     }},
    {"throws_in_execute",
     [](Parts& p) {
       p.bad.execute = [](const nibble_kernel*, const nibble_caps*, const nibble_request*, void*, std::uint64_t, void*,
                          nibble_text*) -> nibble_status { throw_words(); };
     }},
    {"throws_in_allocate",
     [](Parts& p) {
       p.make_hip();
       p.memory.allocate = [](std::int32_t, std::uint64_t, void*, void**, nibble_text*) -> nibble_status {
         throw_words();
       };
     }},
    {"throws_in_release",
     [](Parts& p) {
       p.make_hip();
       p.memory.release = [](std::int32_t, void* data, void*, nibble_text*) -> nibble_status {
         delete[] static_cast<char*>(data);
         throw_words();
       };
     }},
    // Devices.
    {"null_device_1",
     [](Parts& p) {
       p.make_hip();
       p.plugin.device_count = three_devices;
       p.plugin.device_caps = [](std::int32_t device, nibble_caps* out, nibble_text* why) {
         return device == 1 ? say(NIBBLE_DEVICE_ERROR, why, "it fell off the bus") : caps(device, out, why);
       };
     }},
    {"no_devices",
     [](Parts& p) {
       p.make_hip();
       p.plugin.device_count = [](std::int32_t* out, nibble_text* why) {
         *out = 0;
         return say(NIBBLE_OK, why, "no driver");
       };
     }},
    {"minus_one_device",
     [](Parts& p) {
       p.make_hip(), p.plugin.device_count = [](std::int32_t* out, nibble_text*) {
         *out = -1;
         return nibble_status{NIBBLE_OK};
       };
     }},
    {"too_many_devices",
     [](Parts& p) {
       p.make_hip(), p.plugin.device_count = [](std::int32_t* out, nibble_text*) {
         *out = INT32_MAX;
         return nibble_status{NIBBLE_OK};
       };
     }},
    {"endless_text",
     [](Parts& p) {
       p.plugin.device_caps = [](std::int32_t, nibble_caps* out, nibble_text*) {
         std::memset(out->arch, 'a', sizeof out->arch);
         std::memset(out->name, 'b', sizeof out->name);
         out->arch[3] = '\n', out->name[5] = '\x1b';
         out->struct_size = 0;
         return nibble_status{NIBBLE_OK};
       };
     }},
    // Memory and workspaces of a device that is not the CPU. Its rows check what they are given.
    {"bare_hip", [](Parts& p) { p.make_hip(), p.plugin.memory = nullptr, p.bad.query = asks<64, 64, 64>; }},
    {"hip_with_memory", [](Parts& p) { p.make_hip(), p.bad.query = asks<64, 64, 64>; }},
    {"odd_memory",
     [](Parts& p) {
       p.make_hip();
       p.bad.query = asks<1000, 1000, 4096>;
       p.bad.execute = in_own_memory;
       p.memory.allocate = allocate_oddly;
       p.memory.release = release_oddly;
     }},
    {"broken_memory",
     [](Parts& p) {
       p.make_hip();
       p.bad.query = asks<1 << 20, 0, 64>;
       p.memory.allocate = [](std::int32_t, std::uint64_t bytes, void*, void**, nibble_text* why) {
         return say(bytes == 1 << 20 ? NIBBLE_DEVICE_ERROR : NIBBLE_OUT_OF_MEMORY, why, "the bus is on fire");
       };
     }},
    {"short_of_memory",
     [](Parts& p) {
       p.make_hip();
       p.bad.query = asks<1 << 20, 1000, 64>;
       p.memory.allocate = [](std::int32_t device, std::uint64_t bytes, void* stream, void** out, nibble_text* why) {
         return bytes > 300000 ? say(NIBBLE_OUT_OF_MEMORY, why, "no") : allocate(device, bytes, stream, out, why);
       };
       p.bad.execute = [](const nibble_kernel*, const nibble_caps*, const nibble_request*, void*, std::uint64_t bytes,
                          void*,
                          nibble_text*) -> nibble_status { return bytes == 1 << 18 ? NIBBLE_OK : NIBBLE_INTERNAL; };
     }},
    // Threads that are cancelled while they are here.
    {"waits_for_its_end",
     [](Parts& p) {
       p.make_hip();
       p.bad.execute = [](const nibble_kernel*, const nibble_caps*, const nibble_request*, void*, std::uint64_t, void*,
                          nibble_text*) -> nibble_status {
         pause();
         return NIBBLE_OK;
       };
       p.memory.release = [](std::int32_t device, void* data, void* stream, nibble_text* why) {
         pthread_testcancel();
         return release(device, data, stream, why);
       };
     }},
};
// NOLINTEND(readability-function-size)

/// nibble_tiny.so -> tiny
std::string own_name() {
  Dl_info info{};
  static const char in_this_file = 0;
  if (dladdr(&in_this_file, &info) == 0) return {};
  std::string file = info.dli_fname;
  file.erase(0, file.rfind("nibble_") + 7);
  return file.substr(0, file.find(".so"));
}

}  // namespace

extern "C" NIBBLE_EXPORT const nibble_plugin* nibble_plugin_query(std::uint32_t, std::uint32_t) {
  static Parts parts(own_name());
  static const bool applied = [] {
    for (const Fault& fault : kFaults) {
      if (parts.name == fault.name) fault.apply(parts);
    }
    return true;
  }();
  return applied && !parts.silent ? &parts.plugin : nullptr;
}
