/* The whole contract between the host (libnibble) and a plugin that brings kernels.
 * Apart from everything else, and in C11, so that a plugin needs this one file and any compiler.
 *
 * Rules that hold throughout:
 *  - A struct that may grow begins with its size; a field newer than 1.0 is read only where that size covers it.
 *    nibble_tensor and nibble_weight are embedded by value and do not change within a major version.
 *  - Counts, sizes, offsets and strides are 64-bit. Enumerations are fixed-width and open: a reader meets values
 *    that it does not know and refuses them by name.
 *  - Nothing here throws, aborts, exits or prints. A failure is a status and one line in a buffer of the caller's.
 *  - Dimensions are listed innermost first: shape[0] is the one whose values are neighbours in memory.
 */
#ifndef NIBBLE_ABI_H
#define NIBBLE_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Major: layout or meaning changed. Minor: fields or enumerators were appended. */
#define NIBBLE_ABI_MAJOR 1u
#define NIBBLE_ABI_MINOR 0u

/* The one symbol that a plugin exports; its type is nibble_plugin_query_fn. */
#define NIBBLE_PLUGIN_SYMBOL "nibble_plugin_query"

#if defined(__GNUC__)
#define NIBBLE_EXPORT __attribute__((visibility("default")))
#else
#define NIBBLE_EXPORT
#endif

typedef int32_t nibble_status;
enum {
  NIBBLE_OK = 0,
  NIBBLE_INVALID_ARGUMENT = 1, /* the request is wrong: a shape, a stride, a missing tensor */
  NIBBLE_UNSUPPORTED = 2,      /* right, but no kernel here serves it */
  NIBBLE_OUT_OF_MEMORY = 3,
  NIBBLE_DEVICE_ERROR = 4, /* the device's runtime failed */
  NIBBLE_NOT_FOUND = 5,    /* a name that does not exist: a tensor, a kernel, a file */
  NIBBLE_BAD_FILE = 6,     /* a file's content breaks its format */
  NIBBLE_IO_ERROR = 7,     /* the operating system refused to read or write */
  NIBBLE_BAD_SETTING = 8,  /* an environment variable or a registry setting */
  NIBBLE_INTERNAL = 9
};

/* Device types carry DLPack's numbers. */
typedef int32_t nibble_device_type;
enum { NIBBLE_DEVICE_CPU = 1, NIBBLE_DEVICE_CUDA = 2, NIBBLE_DEVICE_HIP = 10 };

/* Formats and element types, one numbering. Below 256: the type numbers of GGUF. */
typedef uint32_t nibble_format;
enum {
  NIBBLE_F32 = 0,
  NIBBLE_F16 = 1,
  NIBBLE_Q4_0 = 2,
  NIBBLE_Q4_1 = 3,
  NIBBLE_Q5_0 = 6,
  NIBBLE_Q5_1 = 7,
  NIBBLE_Q8_0 = 8,
  NIBBLE_Q2_K = 10,
  NIBBLE_Q3_K = 11,
  NIBBLE_Q4_K = 12,
  NIBBLE_Q5_K = 13,
  NIBBLE_Q6_K = 14,
  NIBBLE_IQ2_XXS = 16,
  NIBBLE_IQ2_XS = 17,
  NIBBLE_IQ3_XXS = 18,
  NIBBLE_IQ1_S = 19,
  NIBBLE_IQ4_NL = 20,
  NIBBLE_IQ3_S = 21,
  NIBBLE_IQ2_S = 22,
  NIBBLE_IQ4_XS = 23,
  NIBBLE_I8 = 24,
  NIBBLE_I16 = 25,
  NIBBLE_I32 = 26,
  NIBBLE_I64 = 27,
  NIBBLE_F64 = 28,
  NIBBLE_IQ1_M = 29,
  NIBBLE_BF16 = 30,
  NIBBLE_TQ1_0 = 34,
  NIBBLE_TQ2_0 = 35,
  NIBBLE_MXFP4 = 39,
  NIBBLE_NVFP4 = 40,
  NIBBLE_Q1_0 = 41,
  NIBBLE_Q2_0 = 42,
  NIBBLE_NF4 = 256,        /* bitsandbytes, statistics beside it */
  NIBBLE_FP4 = 257,        /* bitsandbytes, statistics beside it */
  NIBBLE_BLOCKWISE8 = 258, /* bitsandbytes, 256 codes and statistics beside it */
  NIBBLE_U8 = 512          /* bytes: compressed statistics */
};

/* A borrowed view. The owner keeps the memory alive until the call's work is done on its stream.
 *
 * Byte strides: for an element type byte_stride[0] is the distance between neighbours; for a block format it is the
 * size of a block, and byte_stride[1] the distance between rows. A stride of 0 repeats. NF4, FP4 and BLOCKWISE8 run
 * over the whole tensor without regard to rows: they are contiguous and their strides are not read. */
typedef struct nibble_tensor {
  void* data;           /* base, or NULL where only a choice is asked for */
  uint64_t byte_offset; /* of the first element from data */
  nibble_device_type device_type;
  int32_t device_index;
  nibble_format format;
  uint32_t rank;          /* 1 to 4; 0: the tensor is absent */
  int64_t shape[4];       /* in values, innermost first; 1 beyond rank */
  int64_t byte_stride[4]; /* in bytes */
} nibble_tensor;

/* A weight in any format. For GGUF formats `packed` is all of it. For bitsandbytes formats:
 *   plain:  absmax f32 [blocks]
 *   nested: absmax u8 [blocks], nested_code f32 [256], nested_absmax f32 [groups], nested_offset;
 *           scale = (nested_code[absmax[b]] * nested_absmax[b / nested_block_size]) + nested_offset
 * `packed.shape` is the logical shape, in values. All of a weight's tensors live on one device. */
typedef struct nibble_weight {
  nibble_tensor packed;
  nibble_tensor code; /* f32 [256], BLOCKWISE8 only */
  nibble_tensor absmax;
  nibble_tensor nested_absmax;
  nibble_tensor nested_code;
  int64_t block_size;        /* values a block */
  int64_t nested_block_size; /* blocks a group; 0 where plain */
  float nested_offset;
  uint32_t reserved; /* 0 */
} nibble_weight;

typedef uint32_t nibble_op;
enum {
  NIBBLE_OP_DEQUANTIZE = 1, /* dst = weight's values */
  NIBBLE_OP_OUT_PROD = 2,   /* dst[i0,i1,i2,i3] = sum over k of weight[i0,k,i2/r2,i3/r3] * src1[i1,k,i2,i3] */
  NIBBLE_OP_LINEAR = 3      /* dst[o,t] = sum over i of weight[i,o] * src1[i,t], + bias[o] */
};

/* Precision classes, stricter first. A kernel serves requests of its own class and looser ones. */
typedef uint32_t nibble_math;
enum { NIBBLE_MATH_DEFAULT = 0, NIBBLE_MATH_F32 = 1, NIBBLE_MATH_TF32 = 2, NIBBLE_MATH_BF16 = 3 };

enum { NIBBLE_FLAG_ACCUMULATE = 1u }; /* OUT_PROD: add to dst instead of writing it */

/* One call. The same request goes to supports, query and execute. */
typedef struct nibble_request {
  uint32_t struct_size;
  nibble_op op;
  nibble_math math;
  uint32_t flags;
  nibble_weight weight;           /* src0 */
  nibble_tensor src1;             /* OUT_PROD, LINEAR: f32, f16 or bf16 */
  nibble_tensor bias;             /* LINEAR, optional */
  nibble_tensor dst;              /* f32, f16 or bf16 */
  uint64_t workspace_limit_bytes; /* most transient memory that query may ask for; 0: no limit given */
  uint32_t threads;               /* CPU: most threads to use; 0: all that the process may use */
  uint32_t reserved;              /* 0 */
} nibble_request;

/* CPU instruction sets that the processor has and the operating system has enabled. */
enum {
  NIBBLE_ISA_PORTABLE = 1u << 0,
  NIBBLE_ISA_SSE4 = 1u << 1,
  NIBBLE_ISA_AVX2 = 1u << 2,
  NIBBLE_ISA_AVX512 = 1u << 3,
  NIBBLE_ISA_NEON = 1u << 4
};

/* What a device is. Selection sees nothing else of it, so an invented one is as good as a real one. */
typedef struct nibble_caps {
  uint32_t struct_size;
  nibble_device_type device_type;
  int32_t device_index; /* -1: invented */
  uint32_t arch_major;  /* CUDA: compute capability; else 0 */
  uint32_t arch_minor;
  uint32_t lanes; /* of a warp or wavefront; 1 on a CPU */
  uint64_t isa;   /* CPU: NIBBLE_ISA_*; else 0 */
  uint64_t memory_bytes;
  uint64_t cache_bytes;            /* last level on the chip */
  uint64_t shared_bytes_per_block; /* GPU, opt-in maximum */
  uint32_t processors;             /* GPU: multiprocessors; CPU: threads that the process may use */
  uint32_t reserved;
  char arch[32]; /* "10.3", "gfx90a", "avx512" */
  char name[96]; /* the product's name */
} nibble_caps;

/* One line of text, written by the callee into memory of the caller's, always ended by a zero. */
typedef struct nibble_text {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t capacity; /* bytes at data, the zero included; may be 0 */
  char* data;
} nibble_text;

typedef struct nibble_workspace_need {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t bytes;         /* serves best, within the request's limit */
  uint64_t minimum_bytes; /* still correct with this little */
  uint64_t alignment;     /* a power of two */
} nibble_workspace_need;

typedef uint32_t nibble_tier;
enum {
  NIBBLE_TIER_REFERENCE = 1,
  NIBBLE_TIER_GENERIC = 2,
  NIBBLE_TIER_TUNED = 3,
  NIBBLE_TIER_BY_RULE = 4 /* never chosen by tier: a rule or an override brings it in */
};

/* A kernel is a row of data. Dispatch, tests, benchmarks and the support table walk these rows. */
typedef struct nibble_kernel nibble_kernel;
struct nibble_kernel {
  uint32_t struct_size;
  nibble_op op;
  const char* name; /* <back end>.<op>.<algorithm>[.<isa>] */
  nibble_tier tier;
  uint32_t rank;    /* within a tier of one back end: higher is chosen first */
  nibble_math math; /* the class that it achieves; DEFAULT for DEQUANTIZE */
  nibble_device_type device_type;
  uint64_t isa;                 /* CPU: all of these are needed */
  const nibble_format* formats; /* of the weight */
  uint64_t format_count;
  const nibble_format* types; /* of dst */
  uint64_t type_count;
  const void* self; /* the plugin's own; the host does not look */

  /* Needs beyond the fields above. Pure: reads neither data nor byte_offset, contacts no driver. NIBBLE_OK, or
   * NIBBLE_UNSUPPORTED with the reason in why. May be NULL: nothing more is needed. */
  nibble_status (*supports)(const nibble_kernel*, const nibble_caps*, const nibble_request*, nibble_text* why);

  /* The workspace for a request that supports accepted, and whose dst has elements. Pure likewise. NULL: none is
   * needed. */
  nibble_status (*query)(const nibble_kernel*, const nibble_caps*, const nibble_request*, nibble_workspace_need*,
                         nibble_text* why);

  /* Enqueues the work on stream (a CPU does it before it returns and ignores stream). Neither allocates on the
   * device, nor synchronizes, nor touches another stream. Never writes an input. Reentrant. */
  nibble_status (*execute)(const nibble_kernel*, const nibble_caps*, const nibble_request*, void* workspace,
                           uint64_t workspace_bytes, void* stream, nibble_text* why);
};

/* Memory of a device, for callers that do not link its runtime. Each function may be called from any thread. What one
 * back end allocates on a device, every other back end's kernels there can read and write. */
typedef struct nibble_memory {
  uint32_t struct_size;
  uint32_t reserved;
  nibble_status (*allocate)(int32_t device, uint64_t bytes, void* stream, void** out, nibble_text* why);
  nibble_status (*release)(int32_t device, void* data, void* stream, nibble_text* why);
  nibble_status (*to_device)(int32_t device, void* dst, const void* host_src, uint64_t bytes, void* stream,
                             nibble_text* why);
  nibble_status (*to_host)(int32_t device, void* host_dst, const void* src, uint64_t bytes, void* stream,
                           nibble_text* why); /* done when it returns */
  nibble_status (*synchronize)(int32_t device, void* stream, nibble_text* why);
  nibble_status (*stream_create)(int32_t device, void** out, nibble_text* why); /* non-blocking */
  nibble_status (*stream_destroy)(int32_t device, void* stream, nibble_text* why);
} nibble_memory;

/* Static data that nibble_plugin_query returns. */
typedef struct nibble_plugin {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  nibble_device_type device_type;
  const char* name;    /* the back end: "cpu", "cuda"; first part of its kernels' names */
  const char* version; /* the plugin's own */
  const nibble_kernel* const* kernels;
  uint64_t kernel_count;
  nibble_status (*open)(nibble_text* why); /* may be NULL; before anything below, once a registry; no driver contact */
  nibble_status (*device_count)(int32_t* out, nibble_text* why); /* 0 is a normal answer, with the reason in why */
  nibble_status (*device_caps)(int32_t device, nibble_caps* out, nibble_text* why);
  /* For its kernels' workspaces, and for callers. NULL on a CPU: the host's own memory serves. NULL elsewhere: that of
   * another back end that has the device, without which its kernels are not used. */
  const nibble_memory* memory;
} nibble_plugin;

/* Pure: no allocation, no driver contact. NULL where host_major is not spoken. */
typedef const nibble_plugin* (*nibble_plugin_query_fn)(uint32_t host_major, uint32_t host_minor);

#ifdef __cplusplus
}
#endif
#endif
