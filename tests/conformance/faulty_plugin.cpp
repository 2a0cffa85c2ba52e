// A plugin whose rows are wrong on purpose, one fault each: what conformance must find.
// Apart from the suite because it stands where a back end does, behind the C interface.
#include <nibble/tensor.hpp>

#include "core/decode.h"
#include "core/ops/ops.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace nibble::conformance {
namespace {

/// A call: what a fault may get wrong.
struct Call {
  const OpInfo& op;
  nibble_request request;
  std::uint8_t* workspace;
  std::uint64_t workspace_bytes;

  void reference() const { op.reference(request, workspace); }
  [[nodiscard]] std::uint8_t* dst() const { return bytes_of(request.dst); }
  [[nodiscard]] std::int64_t dst_bytes() const {
    std::int64_t bytes = request.dst.byte_stride[0];
    for (int d = 0; d < 4; ++d) bytes += (request.dst.shape[d] - 1) * request.dst.byte_stride[d];
    return bytes;
  }
};

void flip_first(const Call& c) { c.dst()[0] ^= 1; }

/// The last of what is summed is left out: of K, or of the activations' values.
void without_last(Call c) {
  const int summed = c.op.id == NIBBLE_OP_OUT_PROD ? 1 : 0;
  Tensor& src1 = c.request.src1;
  if (c.op.id == NIBBLE_OP_DEQUANTIZE || c.request.weight.packed.shape[summed] == 0) return c.reference();
  const std::uint64_t at =
      src1.byte_offset + static_cast<std::uint64_t>((src1.shape[summed] - 1) * src1.byte_stride[summed]);
  std::uint8_t kept[4], *last = static_cast<std::uint8_t*>(src1.data) + at;
  const std::size_t bytes = src1.format == NIBBLE_F32 ? 4 : 2;
  std::memcpy(kept, last, bytes);
  std::memset(last, 0, bytes);
  c.reference();
  std::memcpy(last, kept, bytes);
}

enum class On : std::uint8_t { all, products, values };
struct Fault {
  const char* name;
  On on;
  void (*run)(const Call& c);
};
constexpr Fault kFaults[] = {
    {"honest", On::all, [](const Call& c) { c.reference(); }},
    {"refuses_all", On::all, nullptr},
    {"for_other_processors", On::all, nullptr},
    {"writes_behind_dst", On::all,
     [](const Call& c) {
       c.reference();
       c.dst()[c.dst_bytes()] = 0;
     }},
    {"writes_before_dst", On::all,
     [](const Call& c) {
       c.reference();
       c.dst()[-1] = 0;
     }},
    {"writes_between_rows", On::all,
     [](const Call& c) {
       c.reference();
       const Tensor& dst = c.request.dst;
       const std::int64_t row = dst.shape[0] * dst.byte_stride[0];
       if (dst.shape[1] > 1 && dst.byte_stride[1] > row) c.dst()[row] ^= 1;
     }},
    {"writes_the_weight", On::all,
     [](const Call& c) {
       c.reference();
       if (element_count(c.request.weight.packed) != 0) bytes_of(c.request.weight.packed)[0] ^= 1;
     }},
    {"skips_the_last_element", On::all,
     [](const Call& c) {
       std::uint8_t kept[4], *last = c.dst() + c.dst_bytes() - c.request.dst.byte_stride[0];
       std::memcpy(kept, last, static_cast<std::size_t>(c.request.dst.byte_stride[0]));
       c.reference();
       std::memcpy(last, kept, static_cast<std::size_t>(c.request.dst.byte_stride[0]));
     }},
    {"ignores_byte_offset", On::all,
     [](const Call& c) {
       Call wrong = c;
       wrong.request.weight.packed.byte_offset = 0;
       wrong.reference();
     }},
    {"contiguous_dst_only", On::all,
     [](const Call& c) {
       Call wrong = c;
       Tensor& dst = wrong.request.dst;
       for (int d = 1; d < 4; ++d) dst.byte_stride[d] = dst.byte_stride[d - 1] * dst.shape[d - 1];
       wrong.reference();
     }},
    {"one_bit", On::all,
     [](const Call& c) {
       c.reference();
       if (!c.op.multiplies)
         flip_first(c);
       else
         c.dst()[1] ^= 0x80;
     }},
    {"loses_the_sign_of_zero", On::values,
     [](const Call& c) {
       c.reference();
       const float zero = load_element(c.request.dst.format, c.dst());
       if (zero == 0.0f) store_element(c.request.dst.format, c.dst(), 0.0f);
     }},
    {"loses_the_last_product", On::products, [](const Call& c) { without_last(c); }},
    {"ignores_accumulate_and_bias", On::products,
     [](const Call& c) {
       Call wrong = c;
       wrong.request.flags = 0;
       if (c.op.id == NIBBLE_OP_LINEAR && present(c.request.bias)) wrong.request.bias = {};
       wrong.reference();
     }},
    {"writes_behind_the_workspace", On::products,
     [](const Call& c) {
       c.reference();
       c.workspace[c.workspace_bytes] = 0;
     }},
    {"counts_on_zeros_in_the_workspace", On::products,
     [](const Call& c) {
       c.reference();
       double sum;
       std::memcpy(&sum, c.workspace + c.workspace_bytes - 8, sizeof sum);
       if (std::uint64_t bits; std::memcpy(&bits, &sum, sizeof bits), bits == 0xffa5ffa5ffa5ffa5u)
         store_element(c.request.dst.format, c.dst(), 1e9f);
     }},
    {"other_bits_each_run", On::products,
     [](const Call& c) {
       static int run = 0;
       c.reference();
       if (++run % 2 == 0) flip_first(c);
     }},
    {"other_bits_for_2_threads", On::products,
     [](const Call& c) {
       c.reference();
       if (c.request.threads == 2) flip_first(c);
     }},
};

/// What a row's `self` leads to.
struct Row {
  const OpInfo* op;
  const Fault* fault;
  std::string name;
  nibble_kernel kernel{};
};

nibble_status refuse(const nibble_kernel*, const nibble_caps*, const nibble_request*, nibble_text* why) {
  std::snprintf(why->data, why->capacity, "is not in the mood");
  return NIBBLE_UNSUPPORTED;
}

nibble_status query(const nibble_kernel* k, const nibble_caps*, const nibble_request* r, nibble_workspace_need* need,
                    nibble_text*) {
  need->bytes = need->minimum_bytes = static_cast<const Row*>(k->self)->op->reference_workspace(*r) + 8;
  need->alignment = alignof(double);
  return NIBBLE_OK;
}

nibble_status execute(const nibble_kernel* k, const nibble_caps*, const nibble_request* r, void* workspace,
                      std::uint64_t bytes, void*, nibble_text*) {
  const Row& row = *static_cast<const Row*>(k->self);
  row.fault->run({*row.op, *r, static_cast<std::uint8_t*>(workspace), bytes});
  return NIBBLE_OK;
}

constexpr nibble_format kFormats[] = {NIBBLE_F32, NIBBLE_Q4_0, NIBBLE_NF4};
constexpr nibble_format kTypes[] = {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16};

std::vector<Row> make_rows() {
  std::vector<Row> rows;
  for (const OpInfo& op : kOps) {
    for (const Fault& fault : kFaults) {
      if (fault.on == On::all || (fault.on == On::products) == op.multiplies)
        rows.push_back({&op, &fault, "faulty." + std::string(op.name) + "." + fault.name});
    }
  }
  for (Row& row : rows) {
    nibble_kernel& k = row.kernel;
    k.struct_size = sizeof k;
    k.op = row.op->id;
    k.name = row.name.c_str();
    k.tier = NIBBLE_TIER_GENERIC;
    k.math = row.op->multiplies ? nibble_math{NIBBLE_MATH_F32} : nibble_math{NIBBLE_MATH_DEFAULT};
    k.device_type = NIBBLE_DEVICE_CPU;
    k.formats = kFormats;
    k.format_count = std::size(kFormats);
    k.types = kTypes;
    k.type_count = std::size(kTypes);
    k.self = &row;
    k.query = query;
    k.execute = execute;
    if (row.name.ends_with(".refuses_all")) k.supports = refuse;
    if (row.name.ends_with(".for_other_processors")) k.isa = NIBBLE_ISA_AVX512;
  }
  return rows;
}

const std::vector<const nibble_kernel*>& kernels() {
  static const std::vector<Row> rows = make_rows();
  static const std::vector<const nibble_kernel*> all = [] {
    std::vector<const nibble_kernel*> pointers;
    pointers.reserve(rows.size());
    for (const Row& row : rows) pointers.push_back(&row.kernel);
    return pointers;
  }();
  return all;
}

nibble_status device_count(std::int32_t* out, nibble_text*) {
  *out = 1;
  return NIBBLE_OK;
}

nibble_status device_caps(std::int32_t, nibble_caps* out, nibble_text*) {
  out->device_type = NIBBLE_DEVICE_CPU;
  out->lanes = out->processors = 1;
  out->isa = NIBBLE_ISA_PORTABLE;
  std::strncpy(out->arch, "portable", sizeof out->arch - 1);
  std::strncpy(out->name, "a processor that errs", sizeof out->name - 1);
  return NIBBLE_OK;
}

}  // namespace
}  // namespace nibble::conformance

extern "C" NIBBLE_EXPORT const nibble_plugin* nibble_plugin_query(std::uint32_t host_major, std::uint32_t) {
  using namespace nibble::conformance;
  if (host_major != NIBBLE_ABI_MAJOR) return nullptr;
  static nibble_plugin plugin{};
  plugin.struct_size = sizeof plugin;
  plugin.abi_major = NIBBLE_ABI_MAJOR;
  plugin.abi_minor = NIBBLE_ABI_MINOR;
  plugin.device_type = NIBBLE_DEVICE_CPU;
  plugin.name = "faulty";
  plugin.version = "0";
  plugin.kernels = kernels().data();
  plugin.kernel_count = kernels().size();
  plugin.device_count = device_count;
  plugin.device_caps = device_caps;
  return &plugin;
}
