"""Checks that conformance fails where it must: on rows that are wrong on purpose, and on runs that tested nothing.

Apart from the suite because a suite cannot say of itself that it fails.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAM, PLUGINS = sys.argv[1], sys.argv[2]
faults = []


def run(*arguments, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NIBBLE_")}
    environment |= {"NIBBLE_PLUGIN_PATH": PLUGINS, "NIBBLE_BACKEND": "faulty", "NIBBLE_CONFORMANCE": "reduced"}
    environment |= variables
    return subprocess.run([PROGRAM, *arguments], env=environment, capture_output=True, text=True)


def expect(what, condition):
    if not condition:
        faults.append(what)


def rows_of(lines):
    return {m.group(1) for m in re.finditer(r"(faulty\.\w+\.\w+)/", lines)}


def listed_tests(**variables):
    """Full names."""
    suite, names = "", []
    for line in run("--gtest_list_tests", **variables).stdout.splitlines():
        if line.startswith("  "):
            names.append(suite + line.strip())
        else:
            suite = line
    return names


whole = listed_tests()
shards = [listed_tests(GTEST_TOTAL_SHARDS="3", GTEST_SHARD_INDEX=str(i)) for i in range(3)]
expect("shards do not have each test once", whole and sorted(whole) == sorted(sum(shards, [])))
cases = [{re.sub(r"faulty\.\w+\.\w+/", "", name) for name in shard} for shard in shards]
expect("a case's rows are in two shards", sum(map(len, cases)) == len(set.union(*cases)))
for index in ("3", "x", ""):
    bad = run("--gtest_list_tests", GTEST_TOTAL_SHARDS="3", GTEST_SHARD_INDEX=index)
    expect(f"shard '{index}' of 3 passed", bad.returncode == 2 and f"GTEST_SHARD_INDEX='{index}'" in bad.stderr)
all_rows = rows_of("\n".join(whole))
done = run(NIBBLE_TEST_REQUIRE="faulty")
reruns = re.findall(r"^rerun: .*--gtest_filter='(.*)'$", done.stdout, re.M)
failed = rows_of("\n".join(reruns))
honest, idle, elsewhere = ({row for row in all_rows if row.endswith("." + name)}
                           for name in ("honest", "refuses_all", "for_other_processors"))
expect(f"there are {len(all_rows)} rows, {len(honest)} of them honest: expected 46 and 3",
       (len(all_rows), len(honest)) == (46, 3))
expect(f"honest rows failed: {sorted(honest & failed)}", not honest & failed)
empty_claims = re.findall(r"^FAILED: (\S+) never ran with what it claims to serve: f32 q4_0 nf4$", done.stdout, re.M)
expect(f"empty claims: {empty_claims}", sorted(empty_claims) == sorted(idle))
not_here = re.findall(r"^(\S+): 0 executed, 0 of 3 formats; 3 for other devices: needs avx512, ", done.stdout, re.M)
expect(f"rows for other processors: {not_here}", sorted(not_here) == sorted(elsewhere))
wrong = all_rows - honest - idle - elsewhere
expect(f"faults that were not found: {sorted(wrong - failed)}", wrong == failed)
expect(f"faults were found and the status is {done.returncode}: expected 1", done.returncode == 1)
again = run(f"--gtest_filter={reruns[0]}")
expect("a rerun line does not run its one failure", again.returncode == 1 and again.stdout.count("rerun: ") == 1)

GOOD = "dequantize.faulty.dequantize.honest/q4_0/f32_contiguous"
BAD = "dequantize.faulty.dequantize.one_bit/q4_0/f32_contiguous"
one = f"--gtest_filter={GOOD}"
expect("an honest case did not pass", run(one).returncode == 0)
expect("a run of nothing passed", run("--gtest_filter=none").returncode == 1)
expect("a required back end that is not there passed", run(one, NIBBLE_TEST_REQUIRE="faulty,cuda").returncode == 1)
expect("a required back end that ran did not pass", run(one, NIBBLE_TEST_REQUIRE="faulty").returncode == 0)
expect("an unknown mode passed", run(one, NIBBLE_CONFORMANCE="quick").returncode == 2)

with tempfile.TemporaryDirectory() as folder:
    listed = pathlib.Path(folder, "expected_failures.txt")
    for text, test, status in ((f"{BAD}: a bit is wrong on purpose\n", BAD, 0), (f"{GOOD}: not at all\n", GOOD, 1),
                               ("no reason\n", GOOD, 2)):
        listed.write_text(text)
        got = run(f"--gtest_filter={test}", NIBBLE_TEST_DATA=folder).returncode
        expect(f"with the expected failures {text!r} the status is {got}: expected {status}", got == status)

for fault in faults:
    print(fault)
print(f"{len(wrong | idle)} faults, {len(reruns)} failures, {len(faults)} not as expected")
sys.exit(1 if faults else 0)
