/* A plugin that hides nothing: its helper's name is another plugin's too, and each must call its own.
 * Apart from the other plugins because those hide their helpers; compiled twice, with TWIN and TWIN_VALUE. */
#include <nibble/abi.h>

#include <string.h>

NIBBLE_EXPORT float twin_helper(void);
NIBBLE_EXPORT extern float twin_data;
float twin_data = TWIN_VALUE;
float twin_helper(void) { return twin_data; }

static nibble_status execute(const nibble_kernel* kernel, const nibble_caps* caps, const nibble_request* r,
                             void* workspace, uint64_t workspace_bytes, void* stream, nibble_text* why) {
  (void)kernel, (void)caps, (void)workspace, (void)workspace_bytes, (void)stream, (void)why;
  const float value = twin_helper();
  memcpy((char*)r->dst.data + r->dst.byte_offset, &value, sizeof value);
  return NIBBLE_OK;
}

static const nibble_format kFormats[] = {NIBBLE_Q8_0}, kTypes[] = {NIBBLE_F32};
static const nibble_kernel kRow = {.struct_size = sizeof(nibble_kernel),
                                   .op = NIBBLE_OP_DEQUANTIZE,
                                   .name = TWIN ".dequantize.helper",
                                   .tier = NIBBLE_TIER_BY_RULE,
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
  out->isa = NIBBLE_ISA_PORTABLE;
  return NIBBLE_OK;
}

static const nibble_plugin kPlugin = {.struct_size = sizeof(nibble_plugin),
                                      .abi_major = NIBBLE_ABI_MAJOR,
                                      .abi_minor = NIBBLE_ABI_MINOR,
                                      .device_type = NIBBLE_DEVICE_CPU,
                                      .name = TWIN,
                                      .version = "0",
                                      .kernels = kRows,
                                      .kernel_count = 1,
                                      .device_count = device_count,
                                      .device_caps = device_caps};

NIBBLE_EXPORT const nibble_plugin* nibble_plugin_query(uint32_t host_major, uint32_t host_minor);
const nibble_plugin* nibble_plugin_query(uint32_t host_major, uint32_t host_minor) {
  (void)host_minor;
  return host_major == NIBBLE_ABI_MAJOR ? &kPlugin : NULL;
}
