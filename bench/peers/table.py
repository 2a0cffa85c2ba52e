"""The table of bench/peers/run: ratios within one run, from the best of each measurement.

Apart from the command so that a table can be made again from a file of results: python3 table.py RESULTS.json
"""
import json
import pathlib
import re
import sys

KEPT = ("GB/s", "moved_GB/s", "GFLOP/s")


def best_of(results):
    """Google Benchmark's runs as the best and the median of each counter. Rates are by the process's CPU time over its
    threads, which leaves out the turns of other programs, but counts threads that wait for each other as working."""
    rates = {}
    for run in results["benchmarks"]:
        name = run["name"].replace("/process_time", "").replace("/real_time", "")
        threads = 2 if "threads:2" in name else 1
        unshared = run["real_time"] / (run["cpu_time"] / threads)
        for counter in KEPT:
            if counter in run:
                rates.setdefault(name, {}).setdefault(counter, []).append(run[counter] * unshared)
    context = {k: results["context"].get(k) for k in ("date", "num_cpus", "caches", "load_avg")}
    return {"context": context, "rates": {name: {c: {"best": round(max(v), 2), "median": round(sorted(v)[len(v) // 2], 2)}
                                                 for c, v in counters.items()} for name, counters in rates.items()}}


class Rates:
    def __init__(self, rates):
        self.rates = rates

    def of(self, name, counter):
        found = self.rates.get(name, {}).get(counter)
        return found["best"] if found else None


def ratio(a, b):
    return f"{a / b:8.2f}" if a and b else f"{'-':>8}"


def rate(a):
    return f"{a:8.1f}" if a else f"{'-':>8}"


def in_order(names):
    return sorted(names, key=lambda n: [int(d) if d.isdigit() else d for d in re.split(r"(\d+)", n)])


def decoding(rates):
    q8_0 = rates.of("ggml.dequantize/q8_0/values:16384", "GB/s")
    copies = {t: rates.of(f"streaming_copy/values:67108864/threads:{t}", "moved_GB/s") for t in (1, 2)}
    yield "dequantize. Resident: 16,384 values, one thread, GB/s of f32 written, over ggml's Q8_0, over the rival's same format;"
    yield "f16 and bf16 in values a second over ggml's Q8_0. Streamed: 64 Mi values, bytes moved over a streaming copy's."
    fill = rates.of("streaming_fill/values:67108864/threads:2", "moved_GB/s")
    yield (f"ggml Q8_0 {rate(q8_0).strip()} GB/s; streaming copy {rate(copies[1]).strip()} GB/s, with two threads "
           f"{rate(copies[2]).strip()}, streaming fill with two threads {rate(fill).strip()}; blockwise8's shuffles alone "
           f"{rate(rates.of('table256_shuffles', 'GB/s')).strip()}")
    yield f"{'format':12}" + "".join(f"{h:>9}" for h in ("f32 GB/s", "/Q8_0", "/rival", "f16", "bf16", "f32 2t", "f16 2t", "bf16 2t"))
    for name in in_order(rates.rates):
        found = re.fullmatch(r"(cpu\.dequantize\.simd\.\w+/(\w+))/to_f32/values:16384/threads:1", name)
        if not found:
            continue
        row, weight = found.groups()
        ours = {to: rates.of(f"{row}/to_{to}/values:16384/threads:1", "GB/s") for to in ("f32", "f16", "bf16")}
        rival = rates.of(f"ggml.dequantize/{weight}/values:16384", "GB/s") or rates.of(
            f"bitsandbytes.dequantize/{weight}/to_f32/values:16384", "GB/s")
        streamed = [ratio(rates.of(f"{row}/to_{to}/values:67108864/threads:{t}", "moved_GB/s"), copies[t])
                    for to, t in (("f32", 2), ("f16", 2), ("bf16", 2))]
        cells = [rate(ours["f32"]), ratio(ours["f32"], q8_0), ratio(ours["f32"], rival)]
        cells += [ratio(2 * ours[to] if ours[to] else None, q8_0) for to in ("f16", "bf16")] + streamed
        yield f"{weight:12}" + "".join(f" {c}" for c in cells)


def products(rates):
    peaks = {t: rates.of(f"multiply_add_peak/threads:{t}", "GFLOP/s") for t in (1, 2)}
    yield "out_prod, W of 2048 x 8192: GFLOP/s, ms a call; over the multiply-add peak, over sgemm on expanded weights, over ggml's"
    yield f"peak {rate(peaks[1]).strip()} GFLOP/s, with two threads {rate(peaks[2]).strip()}"
    yield f"{'format':12}" + "".join(f"{h:>9}" for h in ("threads", "tokens", "GFLOP/s", "ms", "/peak", "/sgemm", "/ggml"))
    for name in in_order(rates.rates):
        found = re.fullmatch(r"cpu\.out_prod\.panels\.\w+/(\w+)/tokens:(\d+)/threads:(\d)/k:0", name)
        if not found:
            continue
        weight, tokens, threads = found.groups()
        ours = rates.of(name, "GFLOP/s")
        ms = 2e-6 * 2048 * 8192 * int(tokens) / ours
        rivals = [rates.of(f"{r}/tokens:{tokens}/threads:{threads}", "GFLOP/s")
                  for r in ("sgemm.out_prod/f32", f"ggml.out_prod/{weight}")]
        cells = [rate(ours), f"{ms:8.2f}", ratio(ours, peaks[int(threads)])] + [ratio(ours, r) for r in rivals]
        yield f"{weight:12}{threads:>9}{tokens:>9}" + "".join(f" {c}" for c in cells)
    yield ""
    yield "out_prod, 128 tokens, two threads, W of 2048 x K: GFLOP/s, over the multiply-add peak"
    for name in in_order(rates.rates):
        found = re.fullmatch(r"cpu\.out_prod\.panels\.\w+/(\w+)/tokens:128/threads:2/k:([1-9]\d*)", name)
        if found:
            yield f"{found[1]:12}{found[2]:>9} {rate(rates.of(name, 'GFLOP/s'))} {ratio(rates.of(name, 'GFLOP/s'), peaks[2])}"
    yield ""
    yield "linear, W of 2048 x 8192: GFLOP/s, over the multiply-add peak"
    for name in in_order(rates.rates):
        found = re.fullmatch(r"cpu\.linear\.panels\.\w+/(\w+)/tokens:(\d+)/threads:(\d)", name)
        if found:
            ours = rates.of(name, "GFLOP/s")
            yield f"{found[1]:12}{found[3]:>9}{found[2]:>9} {rate(ours)} {ratio(ours, peaks[int(found[3])])}"


SHOWN = {"q8_0": "Q8_0", "q4_k": "Q4_K", "q5_1": "Q5_1", "q6_k": "Q6_K", "mxfp4": "MXFP4", "iq2_xxs": "IQ2_XXS", "iq3_s": "IQ3_S",
         "tq1_0": "TQ1_0", "nf4": "NF4", "nf4_nested": "NF4, nested", "blockwise8": "8-bit blockwise", "f16": "F16"}


def bare(number):
    return number.strip() if number else "-"


def readme(rates, isa):
    """The README's two tables: what of the above a reader wants first."""
    q8_0 = rates.of("ggml.dequantize/q8_0/values:16384", "GB/s")
    copy = rates.of("streaming_copy/values:67108864/threads:2", "moved_GB/s")
    yield ("| decoding | to f32, 64 KiB, one thread, GB/s | over ggml's Q8_0 | over the rival's same format | "
           "256 MiB of f32, two threads, over a streaming copy | to f16 | to bf16 |")
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for weight, name in SHOWN.items():
        row = f"cpu.dequantize.simd.{isa}/{weight}"
        ours = rates.of(f"{row}/to_f32/values:16384/threads:1", "GB/s")
        rivals = {"ggml": rates.of(f"ggml.dequantize/{weight}/values:16384", "GB/s"),
                  "bitsandbytes": rates.of(f"bitsandbytes.dequantize/{weight}/to_f32/values:16384", "GB/s")}
        rival = next((f"{bare(ratio(ours, v))} ({k})" for k, v in rivals.items() if v), "-")
        streamed = [bare(ratio(rates.of(f"{row}/to_{to}/values:67108864/threads:2", "moved_GB/s"), copy)) for to in ("f32", "f16", "bf16")]
        yield f"| {' | '.join([name, bare(rate(ours)), bare(ratio(ours, q8_0)), rival, *streamed])} |"
    yield ""
    yield "| `out_prod`, Q4_K of 2048x8192, two threads | ms | GFLOP/s | of the multiply-add peak | over sgemm on expanded weights | over ggml |"
    yield "| --- | --- | --- | --- | --- | --- |"
    peak = rates.of("multiply_add_peak/threads:2", "GFLOP/s")
    for tokens in (1, 2, 4, 8, 16, 32, 64, 128, 512, 2048):
        of = [rates.of(f"{name}/tokens:{tokens}/threads:2{k}", "GFLOP/s") for name, k in (
            (f"cpu.out_prod.panels.{isa}/q4_k", "/k:0"), ("sgemm.out_prod/f32", ""), ("ggml.out_prod/q4_k", ""))]
        if of[0]:
            cells = [f"{2e-6 * 2048 * 8192 * tokens / of[0]:.2f}"] + [
                bare(c) for c in (rate(of[0]), ratio(of[0], peak), ratio(of[0], of[1]), ratio(of[0], of[2]))]
            yield f"| {tokens} token{'s' if tokens > 1 else ''} | {' | '.join(cells)} |"


def isa_of(rates):
    return next((m[1] for n in rates.rates if (m := re.match(r"cpu\.dequantize\.simd\.(\w+)/", n))), "avx512")


def text(best):
    rates = Rates(best["rates"])
    return "\n".join([*decoding(rates), "", *products(rates), "", *readme(rates, isa_of(rates))])


if __name__ == "__main__":
    print(text(json.loads(pathlib.Path(sys.argv[1]).read_text())))
