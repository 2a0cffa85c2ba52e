/* A back end in one file: dequantize of Q4_0 to f32 on the CPU. docs/plugins.md walks through it. */
#include <nibble/abi.h>

#include <string.h>

static float half_value(const uint8_t* at) {
  const uint32_t bits = (uint32_t)at[0] | (uint32_t)at[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float sign = (bits & 0x8000u) != 0 ? -1.0f : 1.0f;
  if (exponent == 0) return sign * (float)fraction * 0x1p-24f; /* zeros and subnormals, exact */
  const uint32_t wide = (bits & 0x8000u) << 16 | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

/* 32 values: a half, then 16 bytes whose low nibbles are the first 16 codes. Each value is d * (code - 8). */
static void decode_block(const uint8_t* block, float* out) {
  const float d = half_value(block);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * (float)((block[2 + i] & 15) - 8);
    out[16 + i] = d * (float)((block[2 + i] >> 4) - 8);
  }
}

static const uint8_t* row_of(const nibble_tensor* t, int64_t i1, int64_t i2, int64_t i3) {
  return (const uint8_t*)t->data + t->byte_offset + i1 * t->byte_stride[1] + i2 * t->byte_stride[2] +
         i3 * t->byte_stride[3];
}

/* The host has checked shapes, strides and pointers: whole blocks a row, neighbours in dst's dimension 0. */
static nibble_status execute(const nibble_kernel* kernel, const nibble_caps* caps, const nibble_request* r,
                             void* workspace, uint64_t workspace_bytes, void* stream, nibble_text* why) {
  const nibble_tensor *w = &r->weight.packed, *dst = &r->dst;
  (void)kernel, (void)caps, (void)workspace, (void)workspace_bytes, (void)stream, (void)why;
  for (int64_t i3 = 0; i3 < w->shape[3]; ++i3)
    for (int64_t i2 = 0; i2 < w->shape[2]; ++i2)
      for (int64_t i1 = 0; i1 < w->shape[1]; ++i1)
        for (int64_t b = 0; b < w->shape[0] / 32; ++b)
          decode_block(row_of(w, i1, i2, i3) + 18 * b, (float*)(uintptr_t)row_of(dst, i1, i2, i3) + 32 * b);
  return NIBBLE_OK;
}

static const nibble_format kFormats[] = {NIBBLE_Q4_0}, kTypes[] = {NIBBLE_F32};
static const nibble_kernel kRow = {.struct_size = sizeof(nibble_kernel),
                                   .op = NIBBLE_OP_DEQUANTIZE,
                                   .name = "example.dequantize.q4_0",
                                   .tier = EXAMPLE_TIER,
                                   .rank = 1,
                                   .device_type = NIBBLE_DEVICE_CPU,
                                   .formats = kFormats,
                                   .format_count = 1,
                                   .types = kTypes,
                                   .type_count = 1,
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
  out->lanes = out->processors = 1;
  out->isa = NIBBLE_ISA_PORTABLE;
  strcpy(out->arch, "portable");
  strcpy(out->name, "any processor");
  return NIBBLE_OK;
}

static const nibble_plugin kPlugin = {.struct_size = sizeof(nibble_plugin),
                                      .abi_major = NIBBLE_ABI_MAJOR,
                                      .abi_minor = NIBBLE_ABI_MINOR,
                                      .device_type = NIBBLE_DEVICE_CPU,
                                      .name = "example",
                                      .version = "1.0",
                                      .kernels = kRows,
                                      .kernel_count = 1,
                                      .device_count = device_count,
                                      .device_caps = device_caps};

NIBBLE_EXPORT const nibble_plugin* nibble_plugin_query(uint32_t host_major, uint32_t host_minor);
const nibble_plugin* nibble_plugin_query(uint32_t host_major, uint32_t host_minor) {
  (void)host_minor;
  return host_major == NIBBLE_ABI_MAJOR ? &kPlugin : NULL;
}
