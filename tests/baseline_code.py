"""Looks through machine code for instructions that not every x86-64 has, outside the functions that are made for them.

Apart from the tests that run code because this processor has the instructions: only reading finds them.
Usage: baseline_code.py FILE...
"""
import re
import subprocess
import sys

# Highway's namespaces, and what a function that names one may use beside SSE2.
TAGGED = {"N_SSE4": "sse4", "N_AVX2": "avx", "N_AVX3": "avx512"}
SETS = {
    "avx512": re.compile(r"%zmm|%k[0-7]\b|%[xy]mm(1[6-9]|2\d|3[01])\b"),
    "avx": re.compile(r"^v(?!err|erw|mcall)|%ymm|^(andn|bextr|bls\w+|bzhi|lzcnt|mulx|pdep|pext|rorx|sarx|shlx|shrx|movbe|ad[co]x)\b"),
    "sse4": re.compile(
        r"^(pshufb|phadd\w+|phsub\w+|pmulhrsw|pmaddubsw|psign\w|pabs\w|palignr|pmov[sz]x\w+|p?blend\w+|round[ps][sd]|"
        r"pmin(sb|uw|ud|sd)|pmax(sb|uw|ud|sd)|pmulld|pmuldq|packusdw|pcmpeqq|pcmpgtq|ptest|pinsr[bdq]|pextr[bdq]|"
        r"extractps|insertps|dpp[sd]|mpsadbw|movntdqa|pcmp[ei]str\w|crc32\w?|popcnt\w?|pclmul\w+|aes\w+|"
        r"addsubp[sd]|haddp[sd]|hsubp[sd]|lddqu|movddup|movs[hl]dup)\b"),
}
ORDER = ["sse4", "avx", "avx512"]


def needed(instruction):
    return next((s for s in reversed(ORDER) if SETS[s].search(instruction)), None)


def allowed(function):
    return max((ORDER.index(s) for tag, s in TAGGED.items() if tag in function), default=-1)


def scan(path):
    """Functions seen, instructions of each set in tagged functions, and the faults."""
    text = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    function, functions, tagged, faults = "", 0, {s: 0 for s in ORDER}, []
    for line in text.stdout.splitlines():
        if head := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            function, functions = head[1], functions + 1
        elif code := re.match(r"\s+[0-9a-f]+:\t(.*)", line):
            need = needed(code[1])
            if need and ORDER.index(need) > allowed(function):
                faults.append(f"{path}: {function}: {code[1].strip()}: expected no {need} there")
            elif need:
                tagged[need] += 1
    return functions, tagged, faults


# The patterns must be able to find something.
for probe, expected in {"vmovdqu (%rax),%ymm0": "avx", "vpaddd %zmm1,%zmm2,%zmm3": "avx512", "pshufb %xmm1,%xmm0": "sse4",
                        "popcnt %rax,%rax": "sse4", "paddd %xmm1,%xmm0": None, "verr %ax": None}.items():
    if needed(probe) != expected:
        sys.exit(f"{probe} needs {needed(probe)}: expected {expected}")

failed = False
for path in sys.argv[1:]:
    functions, tagged, faults = scan(path)
    print(f"{path}: {functions} functions, in tagged ones {tagged}, {len(faults)} faults")
    print("\n".join(faults[:20]))
    failed |= bool(faults) or functions < 10
    # The plugin is full of them: none found means that its names were stripped, or that the scan is blind.
    failed |= path.endswith("nibble_cpu.so") and not all(tagged.values())
sys.exit(1 if failed else 0)
