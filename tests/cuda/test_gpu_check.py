#!/usr/bin/env python3
"""bench/gpu_check.sh on a pretended machine: test_gpu_check.py ROOT

The GPU, the programs and PyTorch are shell scripts here. A machine with a GPU is dear, and often there for minutes alone, so
what the script does when something fails, hangs or is missing has to be right the first time.
"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
TESTS = re.search(r"^device_tests=\((.*)\)$", (ROOT / "bench/gpu_check.sh").read_text(), re.M).group(1).split()
STEP = "echo 'step: 10.00 ms, 5000 tokens/s, 61.0 % of the product; loss 11.0000 -> 10.9000 (0x1.5p+3)'"
SMI = 'case "$*" in *compute_cap*) echo 9.0;; *) echo "GPU 0: pretended";; esac'


class Machine(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "bench").mkdir()
        shutil.copy(ROOT / "bench/gpu_check.sh", self.folder / "bench")
        self.program("tools/nvidia-smi", SMI)
        self.program("tools/python3", "exit 1")
        for name in ("firn-worker", "bench-checkpoint"):
            self.program(f"build/cuda/bin/{name}", "echo sound")
        self.program("build/cuda/bin/bench-device", STEP)
        self.program("build/cuda/tests/unit_daemon_test_gpus_here", "echo sound")
        for name in ("gpu_slots", "restore", "shadow", "layouts"):
            self.program(f"build/cuda/tests/integration_test_{name}", "echo \"cuDNN: ${FIRN_CUDNN_LIBRARY-by name}\"")
        self.kernel("first")
        (self.folder / "build/cuda/kernels").mkdir()  # of CMake
        (self.folder / "build/cuda/kernels.sha256").write_text(hashlib.sha256(b"first").hexdigest() + "\n")
        for name in TESTS:
            self.program(f"build/cuda/tests/parity_test_{name}", "echo '[  PASSED  ] 3 test(s).'")

    def kernel(self, text):
        place = self.folder / "kernels/cuda/one.cu"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def program(self, path, script):
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("#!/bin/sh\n" + script + "\n")
        place.chmod(0o755)

    def check(self, parts, seconds=100, **environment):
        """What the script says, and its exit status; the report says the same."""
        path = f"{self.folder}/tools:{os.environ['PATH']}"
        report = self.folder / "out/report.txt"
        result = subprocess.run(
            ["bash", "bench/gpu_check.sh"], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=100, check=False,
            env={"PATH": path, "HOME": str(self.folder), "PARTS": parts, "FIRN_GPU_SECONDS": str(seconds),
                 "FIRN_GPU_REPORT": str(report), "FIRN_SANITIZER": "", **environment})
        return result.stdout, result.returncode, report.read_text()

    def test_what_passes(self):
        said, status, report = self.check("parity steps")
        self.assertEqual(status, 0, said)
        self.assertIn("all of it passed: parity steps", said)
        self.assertIn("aim: GPT-2 1.5B: share of the product's rate, in %: 61.00 (wanted 60.00): met", report)
        self.assertIn("aim: GPT-2 124M: tokens/s beside torch.compile: not measured", report)

    def test_a_failure_says_why_at_the_end_and_keeps_nothing_from_running(self):
        self.program("build/cuda/tests/parity_test_linear",
                     "echo 'WRONG: GPU bf16, linear, output: 70 wrong'; echo '  pattern: 5 stretches'; exit 1")
        said, status, report = self.check("parity steps")
        self.assertEqual(status, 1)
        summary = said[said.index("1 FAILED:"):]
        self.assertIn("parity_test_linear (status 1)", summary)
        self.assertIn("70 wrong", summary)
        self.assertIn("5 stretches", summary)
        self.assertIn("parity_test_sums", said)
        self.assertIn("1.5B", said)
        self.assertIn("70 wrong", report)

    def test_what_a_program_said_before_it_was_cut_off_is_kept(self):
        self.program("build/cuda/bin/bench-device", "echo 'copy 3000 GB/s'; exec sleep 60")
        said, status, report = self.check("steps", seconds=28)
        self.assertEqual(status, 1)
        self.assertIn("copy 3000 GB/s", report)
        self.assertIn("cut off after", said)
        self.assertIn("no time left", said)
        self.assertIn("report: ", said.splitlines()[-1])

    def test_the_aims_come_first(self):
        self.program("tools/python3", 'case "$*" in *device_torch*) echo "PyTorch step: 4000 tokens/s, x";; esac')
        said, status, _ = self.check("steps")
        self.assertEqual(status, 0, said)
        order = re.findall(r"^== (.*)$", said, re.M)
        self.assertEqual(order, ["GPT-2 1.5B", "GPT-2 1.5B, PyTorch", "GPT-2 124M", "GPT-2 124M, PyTorch"])
        script = (ROOT / "bench/gpu_check.sh").read_text()
        self.assertIn('every="build steps parity jobs kernels nccl checkpoints sanitize"', script)

    def test_parity_has_a_cap_of_its_own(self):
        for name in TESTS:
            self.program(f"build/cuda/tests/parity_test_{name}", "exec sleep 60")
        said, status, _ = self.check("parity kernels", FIRN_GPU_PARITY_SECONDS="12")
        self.assertEqual(status, 1)
        self.assertEqual(said.count("cut off after"), 2, said)  # said at once, and at the end
        self.assertIn("no time left", said)
        self.assertIn("tokens/s", said)  # of `kernels`, which has its time

    def test_one_job_asks_cudnn(self):
        said, status, _ = self.check("jobs nccl")
        self.assertEqual(status, 0, said)
        self.assertEqual(re.findall(r"^cuDNN: (.*)$", said, re.M), ["by name"] + 5 * [""])

    def test_a_changed_kernel_is_noticed_without_build(self):
        said, status, _ = self.check("jobs")
        self.assertNotIn("==== build", said)
        self.kernel("second")
        (self.folder / "cmake").mkdir()  # libraries that are not there to build with
        shutil.copy(ROOT / "cmake/FirnDependencies.cmake", self.folder / "cmake")
        self.program("tools/pkg-config", "exit 1")
        said, status, _ = self.check("jobs")
        self.assertEqual(status, 1)
        self.assertIn("==== build", said)
        self.assertIn("the kernels in build/cuda are others than those of this tree", said)

    def test_a_library_at_the_head_of_a_long_list_is_found(self):
        self.program("tools/ldconfig", "echo ' libcudnn.so.9 (libc6,x86-64) => /x'; seq 1000000")
        self.program("tools/python3", f'case "$*" in *nvidia*) echo {self.folder}/lib;; esac')
        (self.folder / "lib").mkdir()
        (self.folder / "lib/libcudnn.so.9").touch()
        said, _, _ = self.check("steps")
        self.assertIn("libraries: cuDNN by name", said)

    def test_recordings_that_change_bits(self):
        self.program("build/cuda/bin/bench-device",
                     f'if [ "$FIRN_CUDA_GRAPHS" = off ]; then {STEP.replace("0x1.5p", "0x1.6p")}; else {STEP}; fi')
        said, status, _ = self.check("kernels")
        self.assertEqual(status, 1)
        self.assertIn("recorded steps end with the loss '0x1.5p+3', others with '0x1.6p+3'", said)

    def test_an_access_that_the_device_refuses_is_looked_for(self):
        self.program("build/cuda/tests/parity_test_sums",
                     "echo 'GPU 0 (H100) failed: norms_squared: an illegal memory access'; exit 1")
        self.program("tools/sanitizer", 'echo "========= Invalid read at norm_kernel: $*"; exit 1')
        said, _, _ = self.check("parity", FIRN_SANITIZER="sanitizer")
        self.assertIn("Invalid read at norm_kernel: --tool memcheck", said[said.index("FAILED:\n"):])

    def test_parts_that_there_are_not(self):
        result = subprocess.run(["bash", "bench/gpu_check.sh"], cwd=self.folder, capture_output=True, text=True,
                                env={"PATH": os.environ["PATH"], "PARTS": "step"}, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("PARTS can be", result.stderr)


unittest.main()
