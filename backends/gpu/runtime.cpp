// The GPU runtime's functions on CUDA's or HIP's, whose names differ in their first letters alone: GPU(Malloc) is one
// of them, as the back end's native.h says. Apart from what a device's capabilities are, where the two do differ
// (device.cpp of each back end).
#include "backends/gpu/runtime.h"

#include "backends/gpu/text.h"

#include NIBBLE_GPU_NATIVE

#include <algorithm>

namespace nibble::gpu {
namespace {

GPU(Stream_t) native(Stream stream) { return static_cast<GPU(Stream_t)>(stream); }

/// The status of a call; its words go to `why`, and the error that the runtime remembers is cleared.
nibble_status checked(GPU(Error_t) error, const char* what, nibble_text* why) {
  if (error == GPU(Success)) return NIBBLE_OK;
  static_cast<void>(GPU(GetLastError)());
  const bool memory = error == kNoMemory;
  return fail(why, memory ? NIBBLE_OUT_OF_MEMORY : NIBBLE_DEVICE_ERROR, "{}: {} ({})", what, GPU(GetErrorString)(error),
              GPU(GetErrorName)(error));
}

/// The most blocks of a one-dimensional grid.
constexpr std::uint64_t kMostBlocks = 0x7fffffff;
/// What a block may have without asking for more.
constexpr std::uint32_t kSharedByDefault = 48 << 10;

}  // namespace

nibble_status device_count(std::int32_t* out, nibble_text* why) {
  int count = 0;
  const GPU(Error_t) error = GPU(GetDeviceCount)(&count);
  *out = error == GPU(Success) ? count : 0;
  if (error != GPU(Success)) {
    static_cast<void>(GPU(GetLastError)());
    fail(why, NIBBLE_OK, "no " GPU_RUNTIME_NAME " device: {}", GPU(GetErrorString)(error));
  } else if (count == 0) {
    fail(why, NIBBLE_OK, "no " GPU_RUNTIME_NAME " device: the driver shows none");
  }
  return NIBBLE_OK;
}

nibble_status has_code_for(std::int32_t device, const void* kernel, nibble_text* why) {
  const DeviceGuard guard(device, why);
  if (guard.status() != NIBBLE_OK) return guard.status();
  GPU(FuncAttributes) attributes{};
  const GPU(Error_t) error = GPU(FuncGetAttributes)(&attributes, kernel);
  if (error == kNoCode || error == GPU(ErrorInvalidDeviceFunction)) {
    static_cast<void>(GPU(GetLastError)());
    return fail(why, NIBBLE_UNSUPPORTED, "no code for this device was compiled in: {}", GPU(GetErrorString)(error));
  }
  return checked(error, "asking for a kernel's attributes", why);
}

DeviceGuard::DeviceGuard(std::int32_t device, nibble_text* why) {
  int before = -1;
  status_ = checked(GPU(GetDevice)(&before), "asking for the current device", why);
  if (status_ != NIBBLE_OK || before == device) return;
  status_ = checked(GPU(SetDevice)(device), "making the tensor's device current", why);
  if (status_ == NIBBLE_OK) before_ = before;
}

DeviceGuard::~DeviceGuard() {
  if (before_ >= 0) static_cast<void>(GPU(SetDevice)(before_));
}

nibble_status allocate_async(void** out, std::uint64_t bytes, Stream stream, nibble_text* why) {
  *out = nullptr;
  const GPU(Error_t) error = GPU(MallocAsync)(out, std::max<std::uint64_t>(bytes, 1), native(stream));
  if (error == kNoMemory) {
    static_cast<void>(GPU(GetLastError)());
    return fail(why, NIBBLE_OUT_OF_MEMORY, "{} bytes of device memory could not be had: {}", bytes,
                GPU(GetErrorString)(error));
  }
  return checked(error, "allocating device memory", why);
}

nibble_status free_async(void* data, Stream stream, nibble_text* why) {
  if (data == nullptr) return NIBBLE_OK;
  return checked(GPU(FreeAsync)(data, native(stream)), "releasing device memory", why);
}

nibble_status copy_to_device(void* dst, const void* host_src, std::uint64_t bytes, Stream stream, nibble_text* why) {
  return checked(GPU(MemcpyAsync)(dst, host_src, bytes, GPU(MemcpyHostToDevice), native(stream)),
                 "copying to the device", why);
}

nibble_status copy_to_host(void* host_dst, const void* src, std::uint64_t bytes, Stream stream, nibble_text* why) {
  const GPU(Error_t) error = GPU(MemcpyAsync)(host_dst, src, bytes, GPU(MemcpyDeviceToHost), native(stream));
  if (const nibble_status s = checked(error, "copying to the host", why)) return s;
  return synchronize(stream, why);
}

nibble_status synchronize(Stream stream, nibble_text* why) {
  return checked(GPU(StreamSynchronize)(native(stream)), "waiting for the stream", why);
}

nibble_status stream_create(Stream* out, nibble_text* why) {
  GPU(Stream_t) stream = nullptr;
  const nibble_status s =
      checked(GPU(StreamCreateWithFlags)(&stream, GPU(StreamNonBlocking)), "creating a stream", why);
  *out = stream;
  return s;
}

nibble_status stream_destroy(Stream stream, nibble_text* why) {
  return checked(GPU(StreamDestroy)(native(stream)), "destroying a stream", why);
}

nibble_status resident_blocks(const void* kernel, std::uint32_t threads, std::uint64_t shared_bytes, std::uint32_t* out,
                              nibble_text* why) {
  int device = 0, processors = 0, blocks = 0;
  GPU(Error_t) error = GPU(GetDevice)(&device);
  if (error == GPU(Success)) error = GPU(DeviceGetAttribute)(&processors, kProcessorCount, device);
  if (error == GPU(Success)) {
    error = GPU(OccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, kernel, static_cast<int>(threads), shared_bytes);
  }
  *out = static_cast<std::uint32_t>(std::max(1, blocks * processors));
  return checked(error, "asking how many blocks a kernel runs at once", why);
}

nibble_status launch_kernel(const void* kernel, const Launch& shape, void** arguments, Stream stream,
                            nibble_text* why) {
  if (shape.blocks == 0) return NIBBLE_OK;
  if (shape.shared_bytes > kSharedByDefault) {
    const GPU(Error_t) error = GPU(FuncSetAttribute)(kernel, GPU(FuncAttributeMaxDynamicSharedMemorySize),
                                                     static_cast<int>(shape.shared_bytes));
    if (error != GPU(Success)) return checked(error, shape.name, why);
  }
  const dim3 grid(static_cast<unsigned>(std::min(shape.blocks, kMostBlocks)));
  const GPU(Error_t) error =
      GPU(LaunchKernel)(kernel, grid, dim3(shape.threads), arguments, shape.shared_bytes, native(stream));
  return checked(error, shape.name, why);
}

}  // namespace nibble::gpu
