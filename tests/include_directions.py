"""Checks that includes and a few calls go only in the directions that the layout allows, and that shared kernels know no warp.

Apart from the compiler's checks because the compiler would let any file include any other.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])

# Folder -> folders whose headers it may include, besides its own and include/nibble.
ALLOWED = {
    "core": [],
    "io": ["core"],
    "dispatch": ["core", "backends/reference"],
    "backends/reference": ["core"],
    "backends/cpu": ["core"],
    "backends/gpu": ["core"],
    "backends/cuda": ["core", "backends/gpu"],
    "backends/cuda_sm103": ["core", "backends/gpu", "backends/cuda"],
    "backends/hip": ["core", "backends/gpu"],
    "tools": [],
    "bench": [],
}
# Public headers of the layers above: only these folders may include them.
PUBLIC = {
    "nibble/nibble.hpp": ["dispatch", "tools", "bench"],
    "nibble/io.hpp": ["io", "tools", "bench"],
}
# What may stand in a few places only.
RARE = {
    r"\bgetenv\s*\(": ["dispatch/overrides.cpp", "bench/library.cpp"],
    r"\bdlopen\s*\(": ["dispatch/loader.cpp", "bench/library.cpp"],
    r"\b__(CUDACC|HIPCC|CUDA_ARCH|HIP_DEVICE_COMPILE)__\b": ["core/numeric.h", "backends/gpu/device.h"],
    r"<tbb/|<oneapi/tbb": ["backends/cpu/threads.h", "backends/cpu/threads.cpp"],
}
# Kernels in backends/gpu run in warps of 32 and in wavefronts of 64: so threads meet in shared memory and at barriers of the whole block,
# and nothing there asks for, or exchanges values within, a warp. A kernel for one maker's GPUs alone lies in that back end.
LANES = r"\b(__shfl\w*|__ballot\w*|__(any|all|any_sync|all_sync)(?=\s*\()|__activemask|__syncwarp|__match_\w+|__reduce_\w+|warpSize|" \
        r"cooperative_groups|__lane_id|lane_?id|__builtin_amdgcn_\w+|mma_sync|wmma)\b"
KERNEL = r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\("
SUFFIXES = {".h", ".hpp", ".cpp", ".cu", ".cuh"}


def folder_of(path):
    """The layer that a file belongs to, the longest that fits."""
    return max((f for f in ALLOWED if path.startswith(f + "/")), key=len, default=None)


def faults_of(path, text):
    folder = folder_of(path)
    for include in re.findall(r'^\s*#include\s+[<"]([^>"]+)[>"]', text, re.M):
        if include in PUBLIC and folder not in PUBLIC[include]:
            yield f"{path} includes {include}: expected only {', '.join(PUBLIC[include])} to"
        target = folder_of(include)
        if target and target != folder and target not in ALLOWED[folder]:
            yield f"{path} includes {include}: expected {folder} to include {', '.join(ALLOWED[folder]) or 'itself'} alone"
    if folder == "backends/gpu":
        for found in re.finditer(LANES, re.sub(r"//.*", "", text)):
            yield f"{path} holds {found[0]}: expected nothing there to depend on a warp's width"
    for pattern, places in RARE.items():
        if re.search(pattern, text) and path not in places:
            yield f"{path} holds {pattern}: expected it only in {', '.join(places)}"


def twins(seen):
    """Kernels that two files define: a back end shares what it can, and what it has alone is called otherwise."""
    places = {}
    for path, text in seen.items():
        for name in re.findall(KERNEL, text):
            places.setdefault(name, []).append(path)
    for name, where in places.items():
        if len(where) > 1:
            yield f"kernel {name} is defined in {', '.join(where)}: expected one place"


def main():
    files = [p for f in ALLOWED for p in sorted((ROOT / f).rglob("*")) if p.suffix in SUFFIXES]
    seen = {str(p.relative_to(ROOT)): p.read_text() for p in files}
    faults = [fault for path, text in seen.items() for fault in faults_of(path, text)] + list(twins(seen))
    for fault in faults:
        print(fault)
    # The check must be able to fail: a made-up offender is one.
    probe = list(faults_of("core/probe.h", '#include "dispatch/select.h"\n#include <nibble/nibble.hpp>\nint x = getenv("A");'))
    probe += faults_of("backends/gpu/probe.h", "x = __shfl_xor_sync(m, x, 16); __syncwarp(); if (__any (x)) n = warpSize;  // wmma")
    probe += twins({"a.h": "__global__ void __launch_bounds__(kThreads, 2)\n    k(int)", "b.h": "__global__ void k(float)", **seen})
    if len(probe) != 8:
        print(f"the probe has {len(probe)} faults: expected 8")
        return 1
    print(f"{len(seen)} files, {len(faults)} faults")
    return 1 if faults or len(seen) < 50 else 0


sys.exit(main())
