// A plugin's memory functions: the runtime's, on the device that the caller names.
// Apart from the runtime's implementations because they are the same on all of them.
#include "backends/gpu/runtime.h"

namespace nibble::gpu {
namespace {

/// Runs `call` with `device` current.
template <class Call>
nibble_status on_device(std::int32_t device, nibble_text* why, Call&& call) {
  const DeviceGuard guard(device, why);
  return guard.status() != NIBBLE_OK ? guard.status() : call();
}

}  // namespace

const nibble_memory kMemory = {
    .struct_size = sizeof(nibble_memory),
    .reserved = 0,
    .allocate =
        [](std::int32_t device, std::uint64_t bytes, void* stream, void** out, nibble_text* why) {
          return on_device(device, why, [&] { return allocate_async(out, bytes, stream, why); });
        },
    .release = [](std::int32_t device, void* data, void* stream,
                  nibble_text* why) { return on_device(device, why, [&] { return free_async(data, stream, why); }); },
    .to_device =
        [](std::int32_t device, void* dst, const void* host_src, std::uint64_t bytes, void* stream, nibble_text* why) {
          return on_device(device, why, [&] { return copy_to_device(dst, host_src, bytes, stream, why); });
        },
    .to_host =
        [](std::int32_t device, void* host_dst, const void* src, std::uint64_t bytes, void* stream, nibble_text* why) {
          return on_device(device, why, [&] { return copy_to_host(host_dst, src, bytes, stream, why); });
        },
    .synchronize = [](std::int32_t device, void* stream,
                      nibble_text* why) { return on_device(device, why, [&] { return synchronize(stream, why); }); },
    .stream_create = [](std::int32_t device, void** out,
                        nibble_text* why) { return on_device(device, why, [&] { return stream_create(out, why); }); },
    .stream_destroy =
        [](std::int32_t device, void* stream, nibble_text* why) {
          return on_device(device, why, [&] { return stream_destroy(stream, why); });
        }};

}  // namespace nibble::gpu
