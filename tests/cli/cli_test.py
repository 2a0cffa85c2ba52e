"""The command `nibble` as a user runs it: values, exit statuses, error lines, JSON.

Apart from the unit tests because it sees the binary alone. NIBBLE_BIN and NIBBLE_TEST_DATA name the binary and
tests/data; NIBBLE_WRONG_PLUGIN_DIR the folder of a plugin whose values are wrong on purpose.
"""
import json
import os
import pathlib
import re
import resource
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import weight_files as wf

BINARY = os.environ["NIBBLE_BIN"]
PLUGINS = pathlib.Path(BINARY).parents[1] / "lib/nibble"
DATA = pathlib.Path(os.environ["NIBBLE_TEST_DATA"])
GGML = DATA / "golden/ggml/ggml.gguf"
BNB = DATA / "golden/bitsandbytes/bnb.safetensors"

DONE, CHECK_FAILED, USAGE, UNSERVED, BAD_FILE = range(5)
PIECE_VALUES = 1 << 24  # more than this and the command works in pieces


def bf16_bits(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def nibble(self, *arguments, status=DONE, env=None, **options):
        """Runs the command; a failure must be one line that begins with the command's name."""
        result = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                                env={**os.environ, **(env or {})}, **options)
        self.assertEqual(result.returncode, status, f"{arguments}: {result.stdout[-2000:]}{result.stderr}")
        if status != DONE:
            lines = [x for x in result.stderr.splitlines() if not x.startswith("nibble: skipped: ")]
            self.assertEqual(len(lines), 1, result.stderr)
            self.assertTrue(lines[0].startswith("nibble: "), result.stderr)
        return result

    def fails(self, status, *arguments, says, **options):
        result = self.nibble(*arguments, status=status, **options)
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, result.stderr)
        return result

    def json(self, *arguments, **options):
        return json.loads(self.nibble(*arguments, "--json", **options).stdout)

    def assert_bits(self, name, dtype, expected, got):
        place = wf.first_difference(dtype, expected, got)
        self.assertIsNone(place, f"{name}: the first value that differs is number {place}")

    def assert_no_files(self, *but):
        self.assertEqual(sorted(x.name for x in self.folder.iterdir()), sorted(but))


class Dequantize(CommandTest):
    def test_every_gguf_value_is_the_reference_decoders(self):
        out = self.folder / "out.safetensors"
        self.nibble("dequantize", GGML, "-o", out)
        got, expected = wf.read_safetensors(out), wf.read_gguf(DATA / "golden/ggml/ggml-expected.gguf")
        self.assertEqual(len(expected), 54)
        self.assertEqual(set(got), set(expected))
        for name, (_, shape, values) in expected.items():
            self.assertEqual(got[name][:2], ("F32", shape[::-1]), name)
            self.assert_bits(name, "F32", values[: 4 * wf.product(shape)], got[name][2])

    def test_every_bitsandbytes_value_is_the_librarys(self):
        out = self.folder / "out.safetensors"
        skipped = self.nibble("dequantize", BNB, "-o", out).stderr.splitlines()
        got = wf.read_safetensors(out)
        expected = wf.read_safetensors(DATA / "golden/bitsandbytes/bnb-expected.safetensors")
        compared = 0
        for name, (dtype, shape, values) in expected.items():
            if name.startswith("dyn8_"):
                self.assertNotIn(name + ".weight", got)
                continue
            self.assertEqual(got[name + ".weight"][:2], (dtype, shape), name)
            self.assert_bits(name, dtype, values, got[name + ".weight"][2])
            compared += 1
        self.assertEqual(compared, 90)
        self.assertEqual(len([x for x in skipped if "dyn8_" in x]), 6, skipped)

    def test_halves_are_the_single_precision_value_rounded_once(self):
        name = "q6_K.quantized"
        _, shape, values = wf.read_gguf(DATA / "golden/ggml/ggml-expected.gguf")[name]
        singles = struct.unpack_from(f"<{wf.product(shape)}f", values)
        rounded = {"f16": struct.pack(f"<{len(singles)}e", *singles),
                   "bf16": struct.pack(f"<{len(singles)}H", *map(bf16_bits, singles))}
        for to, expected in rounded.items():
            out = self.folder / f"{to}.safetensors"
            self.nibble("dequantize", GGML, "-t", name, "--to", to, "-o", out)
            dtype, _, got = wf.read_safetensors(out)[name]
            self.assertEqual(dtype, to.upper())
            self.assert_bits(name, dtype, expected, got)

    def test_npy_holds_one_tensor(self):
        name, out = "q4_K.quantized", self.folder / "out.npy"
        _, shape, values = wf.read_gguf(DATA / "golden/ggml/ggml-expected.gguf")[name]
        self.nibble("dequantize", GGML, "-t", name, "-o", out)
        descr, npy_shape, got = wf.read_npy(out)
        self.assertEqual((descr, npy_shape), ("<f4", tuple(shape[::-1])))
        self.assert_bits(name, "F32", values[: 4 * wf.product(shape)], got)

    def test_plain_floats_pass_through(self):
        path, out = self.folder / "in.gguf", self.folder / "out.safetensors"
        values = struct.pack("<6f", 1, -0.0, 2.5, 1e-40, float("inf"), -3)
        wf.write_gguf(path, [("norm", "f32", [6], values), ("half", "f16", [2], struct.pack("<2e", 0.5, -2))])
        self.nibble("dequantize", path, "-o", out)
        got = wf.read_safetensors(out)
        self.assertEqual(got["norm"], ("F32", [6], values))
        self.assertEqual(got["half"], ("F32", [2], struct.pack("<2f", 0.5, -2)))

    def test_blocks_that_span_pieces(self):
        # Seven kinds of block, so that a piece that begins at the wrong one gives wrong values.
        kinds = [(2.0**k, [(q * (k + 1)) % 255 - 127 for q in range(32)]) for k in range(7)]
        blocks = [struct.pack("<e32b", d, *q) for d, q in kinds]
        values = [struct.pack("<32f", *(d * x for x in q)) for d, q in kinds]
        count = PIECE_VALUES // 32 + 5000
        path, out = self.folder / "in.gguf", self.folder / "out.safetensors"
        whole, rest = divmod(count, 7)
        wf.write_gguf(path, [("w", "q8_0", [32, count], b"".join(blocks) * whole + b"".join(blocks[:rest]))])
        self.nibble("dequantize", path, "-o", out)
        dtype, shape, got = wf.read_safetensors(out)["w"]
        self.assertEqual((dtype, shape), ("F32", [count, 32]))
        self.assertTrue(got == b"".join(values) * whole + b"".join(values[:rest]), "values differ")

    def test_nested_statistics_that_span_pieces(self):
        # Scales are powers of two, so that each product is exact and the expectation needs no rounding.
        nf4 = (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
               -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
               0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0)
        groups, blocks = PIECE_VALUES // 16384 + 3, 256
        scales = [2.0 ** (i % 3) for i in range(256)]
        group_scales = [2.0 ** (g % 5) for g in range(groups)]
        packed_block = bytes(range(0x01, 0x100, 8))  # 64 codes
        block_codes = [n for b in packed_block for n in (b >> 4, b & 15)]
        expected_groups = [b"".join(struct.pack("<64f", *(nf4[q] * scales[b] * g for q in block_codes)) for b in range(blocks))
                           for g in (1.0, 2.0, 4.0, 8.0, 16.0)]
        values = groups * blocks * 64
        state = {"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": [values // 64, 64],
                 "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.0}
        text = json.dumps(state).encode()
        path, out = self.folder / "in.safetensors", self.folder / "out.safetensors"
        wf.write_safetensors(path, [
            ("w", "U8", [values // 2, 1], packed_block * (groups * blocks)),
            ("w.absmax", "U8", [groups * blocks], bytes(range(256)) * groups),
            ("w.quant_map", "F32", [16], struct.pack("<16f", *nf4)),
            ("w.nested_absmax", "F32", [groups], struct.pack(f"<{groups}f", *group_scales)),
            ("w.nested_quant_map", "F32", [256], struct.pack("<256f", *scales)),
            ("w.quant_state.bitsandbytes__nf4", "U8", [len(text)], text)])
        self.nibble("dequantize", path, "-o", out)
        got = memoryview(wf.read_safetensors(out)["w"][2])
        size = 16384 * 4
        self.assertEqual(len(got), groups * size)
        for g in range(groups):
            self.assertTrue(got[g * size : (g + 1) * size] == expected_groups[g % 5], f"nested group {g} differs")


class Refusals(CommandTest):
    def test_wrong_usage(self):
        out = self.folder / "out.safetensors"
        cases = [
            ((), "command is missing"),
            (("inspct", GGML), "did you mean 'inspect'?"),
            (("inspect",), "FILE"),
            (("inspect", GGML, "more"), "argument 'more'"),
            (("inspect", GGML, "--jsn"), "did you mean '--json'?"),
            (("dequantize", GGML), "--output"),
            (("dequantize", GGML, "-o", out, "--to", "f8"), "--to f8: expected f32, f16 or bf16"),
            (("dequantize", GGML, "-o", out, "--to"), "--to"),
            (("dequantize", GGML, "-o", out, "--device", "tpu"), "--device tpu: expected cpu"),
            (("dequantize", GGML, "-o", out, "--device", "cuda:-1"), "--device cuda:-1"),
            (("dequantize", GGML, "-o", self.folder / "out.bin"), "expected a name that ends in .safetensors or .npy"),
            (("dequantize", GGML, "-o", self.folder / "out.npy"), "54 tensors"),
            (("dequantize", GGML, "-t", "q4_K.quantized", "--to", "bf16", "-o", self.folder / "out.npy"), "bf16"),
            (("dequantize", GGML, "-t", "q4_K.quantised", "-o", out), ["q4_K.quantised", "q4_K.quantized"]),
            (("dequantize", GGML, "-t", "q4_K.quantized", "-t", "q4_K.quantized", "-o", out), "twice"),
            (("verify", GGML, "-t", "q4_K.quantised"), "q4_K.quantized"),
            (("explain", "dequantise"), "did you mean 'dequantize'?"),
            (("explain", "dequantize", "--format", "q4k"), "did you mean 'q4_k'?"),
            (("explain", "dequantize", "--format", "i32"), "--format i32"),
            (("explain", "dequantize", "--caps", "cuda"), "cuda"),
            (("explain", "dequantize", "--nested"), "--nested"),
            (("explain", "dequantize", "--tokens", "4"), "--tokens"),
            (("explain", "out_prod", "--tokens", "many"), "--tokens many: expected a whole number"),
            (("explain", "out_prod", "--shape", "256"), "--shape 256: expected 2 to 4"),
            (("explain", "out_prod", "--shape", "256,0"), "--shape 256,0"),
            (("explain", "out_prod", "--shape", "256,,1"), "--shape 256,,1"),
            (("explain", "out_prod", "--repeat", "2"), "--repeat 2"),
            (("explain", "out_prod", "--math", "f8"), "--math f8"),
            (("explain", "dequantize", "--shape", "100,2"), "100"),
            (("explain", "dequantize", "--format", "nf4", "--block-size", "48"), "48"),
            (("ops", "--json", "--markdown"), "--markdown"),
            (("explain", "dequantize", "--caps", ""), "--caps: an empty value"),
            (("explain", "out_prod", "--tokens", ""), "--tokens: an empty value"),
            (("dequantize", GGML, "-o", out, "--to", ""), "--to: an empty value"),
            (("verify", GGML, "-t", ""), "--tensor: an empty value"),
        ]
        for arguments, says in cases:
            with self.subTest(arguments):
                self.fails(USAGE, *arguments, says=says)
        self.assert_no_files()

    def test_bad_settings_are_wrong_usage(self):
        self.fails(USAGE, "info", says=["NIBBLE_BACKEND", "reference"], env={"NIBBLE_BACKEND": "tpu"})
        self.fails(USAGE, "info", says="NIBBLE_MATH", env={"NIBBLE_MATH": "f8"})

    def test_no_device(self):
        out = self.folder / "out.safetensors"
        self.fails(UNSERVED, "dequantize", GGML, "--device", "hip:63", "-o", out, says="hip:63")
        self.fails(UNSERVED, "verify", GGML, "--device", "cuda:63", says="cuda:63")
        for name, value in ("NIBBLE_BACKEND", "cpu"), ("NIBBLE_DISABLE", "*"), ("NIBBLE_DISABLE", "reference.dequantize.*"):
            self.fails(UNSERVED, "verify", GGML, env={name: value}, says=["nothing to compare with", "reference.dequantize.scalar"])
        self.assert_no_files()

    def test_bad_files(self):
        out = self.folder / "out.safetensors"
        nonsense, short = self.folder / "nonsense.gguf", self.folder / "short.gguf"
        nonsense.write_bytes(b"nonsense" * 10)
        short.write_bytes(GGML.read_bytes()[:-1000])
        for path in (nonsense, short, self.folder / "absent.gguf", self.folder):
            for command in (("inspect", path), ("verify", path), ("dequantize", path, "-o", out)):
                with self.subTest(command):
                    self.fails(BAD_FILE, *command, says=str(path))
        self.assert_no_files("nonsense.gguf", "short.gguf")

    def test_an_integer_tensor_is_refused_by_name_and_type(self):
        path, out = self.folder / "in.gguf", self.folder / "out.safetensors"
        integers = ("ids", "i32", [4], struct.pack("<4i", 1, 2, 3, 4))
        wf.write_gguf(path, [integers, ("w", "f32", [2], struct.pack("<2f", 1, 2))])
        self.fails(BAD_FILE, "dequantize", path, "-t", "ids", "-o", out, says=["ids", "i32"])
        self.fails(BAD_FILE, "verify", path, "-t", "ids", says=["ids", "i32"])
        notes = self.nibble("dequantize", path, "-o", out).stderr
        self.assertEqual(notes.count("\n"), 1, notes)
        self.assertIn("ids", notes)
        self.assertEqual(list(wf.read_safetensors(out)), ["w"])
        wf.write_gguf(path, [integers])
        self.fails(BAD_FILE, "dequantize", path, "-o", out, says="expected at least one")
        self.fails(BAD_FILE, "verify", path, says="expected at least one")

    def test_a_broken_tensor_is_skipped_and_told_by_the_status(self):
        path, out = self.folder / "in.safetensors", self.folder / "out.safetensors"
        good, odd = ("good", "F16", [2], struct.pack("<2e", 1, 2)), ("odd", "U8", [1], b"x")
        state = b'{"quant_type":"nf4","blocksize":63}'
        wf.write_safetensors(path, [good, odd, ("w.quant_state.bitsandbytes__nf4", "U8", [len(state)], state)])
        for command in (("verify", path), ("dequantize", path, "-o", out)):
            self.fails(BAD_FILE, *command, says="1 tensors are broken and were skipped, 1 were not")
        # Written all the same, in the file's own type; what is merely no weight is no fault.
        self.assertEqual(wf.read_safetensors(out), {"good": ("F16", [2], good[3])})
        unaligned = ("unaligned", "F32", [1], struct.pack("<f", 3))
        wf.write_safetensors(path, [good, odd, unaligned])
        self.nibble("dequantize", path, "-o", out)
        self.assertEqual(wf.read_safetensors(out)["unaligned"], unaligned[1:])
        self.nibble("verify", path)

    def test_a_state_that_nests_deeply_needs_no_stack(self):
        path = self.folder / "in.safetensors"
        for deep in ("[" * 30000 + "]" * 30000, '{"a":' * 9000 + "1" + "}" * 9000):
            state = ('{"quant_type":"nf4","blocksize":' + deep + "}").encode()
            wf.write_safetensors(path, [("w", "U8", [1, 1], b"x"), ("w.absmax", "F32", [1], bytes(4)),
                                        ("w.quant_state.bitsandbytes__nf4", "U8", [len(state)], state)])
            small_stack = lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20))
            result = self.nibble("inspect", path, preexec_fn=small_stack)
            self.assertIn("the state's blocksize is an", result.stdout)

    def test_names_from_a_file_stay_on_one_line(self):
        path = self.folder / "in.gguf"
        wf.write_gguf(path, [("a\nb\x1b[31m", "i32", [1], bytes(4))])
        result = self.nibble("inspect", path)
        self.assertNotIn("\x1b", result.stdout)
        self.assertIn("a\\x0ab", result.stdout)
        self.fails(BAD_FILE, "dequantize", path, "-t", "a\nb\x1b[31m", "-o", self.folder / "o.safetensors", says="i32")


class Output(CommandTest):
    def test_the_input_is_not_overwritten(self):
        path, link = self.folder / "in.safetensors", self.folder / "link.safetensors"
        wf.write_safetensors(path, [("w", "F32", [2], struct.pack("<2f", 1, 2))])
        link.symlink_to(path)
        before = path.read_bytes()
        for out in (path, link, self.folder / "." / "in.safetensors"):
            self.fails(USAGE, "dequantize", path, "-o", out, says="is the input")
        self.assertEqual(path.read_bytes(), before)

    def test_an_older_output_is_replaced(self):
        out = self.folder / "out.safetensors"
        out.write_bytes(b"old")
        self.nibble("dequantize", GGML, "-t", "q4_K.quantized", "-o", out)
        self.assertEqual(list(wf.read_safetensors(out)), ["q4_K.quantized"])
        self.assert_no_files("out.safetensors")

    def test_a_folder_that_is_not_there(self):
        self.fails(CHECK_FAILED, "dequantize", GGML, "-o", self.folder / "none/out.safetensors", says="none/out.safetensors")
        self.assert_no_files()

    def test_a_folder_that_is_read_only(self):
        if os.geteuid() == 0:
            self.skipTest("root may write everywhere")
        self.folder.chmod(0o555)
        self.fails(CHECK_FAILED, "dequantize", GGML, "-o", self.folder / "out.safetensors", says="out.safetensors")
        self.folder.chmod(0o755)
        self.assert_no_files()

    def test_a_size_limit_leaves_no_partial_file_and_the_old_one(self):
        out = self.folder / "out.safetensors"
        out.write_bytes(b"old")
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        self.fails(CHECK_FAILED, "dequantize", GGML, "-o", out, says="out.safetensors", preexec_fn=limit)
        self.assertEqual(out.read_bytes(), b"old")
        self.assert_no_files("out.safetensors")

    def test_a_full_file_system_leaves_no_partial_file(self):
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(self.folder)]
        try:
            mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            self.skipTest("there is no mount command")
        if mounted.returncode != 0:
            self.skipTest(f"a small file system cannot be mounted: {mounted.stderr.strip()}")
        try:
            self.fails(CHECK_FAILED, "dequantize", GGML, "-o", self.folder / "out.safetensors", says="out.safetensors")
            self.assert_no_files()
        finally:
            subprocess.run(["umount", str(self.folder)], check=True)

    def test_an_interruption_leaves_no_partial_file(self):
        path, values = self.folder / "in.gguf", 40 * PIECE_VALUES
        wf.write_gguf(path, [("w", "f16", [values], b"")])
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size + 2 * values)  # zeros that take no space
        command = [BINARY, "dequantize", str(path), "-o", str(self.folder / "out.safetensors")]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            while len(list(self.folder.iterdir())) == 1 and process.poll() is None:
                time.sleep(0.001)
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM, errors)
        self.assertEqual(errors.count("\n"), 1, errors)
        self.assert_no_files("in.gguf")

    def test_a_link_is_written_through(self):
        target, link = self.folder / "target.safetensors", self.folder / "link.safetensors"
        target.write_bytes(b"old")
        link.symlink_to(target)
        self.nibble("dequantize", GGML, "-t", "q4_K.quantized", "-o", link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(list(wf.read_safetensors(target)), ["q4_K.quantized"])
        dangling = self.folder / "dangling.safetensors"
        dangling.symlink_to(self.folder / "new.safetensors")
        self.nibble("dequantize", GGML, "-t", "q4_K.quantized", "-o", dangling)
        self.assertTrue((self.folder / "new.safetensors").is_file() and dangling.is_symlink())

    def test_closed_standard_streams_do_no_harm(self):
        out, trace = self.folder / "out.safetensors", {**os.environ, "NIBBLE_EXPLAIN": "1"}
        expected = self.folder / "expected.safetensors"
        self.nibble("dequantize", GGML, "-o", expected)
        closed = lambda: [os.close(fd) for fd in (0, 1, 2)]
        result = subprocess.run([BINARY, "dequantize", str(GGML), "-o", str(out)], env=trace, preexec_fn=closed, check=False)
        self.assertEqual(result.returncode, DONE)
        self.assertTrue(out.read_bytes() == expected.read_bytes(), "the trace went into the output")
        with open("/dev/full", "w") as full:
            result = subprocess.run([BINARY, "inspect", str(self.folder / "absent")], stderr=full, check=False)
        self.assertEqual(result.returncode, BAD_FILE)

    def test_a_reader_that_goes_away_leaves_no_partial_file(self):
        command = [BINARY, "dequantize", str(GGML), "-o", str(self.folder / "out.safetensors")]
        read, write = os.pipe()
        os.close(read)
        result = subprocess.run(command, stderr=write, env={**os.environ, "NIBBLE_EXPLAIN": "1"}, check=False)
        os.close(write)
        self.assertEqual(result.returncode, -signal.SIGPIPE)
        self.assert_no_files()

    def test_ignored_signals_stay_ignored(self):
        """As nohup and a shell's background jobs ask."""
        path, values = self.folder / "in.gguf", 8 * PIECE_VALUES
        wf.write_gguf(path, [("w", "f16", [values], b"")])
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size + 2 * values)
        ignore = lambda: [signal.signal(n, signal.SIG_IGN) for n in (signal.SIGHUP, signal.SIGINT)]
        command = [BINARY, "dequantize", str(path), "-o", str(self.folder / "out.safetensors")]
        with subprocess.Popen(command, preexec_fn=ignore) as process:
            while len(list(self.folder.iterdir())) == 1 and process.poll() is None:
                time.sleep(0.001)
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=60), DONE)

    def test_a_full_standard_output(self):
        with open("/dev/full", "w") as full:
            for arguments in (("ops",), ("inspect", GGML, "--json"), ("--help",)):
                result = subprocess.run([BINARY, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
                self.assertEqual(result.returncode, CHECK_FAILED, arguments)
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)


class Verify(CommandTest):
    def test_every_kernel_agrees_on_the_golden_files(self):
        for path in (GGML, BNB):
            report = self.json("verify", path)
            self.assertTrue(report["equal"])
            self.assertGreater(report["values_compared"], 0)
            self.assertEqual(report["tensors_not_compared"], 0)
            compared = {c["kernel"] for t in report["tensors"] for c in t["checks"]}
            self.assertEqual(compared, set(report["kernels"]))
            for tensor in report["tensors"]:
                self.assertEqual({c["to"] for c in tensor["checks"]}, {"f32", "f16", "bf16"}, tensor["name"])

    def test_the_last_line_sums_up(self):
        last = self.nibble("verify", GGML, "-t", "q4_0.quantized", "-t", "q8_0.random_bits").stdout.splitlines()[-1]
        self.assertRegex(last, r"^2 tensors, [1-9]\d* kernels, [1-9]\d* values compared, all equal$")

    def test_comparing_nothing_is_a_failure(self):
        self.fails(CHECK_FAILED, "verify", GGML, says="nothing compared", env={"NIBBLE_BACKEND": "reference"})
        empty = self.folder / "empty.gguf"
        wf.write_gguf(empty, [("w", "f32", [0, 4], b"")])
        result = subprocess.run([BINARY, "verify", empty], capture_output=True, text=True, check=False)
        self.assertIn(result.returncode, (CHECK_FAILED, BAD_FILE))

    def test_a_wrong_value_is_found(self):
        folder = os.environ.get("NIBBLE_WRONG_PLUGIN_DIR")
        if not folder:
            self.skipTest("NIBBLE_WRONG_PLUGIN_DIR is not set: it names the folder of nibble_wrong.so")
        env = {"NIBBLE_PLUGIN_PATH": folder}
        # Value 1030 of rows of 512 values.
        says = ["tensor 'q8_0.quantized'", "wrong.dequantize.one_bit", "to f32", "[2, 6]", "expected"]
        result = self.fails(CHECK_FAILED, "verify", GGML, says=says, env=env)
        self.assertIn("checks failed", result.stdout.splitlines()[-1])
        report = json.loads(self.nibble("verify", GGML, "--json", status=CHECK_FAILED, env=env).stdout)
        self.assertFalse(report["equal"])
        wrong = [(t["name"], c["kernel"], c["different"]) for t in report["tensors"] for c in t["checks"] if not c["equal"]]
        self.assertEqual(wrong, [(f"q8_0.{kind}", "wrong.dequantize.one_bit", 1) for kind in ("quantized", "random_bits")])
        # Its kernel comes in only by name, so no value that is written is wrong.
        self.nibble("dequantize", GGML, "-t", "q8_0.quantized", "-o", self.folder / "out.safetensors", env=env)


class Answers(CommandTest):
    def test_explain_on_an_invented_device(self):
        answer = self.json("explain", "dequantize", "--format", "nf4", "--nested", "--to", "f16", "--caps", "cuda:10.3")
        self.assertLessEqual({"kernel", "reason", "candidates"}, set(answer))
        self.assertIsInstance(answer["candidates"], list)
        if answer["kernel"] is None:
            self.assertIn("no kernel", answer["reason"])
        else:
            self.assertEqual(answer["kernel"], "cuda_sm103.dequantize.nested")

    def test_explain_follows_the_instruction_set(self):
        for op in ("dequantize", "out_prod", "linear"):
            for isa in ("avx2", "avx512"):
                answer = self.json("explain", op, "--format", "q4_k", "--caps", f"cpu:{isa}")
                chosen = [c for c in answer["candidates"] if c["name"] == answer["kernel"]]
                self.assertEqual([c["accepted"] for c in chosen], [True])
                self.assertTrue(answer["kernel"].endswith("." + isa), answer["kernel"])
                refused = [c for c in answer["candidates"] if not c["accepted"]]
                self.assertTrue(all(c["reason"] for c in answer["candidates"]))
                self.assertEqual(any(c["name"].endswith(".avx512") for c in refused), isa == "avx2")

    def test_explain_takes_every_flag(self):
        self.nibble("explain", "out_prod", "--format", "q4_k", "--to", "bf16", "--shape", "512,96,2,3", "--tokens", "7",
                    "--src1", "f16", "--transposed", "--repeat", "2,1", "--math", "f32", "--caps", "cpu:sse4")
        self.nibble("explain", "dequantize", "--format", "fp4", "--nested", "--block-size", "128", "--nested-block-size",
                    "512", "--shape", "4096", "--device", "cpu")
        self.nibble("explain", "linear", "--format", "blockwise8", "--tokens", "3", "--src1", "bf16", "--to", "f32")

    def test_inspect(self):
        tensors = {t["name"]: t for t in self.json("inspect", GGML)["tensors"]}
        cases = json.loads((DATA / "golden/ggml/ggml-cases.json").read_text())
        self.assertEqual(len(tensors), len(cases))
        for case in cases:
            t = tensors[case["name"]]
            values = case["cols"] * case["rows"]
            self.assertEqual((t["format"], t["shape"]), (case["type"].lower(), [case["rows"], case["cols"]]))
            self.assertEqual(t["bytes"], values // case["block_values"] * case["block_bytes"])
        tensors = {t["name"]: t for t in self.json("inspect", BNB)["tensors"]}
        for case in json.loads((DATA / "golden/bitsandbytes/bnb-cases.json").read_text()):
            t = tensors[case["name"] + ".weight"]
            if case["name"].startswith("dyn8_"):
                self.assertFalse(t["usable"])
                continue
            self.assertEqual((t["format"], t["shape"], t["nested"], t["block_size"]),
                             (case["quant_type"], case["shape"], case["nested"], case["blocksize"]))
        self.assertIn("nested, block", self.nibble("inspect", BNB).stdout)

    def test_info(self):
        answer = self.json("info")
        self.assertIn("reference.dequantize.scalar", [k["name"] for k in answer["kernels"]])
        self.assertIn("reference", [p["backend"] for p in answer["plugins"] if p["loaded"]])
        self.assertTrue(any(d["device"] == "cpu" and d["usable"] for d in answer["devices"]))
        self.assertIsNone(self.json("info", "--no-probe")["devices"])
        self.assertIn("reference.dequantize.scalar", self.nibble("info").stdout)

    def test_gpu_plugins_load_where_there_is_no_device(self):
        hidden = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}
        answer = self.json("info", env=hidden)
        for backend, runtime in (("cuda", "CUDA"), ("hip", "HIP")):
            if (PLUGINS / f"nibble_{backend}.so").exists():
                with self.subTest(backend):
                    self.assertIn(backend, [p["backend"] for p in answer["plugins"] if p["loaded"]])
                    device, = [d for d in answer["devices"] if d["backend"] == backend]
                    self.assertFalse(device["usable"])
                    self.assertRegex(device["reason"], rf"^no {runtime} device: [^\n]+$")

    def test_a_plugin_whose_library_is_missing_is_left_out_and_says_so(self):
        copies = {}
        for backend, library in (("hip", b"libamdhip64.so."), ("cuda", b"libcublas.so.")):
            built = PLUGINS / f"nibble_{backend}.so"
            if built.exists() and library in built.read_bytes():
                # As on a machine without it: the copy needs a file that no machine has.
                copies[backend] = self.folder / built.name
                copies[backend].write_bytes(built.read_bytes().replace(library, b"libgone" + library[7:]))
        if not copies:
            self.skipTest("no plugin that needs another library was built")
        found = {"NIBBLE_PLUGIN_PATH": str(self.folder)}
        answer = self.json("info", env=found)
        for backend, path in copies.items():
            record, = [p for p in answer["plugins"] if p["path"] == str(path)]
            self.assertFalse(record["loaded"])
            self.assertRegex(record["reason"], r"^libgone[^\n]*: cannot open shared object file[^\n]*$")
            self.assertNotIn(backend, [k["backend"] for k in answer["kernels"]])
        self.assertNotEqual(self.json("explain", "dequantize", "--format", "q4_k", "--to", "f32", env=found)["kernel"], "")

    def test_ops(self):
        rows = self.json("ops")["rows"]
        served = [r for r in rows if r["backends"]["reference"]["f32"] == f"reference.{r['op']}.scalar"]
        self.assertEqual(len(served), len(rows))
        self.assertIn(("dequantize", "nf4", True), [(r["op"], r["format"], r["nested"]) for r in rows])
        markdown = self.nibble("ops", "--markdown").stdout
        self.assertTrue(markdown.startswith("<!-- Generated by"))
        self.assertEqual(markdown, self.nibble("ops", "--markdown").stdout)
        self.assertEqual(markdown, self.nibble("ops", "--markdown", env={"CUDA_VISIBLE_DEVICES": "", "NIBBLE_THREADS": "1"}).stdout)
        # A comment, an empty line, a heading, a rule, then a line a row.
        self.assertEqual(len(markdown.splitlines()), 4 + len(rows))
        self.assertIn("q4_k", self.nibble("ops").stdout)

    def test_the_page_on_gpu_products_names_what_there_is(self):
        root = DATA.parents[1]
        page = (root / "docs/gpu-products.md").read_text()
        files = re.findall(r"`((?:backends|dispatch)/[\w./]+)`", page)
        self.assertGreater(len(files), 6)
        for name in files:
            self.assertTrue((root / name).exists(), name)
        kernels = {k["name"] for k in self.json("info")["kernels"]}
        if any(k.startswith("cuda.") for k in kernels):
            named = set(re.findall(r"`(cuda\.out_prod\.[\w.]+)`", page))
            self.assertGreater(len(named), 5)
            self.assertLessEqual(named, kernels)

    def test_the_support_table_is_fresh(self):
        """docs/support.md is the answer of a build with every back end; a build with fewer has fewer columns."""
        def columns(text):
            rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
            return {head: cells for head, *cells in zip(*rows)}
        kept = columns((DATA.parents[1] / "docs/support.md").read_text())
        made = columns(self.nibble("ops", "--markdown").stdout)
        self.assertLessEqual({"op", "format", "reference", "cpu"}, made.keys())
        again = "stale: run scripts/support_table"
        # The file's build had no hipBLAS; where there is one, other rows multiply, for the same formats and types.
        kept["hip"], made["hip"] = ([re.sub(r"hip\.(out_prod|linear)\.[\w.]+", r"hip.\1", cell) for cell in table.get("hip", kept["hip"])]
                                    for table in (kept, made))
        for head, cells in made.items():
            self.assertEqual(kept.get(head), cells, f"docs/support.md, column {head}: {again}")
        self.assertLessEqual(kept.keys() - made.keys(), {"cuda", "cuda_sm103", "hip"}, again)

    def test_help_and_version(self):
        self.assertRegex(self.nibble("--version").stdout, r"^nibble \d+\.\d+\.\d+\n$")
        self.assertIn("Exit status", self.nibble("--help").stdout)
        for command in ("info", "inspect", "dequantize", "verify", "explain", "ops"):
            self.assertIn("Example", self.nibble(command, "--help").stdout, command)


if __name__ == "__main__":
    unittest.main()
