/* A plugin whose values are wrong on purpose: q8_0 to f32, one bit off in one place.
 * Apart from the other plugins because it loads and runs well: only a comparison of values can find it out. */
#include <nibble/abi.h>

#include <string.h>

enum { kBlockValues = 32, kBlockBytes = 34 };

/* In a tensor of fewer values the last one is wrong. */
static const int64_t kWrongPlace = 1030;

static float half_value(const uint8_t* bytes) {
  const uint32_t bits = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
  if (exponent == 0) return (sign != 0 ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
  const uint32_t wide = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112u) << 23) | fraction << 13;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

static void decode_row(const uint8_t* blocks, float* out, int64_t values) {
  for (int64_t i = 0; i < values; ++i) {
    const uint8_t* block = blocks + i / kBlockValues * kBlockBytes;
    out[i] = half_value(block) * (float)(int8_t)block[2 + i % kBlockValues];
  }
}

static void flip_lowest_bit(float* value) {
  uint32_t bits;
  memcpy(&bits, value, sizeof bits);
  bits ^= 1u;
  memcpy(value, &bits, sizeof bits);
}

static nibble_status execute(const nibble_kernel* kernel, const nibble_caps* caps, const nibble_request* r,
                             void* workspace, uint64_t workspace_bytes, void* stream, nibble_text* why) {
  (void)kernel, (void)caps, (void)workspace, (void)workspace_bytes, (void)stream, (void)why;
  const nibble_tensor *w = &r->weight.packed, *d = &r->dst;
  const uint8_t* in = (const uint8_t*)w->data + w->byte_offset;
  uint8_t* out = (uint8_t*)d->data + d->byte_offset;
  const int64_t values = w->shape[0] * w->shape[1];
  for (int64_t row = 0; row < w->shape[1]; ++row) {
    decode_row(in + row * w->byte_stride[1], (float*)(void*)(out + row * d->byte_stride[1]), w->shape[0]);
  }
  const int64_t place = kWrongPlace < values ? kWrongPlace : values - 1;
  flip_lowest_bit((float*)(void*)(out + place / w->shape[0] * d->byte_stride[1]) + place % w->shape[0]);
  return NIBBLE_OK;
}

static nibble_status supports(const nibble_kernel* kernel, const nibble_caps* caps, const nibble_request* r,
                              nibble_text* why) {
  static const char kReason[] = "takes two dimensions at most";
  (void)kernel, (void)caps;
  if (r->weight.packed.rank <= 2) return NIBBLE_OK;
  if (why->capacity >= sizeof kReason) memcpy(why->data, kReason, sizeof kReason);
  return NIBBLE_UNSUPPORTED;
}

static const nibble_format kFormats[] = {NIBBLE_Q8_0}, kTypes[] = {NIBBLE_F32};

static const nibble_kernel kRow = {.struct_size = sizeof(nibble_kernel),
                                   .op = NIBBLE_OP_DEQUANTIZE,
                                   .name = "wrong.dequantize.one_bit",
                                   .tier = NIBBLE_TIER_BY_RULE,
                                   .device_type = NIBBLE_DEVICE_CPU,
                                   .formats = kFormats,
                                   .format_count = 1,
                                   .types = kTypes,
                                   .type_count = 1,
                                   .supports = supports,
                                   .execute = execute};
static const nibble_kernel* const kRows[] = {&kRow};

static nibble_status device_count(int32_t* out, nibble_text* why) {
  (void)why;
  *out = 1;
  return NIBBLE_OK;
}

static nibble_status device_caps(int32_t device, nibble_caps* out, nibble_text* why) {
  (void)device, (void)why;
  out->device_type = NIBBLE_DEVICE_CPU;
  out->lanes = 1;
  out->isa = NIBBLE_ISA_PORTABLE;
  out->processors = 1;
  strcpy(out->arch, "portable");
  strcpy(out->name, "wrong on purpose");
  return NIBBLE_OK;
}

static const nibble_plugin kPlugin = {.struct_size = sizeof(nibble_plugin),
                                      .abi_major = NIBBLE_ABI_MAJOR,
                                      .abi_minor = NIBBLE_ABI_MINOR,
                                      .device_type = NIBBLE_DEVICE_CPU,
                                      .name = "wrong",
                                      .version = "1",
                                      .kernels = kRows,
                                      .kernel_count = 1,
                                      .device_count = device_count,
                                      .device_caps = device_caps};

NIBBLE_EXPORT const nibble_plugin* nibble_plugin_query(uint32_t host_major, uint32_t host_minor);
const nibble_plugin* nibble_plugin_query(uint32_t host_major, uint32_t host_minor) {
  (void)host_minor;
  return host_major == NIBBLE_ABI_MAJOR ? &kPlugin : NULL;
}
