// The GPU runtime's functions on CUDA's.
// Apart from the plugin because the plugin for one chip links them too.
#include "backends/gpu/runtime.h"

#include "backends/gpu/text.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

namespace nibble::gpu {
namespace {

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream); }

/// The status of a call; its words go to `why`, and the error that the runtime remembers is cleared.
nibble_status checked(cudaError_t error, const char* what, nibble_text* why) {
  if (error == cudaSuccess) return NIBBLE_OK;
  static_cast<void>(cudaGetLastError());
  const bool memory = error == cudaErrorMemoryAllocation;
  return fail(why, memory ? NIBBLE_OUT_OF_MEMORY : NIBBLE_DEVICE_ERROR, "{}: {} ({})", what, cudaGetErrorString(error),
              cudaGetErrorName(error));
}

/// The most blocks of a one-dimensional grid.
constexpr std::uint64_t kMostBlocks = 0x7fffffff;

}  // namespace

nibble_status device_count(std::int32_t* out, nibble_text* why) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  *out = error == cudaSuccess ? count : 0;
  if (error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    fail(why, NIBBLE_OK, "no CUDA device: {}", cudaGetErrorString(error));
  } else if (count == 0) {
    fail(why, NIBBLE_OK, "no CUDA device: the driver shows none");
  }
  return NIBBLE_OK;
}

nibble_status device_caps(std::int32_t device, nibble_caps* out, nibble_text* why) {
  cudaDeviceProp p{};
  if (const nibble_status s = checked(cudaGetDeviceProperties(&p, device), "asking for the device's properties", why)) {
    return s;
  }
  out->device_type = NIBBLE_DEVICE_CUDA;
  out->device_index = device;
  out->arch_major = static_cast<std::uint32_t>(p.major);
  out->arch_minor = static_cast<std::uint32_t>(p.minor);
  out->lanes = static_cast<std::uint32_t>(p.warpSize);
  out->isa = 0;
  out->memory_bytes = p.totalGlobalMem;
  out->cache_bytes = static_cast<std::uint64_t>(p.l2CacheSize);
  out->shared_bytes_per_block = p.sharedMemPerBlockOptin;
  out->processors = static_cast<std::uint32_t>(p.multiProcessorCount);
  const auto end = fmt::format_to_n(out->arch, sizeof out->arch - 1, "{}.{}", p.major, p.minor);
  *end.out = '\0';
  std::strncpy(out->name, p.name, sizeof out->name - 1);
  out->name[sizeof out->name - 1] = '\0';
  return NIBBLE_OK;
}

nibble_status has_code_for(std::int32_t device, const void* kernel, nibble_text* why) {
  const DeviceGuard guard(device, why);
  if (guard.status() != NIBBLE_OK) return guard.status();
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
    static_cast<void>(cudaGetLastError());
    return fail(why, NIBBLE_UNSUPPORTED, "no code for this device was compiled in: {}", cudaGetErrorString(error));
  }
  return checked(error, "asking for a kernel's attributes", why);
}

DeviceGuard::DeviceGuard(std::int32_t device, nibble_text* why) {
  int before = -1;
  status_ = checked(cudaGetDevice(&before), "asking for the current device", why);
  if (status_ != NIBBLE_OK || before == device) return;
  status_ = checked(cudaSetDevice(device), "making the tensor's device current", why);
  if (status_ == NIBBLE_OK) before_ = before;
}

DeviceGuard::~DeviceGuard() {
  if (before_ >= 0) static_cast<void>(cudaSetDevice(before_));
}

nibble_status allocate_async(void** out, std::uint64_t bytes, Stream stream, nibble_text* why) {
  *out = nullptr;
  const cudaError_t error = cudaMallocAsync(out, std::max<std::uint64_t>(bytes, 1), native(stream));
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    return fail(why, NIBBLE_OUT_OF_MEMORY, "{} bytes of device memory could not be had: {}", bytes,
                cudaGetErrorString(error));
  }
  return checked(error, "allocating device memory", why);
}

nibble_status free_async(void* data, Stream stream, nibble_text* why) {
  if (data == nullptr) return NIBBLE_OK;
  return checked(cudaFreeAsync(data, native(stream)), "releasing device memory", why);
}

nibble_status copy_to_device(void* dst, const void* host_src, std::uint64_t bytes, Stream stream, nibble_text* why) {
  return checked(cudaMemcpyAsync(dst, host_src, bytes, cudaMemcpyHostToDevice, native(stream)), "copying to the device",
                 why);
}

nibble_status copy_to_host(void* host_dst, const void* src, std::uint64_t bytes, Stream stream, nibble_text* why) {
  const cudaError_t error = cudaMemcpyAsync(host_dst, src, bytes, cudaMemcpyDeviceToHost, native(stream));
  if (const nibble_status s = checked(error, "copying to the host", why)) return s;
  return synchronize(stream, why);
}

nibble_status copy_on_device_async(void* dst, const void* src, std::uint64_t bytes, Stream stream, nibble_text* why) {
  return checked(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, native(stream)), "copying on the device",
                 why);
}

nibble_status copy_rows_async(void* dst, std::uint64_t dst_stride_bytes, const void* src,
                              std::uint64_t src_stride_bytes, std::uint64_t row_bytes, std::uint64_t rows,
                              Stream stream, nibble_text* why) {
  return checked(cudaMemcpy2DAsync(dst, dst_stride_bytes, src, src_stride_bytes, row_bytes, rows,
                                   cudaMemcpyDeviceToDevice, native(stream)),
                 "copying rows on the device", why);
}

nibble_status fill_async(void* dst, std::uint8_t byte, std::uint64_t bytes, Stream stream, nibble_text* why) {
  return checked(cudaMemsetAsync(dst, byte, bytes, native(stream)), "filling device memory", why);
}

nibble_status synchronize(Stream stream, nibble_text* why) {
  return checked(cudaStreamSynchronize(native(stream)), "waiting for the stream", why);
}

nibble_status stream_create(Stream* out, nibble_text* why) {
  cudaStream_t stream = nullptr;
  const nibble_status s = checked(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream", why);
  *out = stream;
  return s;
}

nibble_status stream_destroy(Stream stream, nibble_text* why) {
  return checked(cudaStreamDestroy(native(stream)), "destroying a stream", why);
}

nibble_status allow_shared_bytes(const void* kernel, std::uint64_t bytes, nibble_text* why) {
  return checked(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
                 "raising a kernel's shared memory", why);
}

nibble_status resident_blocks(const void* kernel, std::uint32_t threads, std::uint64_t shared_bytes, std::uint32_t* out,
                              nibble_text* why) {
  int device = 0, processors = 0, blocks = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, static_cast<int>(threads), shared_bytes);
  }
  *out = static_cast<std::uint32_t>(std::max(1, blocks * processors));
  return checked(error, "asking how many blocks a kernel runs at once", why);
}

nibble_status launch_kernel(const void* kernel, const Launch& shape, void** arguments, Stream stream,
                            nibble_text* why) {
  if (shape.blocks == 0) return NIBBLE_OK;
  const dim3 grid(static_cast<unsigned>(std::min(shape.blocks, kMostBlocks)));
  const cudaError_t error =
      cudaLaunchKernel(kernel, grid, dim3(shape.threads), arguments, shape.shared_bytes, native(stream));
  return checked(error, shape.name, why);
}

}  // namespace nibble::gpu
