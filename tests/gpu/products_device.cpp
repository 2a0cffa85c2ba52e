// Copies, poison and canaries.
// Apart from the header so that the checks see no runtime calls.
#include "tests/gpu/products_device.h"

#include "backends/gpu/runtime.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace nibble::gpu_test {
namespace {

constexpr std::uint64_t kCanary = 4096;
constexpr std::uint8_t kCanaryByte = 0xa5;

void check_canary(const std::uint8_t* device, const char* name, std::string& broken) {
  std::vector<std::uint8_t> bytes(kCanary);
  must(cudaMemcpy(bytes.data(), device, kCanary, cudaMemcpyDeviceToHost), "reading a canary");
  if (!std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b == kCanaryByte; })) broken = name;
}

}  // namespace

void must(int cuda_error, const char* what) {
  if (cuda_error == cudaSuccess) return;
  fmt::print("FATAL {}: {}\n", what, cudaGetErrorString(static_cast<cudaError_t>(cuda_error)));
  std::exit(3);
}

DeviceBuffer::~DeviceBuffer() { cudaFree(data_); }

std::uint8_t* DeviceBuffer::at_least(std::uint64_t bytes) {
  if (bytes > bytes_) {
    cudaFree(data_);
    bytes_ = bytes + bytes / 4;
    must(cudaMalloc(reinterpret_cast<void**>(&data_), bytes_), "cudaMalloc");
  }
  return data_;
}

OnDevice::OnDevice(int device) : device_(device) {
  must(cudaSetDevice(device), "cudaSetDevice");
  caps_.struct_size = sizeof caps_;
  nibble_text none{};
  must(gpu::device_caps(device, &caps_, &none) == NIBBLE_OK ? cudaSuccess : cudaErrorUnknown, "device_caps");
  cudaStream_t s = nullptr;
  must(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreate");
  stream = s;
}

OnDevice::~OnDevice() { cudaStreamDestroy(static_cast<cudaStream_t>(stream)); }

Tensor OnDevice::placed(const Tensor& t, const std::vector<std::uint8_t>& bytes, DeviceBuffer& buffer) {
  Tensor out = t;
  out.device_type = NIBBLE_DEVICE_CUDA;
  out.device_index = device_;
  if (!present(t)) return out;
  out.data = buffer.at_least(bytes.size() + 2 * kCanary) + kCanary;
  must(cudaMemcpy(out.data, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "copying an operand");
  return out;
}

void OnDevice::upload(const Fixture& f) {
  must(cudaSetDevice(device_), "cudaSetDevice");
  const nibble_request& r = f.request();
  request = r;
  request.weight.packed = placed(r.weight.packed, f.packed, packed_);
  request.weight.absmax = placed(r.weight.absmax, f.absmax, absmax_);
  request.weight.nested_absmax = placed(r.weight.nested_absmax, f.nested_absmax, nested_absmax_);
  request.weight.nested_code = placed(r.weight.nested_code, f.nested_code, nested_code_);
  request.weight.code = placed(r.weight.code, f.code, code_);
  request.src1 = placed(r.src1, f.src1, src1_);
  request.bias = placed(r.bias, f.bias, bias_);
  upload_dst(f);
}

void OnDevice::upload_dst(const Fixture& f) {
  request.dst = placed(f.request().dst, f.dst, dst_);
  auto* data = static_cast<std::uint8_t*>(request.dst.data);
  must(cudaMemset(data - kCanary, kCanaryByte, kCanary), "canary");
  must(cudaMemset(data + f.dst.size(), kCanaryByte, kCanary), "canary");
}

bool OnDevice::supports(const nibble_kernel& row) const {
  nibble_text none{};
  return row.op == request.op && (row.supports == nullptr || row.supports(&row, &caps_, &request, &none) == NIBBLE_OK);
}

Outcome OnDevice::prepare(const nibble_kernel& row, const Fixture& f, bool least) {
  Outcome out;
  char line[512] = "";
  nibble_text why{.struct_size = sizeof why, .reserved = 0, .capacity = sizeof line, .data = line};
  nibble_workspace_need need{};
  need.struct_size = sizeof need;
  out.status = row.query(&row, &caps_, &request, &need, &why);
  out.why = line;
  out.workspace_bytes = least ? need.minimum_bytes : need.bytes;
  const std::uint64_t limit = std::max(request.workspace_limit_bytes, need.minimum_bytes);
  if (request.workspace_limit_bytes != 0 && need.bytes > limit) out.broken = "workspace limit";
  upload_dst(f);
  std::uint8_t* workspace = workspace_.at_least(out.workspace_bytes + kCanary);
  must(cudaMemset(workspace, 0xff, out.workspace_bytes), "poison");
  must(cudaMemset(workspace + out.workspace_bytes, kCanaryByte, kCanary), "canary");
  must(cudaDeviceSynchronize(), "poison");
  return out;
}

void OnDevice::execute(const nibble_kernel& row, Outcome& out) {
  char line[512] = "";
  nibble_text why{.struct_size = sizeof why, .reserved = 0, .capacity = sizeof line, .data = line};
  must(cudaSetDevice(0), "cudaSetDevice");
  if (out.status == NIBBLE_OK) {
    void* workspace = out.workspace_bytes != 0 ? workspace_.data() : nullptr;
    out.status = row.execute(&row, &caps_, &request, workspace, out.workspace_bytes, stream, &why);
    out.why = line;
  }
  int current = -1;
  must(cudaGetDevice(&current), "cudaGetDevice");
  if (current != 0) out.broken = "current device";
  must(cudaGetLastError(), "an error left behind by a row");
  must(cudaSetDevice(device_), "cudaSetDevice");
}

void OnDevice::read_back(Outcome& out, std::size_t dst_bytes) {
  must(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "running a row");
  out.dst.resize(dst_bytes);
  must(cudaMemcpy(out.dst.data(), request.dst.data, dst_bytes, cudaMemcpyDeviceToHost), "reading dst");
  const auto* data = static_cast<const std::uint8_t*>(request.dst.data);
  check_canary(data - kCanary, "canary before dst", out.broken);
  check_canary(data + dst_bytes, "canary after dst", out.broken);
  check_canary(workspace_.data() + out.workspace_bytes, "canary after the workspace", out.broken);
}

Outcome OnDevice::call(const nibble_kernel& row, const Fixture& f, bool least) {
  Outcome out = prepare(row, f, least);
  execute(row, out);
  read_back(out, f.dst.size());
  return out;
}

Outcome OnDevice::captured(const nibble_kernel& row, const Fixture& f) {
  auto s = static_cast<cudaStream_t>(stream);
  Outcome out = prepare(row, f, false);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  must(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  execute(row, out);
  must(cudaStreamEndCapture(s, &graph), "cudaStreamEndCapture");
  must(cudaGraphInstantiate(&runnable, graph, 0), "cudaGraphInstantiate");
  for (int i = 0; i < 2; ++i) {
    upload_dst(f);
    must(cudaDeviceSynchronize(), "dst");
    must(cudaGraphLaunch(runnable, s), "cudaGraphLaunch");
    must(cudaStreamSynchronize(s), "a replayed graph");
  }
  cudaGraphExecDestroy(runnable);
  cudaGraphDestroy(graph);
  read_back(out, f.dst.size());
  return out;
}

}  // namespace nibble::gpu_test
