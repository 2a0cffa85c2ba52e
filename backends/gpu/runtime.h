// What kernels and plugins need of a GPU's runtime, under names of our own; each back end implements it once.
// Apart from the kernels so that CUDA and HIP share them without one pretending to be the other.
#ifndef NIBBLE_BACKENDS_GPU_RUNTIME_H
#define NIBBLE_BACKENDS_GPU_RUNTIME_H

#include <nibble/abi.h>

#include <cstdint>
#include <type_traits>

namespace nibble::gpu {

/// The caller's stream, as the ABI hands it over.
using Stream = void*;

// Each function that can fail answers a status, writes one line with the runtime's own words to `why` (which may be
// null), and leaves no error of its own behind in the runtime. None synchronizes unless it says so.

/// 0 with the reason in `why` where there is no driver or no device: a normal answer.
nibble_status device_count(std::int32_t* out, nibble_text* why);
/// All fields but struct_size.
nibble_status device_caps(std::int32_t device, nibble_caps* out, nibble_text* why);
/// Whether this module holds code that `device` can run, asked of the runtime for one kernel.
nibble_status has_code_for(std::int32_t device, const void* kernel, nibble_text* why);

/// Makes `device` current and restores the caller's device when it goes.
class DeviceGuard {
 public:
  explicit DeviceGuard(std::int32_t device, nibble_text* why = nullptr);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  [[nodiscard]] nibble_status status() const { return status_; }

 private:
  std::int32_t before_ = -1;  // -1: there is nothing to restore
  nibble_status status_ = NIBBLE_OK;
};

// On the current device.

nibble_status allocate_async(void** out, std::uint64_t bytes, Stream stream, nibble_text* why);
nibble_status free_async(void* data, Stream stream, nibble_text* why);
nibble_status copy_to_device(void* dst, const void* host_src, std::uint64_t bytes, Stream stream, nibble_text* why);
/// Done when it returns.
nibble_status copy_to_host(void* host_dst, const void* src, std::uint64_t bytes, Stream stream, nibble_text* why);
nibble_status synchronize(Stream stream, nibble_text* why);
nibble_status stream_create(Stream* out, nibble_text* why);
nibble_status stream_destroy(Stream stream, nibble_text* why);

/// Blocks of `threads` threads of this kernel that one multiprocessor holds at once, times the multiprocessors.
nibble_status resident_blocks(const void* kernel, std::uint32_t threads, std::uint64_t shared_bytes, std::uint32_t* out,
                              nibble_text* why);

/// The memory functions of a plugin, made of the above.
extern const nibble_memory kMemory;

/// How a kernel is launched. Grids are one-dimensional: rows and batches are counted in 64 bits inside.
struct Launch {
  const char* name;  ///< for messages
  std::uint64_t blocks;
  std::uint32_t threads;
  std::uint32_t shared_bytes = 0;  ///< dynamic
};
/// `blocks` is cut to what a grid may have: kernels stride over their work. 0 blocks launch nothing.
nibble_status launch_kernel(const void* kernel, const Launch& shape, void** arguments, Stream stream, nibble_text* why);

template <class... P>
nibble_status launch(void (*kernel)(P...), const Launch& shape, Stream stream, nibble_text* why,
                     std::type_identity_t<P>... arguments) {
  void* pointers[] = {&arguments...};
  return launch_kernel(reinterpret_cast<const void*>(kernel), shape, pointers, stream, why);
}

}  // namespace nibble::gpu

#endif
