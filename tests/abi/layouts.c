/* The layouts and numbers of the C header as 1.0 has them, for 64-bit systems: a plugin that was built long ago counts
 * on them. A field that is appended moves a SIZE here and nothing else; any other change needs a new major version.
 * Apart from the code that uses the structs: it would compile with any layout. In C11 and in C++20. */
#include <nibble/abi.h>

#ifdef __cplusplus
#define NIBBLE_HOLDS(condition) static_assert(condition, #condition)
#else
#define NIBBLE_HOLDS(condition) _Static_assert(condition, #condition)
#endif
#define SIZE(type, bytes) NIBBLE_HOLDS(sizeof(type) == (bytes))
#define AT(type, field, bytes) NIBBLE_HOLDS(offsetof(type, field) == (bytes))
#define IS(name, number) NIBBLE_HOLDS((name) == (number))

SIZE(nibble_tensor, 96);
AT(nibble_tensor, data, 0);
AT(nibble_tensor, byte_offset, 8);
AT(nibble_tensor, device_type, 16);
AT(nibble_tensor, device_index, 20);
AT(nibble_tensor, format, 24);
AT(nibble_tensor, rank, 28);
AT(nibble_tensor, shape, 32);
AT(nibble_tensor, byte_stride, 64);

SIZE(nibble_weight, 504);
AT(nibble_weight, packed, 0);
AT(nibble_weight, code, 96);
AT(nibble_weight, absmax, 192);
AT(nibble_weight, nested_absmax, 288);
AT(nibble_weight, nested_code, 384);
AT(nibble_weight, block_size, 480);
AT(nibble_weight, nested_block_size, 488);
AT(nibble_weight, nested_offset, 496);
AT(nibble_weight, reserved, 500);

SIZE(nibble_request, 824);
AT(nibble_request, struct_size, 0);
AT(nibble_request, op, 4);
AT(nibble_request, math, 8);
AT(nibble_request, flags, 12);
AT(nibble_request, weight, 16);
AT(nibble_request, src1, 520);
AT(nibble_request, bias, 616);
AT(nibble_request, dst, 712);
AT(nibble_request, workspace_limit_bytes, 808);
AT(nibble_request, threads, 816);
AT(nibble_request, reserved, 820);

SIZE(nibble_caps, 192);
AT(nibble_caps, struct_size, 0);
AT(nibble_caps, device_type, 4);
AT(nibble_caps, device_index, 8);
AT(nibble_caps, arch_major, 12);
AT(nibble_caps, arch_minor, 16);
AT(nibble_caps, lanes, 20);
AT(nibble_caps, isa, 24);
AT(nibble_caps, memory_bytes, 32);
AT(nibble_caps, cache_bytes, 40);
AT(nibble_caps, shared_bytes_per_block, 48);
AT(nibble_caps, processors, 56);
AT(nibble_caps, reserved, 60);
AT(nibble_caps, arch, 64);
AT(nibble_caps, name, 96);

SIZE(nibble_text, 24);
AT(nibble_text, struct_size, 0);
AT(nibble_text, reserved, 4);
AT(nibble_text, capacity, 8);
AT(nibble_text, data, 16);

SIZE(nibble_workspace_need, 32);
AT(nibble_workspace_need, struct_size, 0);
AT(nibble_workspace_need, reserved, 4);
AT(nibble_workspace_need, bytes, 8);
AT(nibble_workspace_need, minimum_bytes, 16);
AT(nibble_workspace_need, alignment, 24);

SIZE(nibble_kernel, 104);
AT(nibble_kernel, struct_size, 0);
AT(nibble_kernel, op, 4);
AT(nibble_kernel, name, 8);
AT(nibble_kernel, tier, 16);
AT(nibble_kernel, rank, 20);
AT(nibble_kernel, math, 24);
AT(nibble_kernel, device_type, 28);
AT(nibble_kernel, isa, 32);
AT(nibble_kernel, formats, 40);
AT(nibble_kernel, format_count, 48);
AT(nibble_kernel, types, 56);
AT(nibble_kernel, type_count, 64);
AT(nibble_kernel, self, 72);
AT(nibble_kernel, supports, 80);
AT(nibble_kernel, query, 88);
AT(nibble_kernel, execute, 96);

SIZE(nibble_memory, 64);
AT(nibble_memory, struct_size, 0);
AT(nibble_memory, reserved, 4);
AT(nibble_memory, allocate, 8);
AT(nibble_memory, release, 16);
AT(nibble_memory, to_device, 24);
AT(nibble_memory, to_host, 32);
AT(nibble_memory, synchronize, 40);
AT(nibble_memory, stream_create, 48);
AT(nibble_memory, stream_destroy, 56);

SIZE(nibble_plugin, 80);
AT(nibble_plugin, struct_size, 0);
AT(nibble_plugin, abi_major, 4);
AT(nibble_plugin, abi_minor, 8);
AT(nibble_plugin, device_type, 12);
AT(nibble_plugin, name, 16);
AT(nibble_plugin, version, 24);
AT(nibble_plugin, kernels, 32);
AT(nibble_plugin, kernel_count, 40);
AT(nibble_plugin, open, 48);
AT(nibble_plugin, device_count, 56);
AT(nibble_plugin, device_caps, 64);
AT(nibble_plugin, memory, 72);

IS(NIBBLE_OK, 0);
IS(NIBBLE_INVALID_ARGUMENT, 1);
IS(NIBBLE_UNSUPPORTED, 2);
IS(NIBBLE_OUT_OF_MEMORY, 3);
IS(NIBBLE_DEVICE_ERROR, 4);
IS(NIBBLE_NOT_FOUND, 5);
IS(NIBBLE_BAD_FILE, 6);
IS(NIBBLE_IO_ERROR, 7);
IS(NIBBLE_BAD_SETTING, 8);
IS(NIBBLE_INTERNAL, 9);

IS(NIBBLE_DEVICE_CPU, 1);
IS(NIBBLE_DEVICE_CUDA, 2);
IS(NIBBLE_DEVICE_HIP, 10);

IS(NIBBLE_F32, 0);
IS(NIBBLE_F16, 1);
IS(NIBBLE_Q4_0, 2);
IS(NIBBLE_Q4_1, 3);
IS(NIBBLE_Q5_0, 6);
IS(NIBBLE_Q5_1, 7);
IS(NIBBLE_Q8_0, 8);
IS(NIBBLE_Q2_K, 10);
IS(NIBBLE_Q3_K, 11);
IS(NIBBLE_Q4_K, 12);
IS(NIBBLE_Q5_K, 13);
IS(NIBBLE_Q6_K, 14);
IS(NIBBLE_IQ2_XXS, 16);
IS(NIBBLE_IQ2_XS, 17);
IS(NIBBLE_IQ3_XXS, 18);
IS(NIBBLE_IQ1_S, 19);
IS(NIBBLE_IQ4_NL, 20);
IS(NIBBLE_IQ3_S, 21);
IS(NIBBLE_IQ2_S, 22);
IS(NIBBLE_IQ4_XS, 23);
IS(NIBBLE_I8, 24);
IS(NIBBLE_I16, 25);
IS(NIBBLE_I32, 26);
IS(NIBBLE_I64, 27);
IS(NIBBLE_F64, 28);
IS(NIBBLE_IQ1_M, 29);
IS(NIBBLE_BF16, 30);
IS(NIBBLE_TQ1_0, 34);
IS(NIBBLE_TQ2_0, 35);
IS(NIBBLE_MXFP4, 39);
IS(NIBBLE_NVFP4, 40);
IS(NIBBLE_Q1_0, 41);
IS(NIBBLE_Q2_0, 42);
IS(NIBBLE_NF4, 256);
IS(NIBBLE_FP4, 257);
IS(NIBBLE_BLOCKWISE8, 258);
IS(NIBBLE_U8, 512);

IS(NIBBLE_OP_DEQUANTIZE, 1);
IS(NIBBLE_OP_OUT_PROD, 2);
IS(NIBBLE_OP_LINEAR, 3);

IS(NIBBLE_MATH_DEFAULT, 0);
IS(NIBBLE_MATH_F32, 1);
IS(NIBBLE_MATH_TF32, 2);
IS(NIBBLE_MATH_BF16, 3);

IS(NIBBLE_FLAG_ACCUMULATE, 1);

IS(NIBBLE_ISA_PORTABLE, 1);
IS(NIBBLE_ISA_SSE4, 2);
IS(NIBBLE_ISA_AVX2, 4);
IS(NIBBLE_ISA_AVX512, 8);
IS(NIBBLE_ISA_NEON, 16);

IS(NIBBLE_TIER_REFERENCE, 1);
IS(NIBBLE_TIER_GENERIC, 2);
IS(NIBBLE_TIER_TUNED, 3);
IS(NIBBLE_TIER_BY_RULE, 4);
