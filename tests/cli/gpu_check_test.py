"""scripts/gpu-check with programs that only say what a machine with such a GPU would say: which one it picks, what it runs there.

Apart from the command's test because nothing of the build is needed: GPU_CHECK names the script.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

CHECK = pathlib.Path(os.environ["GPU_CHECK"])
NONE = {"backend": "cuda", "device": "cuda", "usable": False, "reason": "no CUDA device: none here", "name": "", "arch": "", "memory_bytes": 0}
H200 = {"backend": "cuda", "device": "cuda:0", "usable": True, "reason": "", "name": "H200", "arch": "9.0", "memory_bytes": 139 << 30}
MI250 = {"backend": "hip", "device": "hip:0", "usable": True, "reason": "", "name": "MI250X", "arch": "gfx90a", "memory_bytes": 64 << 30}
NO_CODE = {**MI250, "usable": False, "reason": "no code for this device was compiled in"}


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.conformance = "hip: 5 executed, 0 failed, 0 failed as expected, 0 unsupported, 0 skipped"

    def program(self, name, text):
        (self.folder / name).write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        (self.folder / name).chmod(0o755)

    def check(self, devices, *arguments):
        self.program("nibble", json.dumps({"plugins": [{"backend": "hip", "reason": ""}], "devices": devices}))
        self.program("nibble_conformance", self.conformance)
        for name in ("nibble_device_test", "nibble_device_test_hip"):
            self.program(name, "[  PASSED  ] 7 tests.")
        for name in ("nibble_decode_check", "nibble_products_check"):
            self.program(name, "PASS: all")
        out = self.folder / "out.json"
        done = subprocess.run([CHECK, "--bin", self.folder, "--out", out, "--jobs", "1", "--no-sanitizers", "--no-bench", *arguments],
                              capture_output=True, text=True, timeout=60)
        return done, json.loads(out.read_text()) if out.exists() else None

    def test_an_amd_gpu_is_checked_through_hip(self):
        done, record = self.check([NONE, MI250])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(record["backend"], "hip")
        self.assertIn("MI250X (gfx90a)", record["gpu"])
        self.assertEqual([(s["step"], pathlib.Path(s["command"][0]).name) for s in record["steps"]],
                         [("conformance", "nibble_conformance"), ("streams, graphs, memory, forks", "nibble_device_test_hip"),
                          ("large sizes", "nibble_device_test_hip")])
        self.assertEqual({s["env"]["NIBBLE_BACKEND"] for s in record["steps"]}, {"hip"})
        self.assertEqual(record["steps"][0]["summary"], "5 executed, 0 failed")
        self.assertIn("skipped: kernels by themselves, sanitizers and speed", done.stdout)

    def test_an_nvidia_gpu_is_checked_through_cuda(self):
        self.conformance = self.conformance.replace("hip", "cuda_sm103")
        done, record = self.check([H200])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(record["steps"][0]["env"]["NIBBLE_BACKEND"], "cuda,cuda_sm103")
        self.assertEqual(len(record["steps"]), 5)
        self.assertTrue(record["steps"][1]["command"][0].endswith("nibble_device_test"))

    def test_where_there_are_both_one_can_be_asked_for(self):
        self.assertEqual(self.check([H200, MI250])[1]["backend"], "cuda")
        self.assertEqual(self.check([H200, MI250], "--backend", "hip")[1]["backend"], "hip")

    def test_cases_of_another_back_end_do_not_count(self):
        self.conformance = self.conformance.replace("hip", "cuda")
        done, record = self.check([MI250])
        self.assertEqual(done.returncode, 1)
        self.assertEqual((record["steps"][0]["passed"], record["steps"][0]["summary"]), (False, "0 executed, 0 failed"))

    def test_a_format_that_ran_in_one_shard_ran(self):
        """Shards differ in nothing here but what each prints, so one program says both shards' lines."""
        lines = [self.conformance] * 2
        lines += ["hip.a: 2 executed, 1 of 2 formats; never with q4_k", "hip.a: 1 executed, 1 of 2 formats; never with q8_0"]
        lines += ["hip.b: 0 executed, 0 of 2 formats; 2 for other devices: needs more"] * 2
        self.conformance = "\n".join(lines)
        done, record = self.check([MI250])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(record["steps"][0]["rows"], {"hip.a": 3, "hip.b": 0})
        self.conformance += "\nhip.c: 3 executed, 1 of 3 formats; 1 for other devices: needs more; never with q4_k"
        done, record = self.check([MI250])
        self.assertEqual(done.returncode, 1)
        self.assertEqual(record["steps"][0]["summary"], "10 executed, 0 failed; never run: hip.c with q4_k")

    def test_without_a_usable_gpu_the_reasons_are_told(self):
        done, record = self.check([NONE, NO_CODE])
        self.assertEqual((done.returncode, record), (1, None))
        self.assertEqual(done.stderr, "gpu-check: no GPU of cuda or hip can be used here: cuda: no CUDA device: none here; "
                                      "hip: no code for this device was compiled in\n")
        done, _ = self.check([H200], "--backend", "hip")
        self.assertEqual(done.stderr, "gpu-check: no GPU of hip can be used here: no plugin for one was built\n")


if __name__ == "__main__":
    unittest.main()
