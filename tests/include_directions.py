"""Checks that includes and a few calls go only in the directions that the layout allows.

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
    for pattern, places in RARE.items():
        if re.search(pattern, text) and path not in places:
            yield f"{path} holds {pattern}: expected it only in {', '.join(places)}"


def main():
    files = [p for f in ALLOWED for p in sorted((ROOT / f).rglob("*")) if p.suffix in SUFFIXES]
    seen = {str(p.relative_to(ROOT)): p.read_text() for p in files}
    faults = [fault for path, text in seen.items() for fault in faults_of(path, text)]
    for fault in faults:
        print(fault)
    # The check must be able to fail: a made-up offender is one.
    probe = list(faults_of("core/probe.h", '#include "dispatch/select.h"\n#include <nibble/nibble.hpp>\nint x = getenv("A");'))
    if len(probe) != 3:
        print(f"the probe has {len(probe)} faults: expected 3")
        return 1
    print(f"{len(seen)} files, {len(faults)} faults")
    return 1 if faults or len(seen) < 50 else 0


sys.exit(main())
