#!/usr/bin/env python3
"""Holds the GPU's machine code to what its source is meant to become: check_code.py NVCC ROOT

No kernel spills more than a few registers on any architecture, the tiles of attention use matrix instructions and
ldmatrix, and flat memory is read 16 bytes at a time. nvcc makes PTX of each file once, which says the latter; ptxas
makes machine code of that for each architecture, which says the former and takes little time beside nvcc.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")
# A few registers of a kernel that keeps several loads in flight: more packs are worth more than these.
SPILLED_BYTES_MAX = 16
# File, and what its PTX must contain.
EXPECTED = {
    "adamw.cu": (r"ld\.global\.(?:nc\.)?v4", r"st\.global\.v4"),
    "attention/attention_tiles.cu": ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
                           "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
                           "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"),
    "attention/attention_rows.cu": (),
    "headnorm.cu": (r"ld\.global\.(?:nc\.)?v4", r"st\.global\.v4"),
    "elementwise.cu": (r"ld\.global\.(?:nc\.)?v4", r"st\.global\.v4"),
    "digest.cu": (r"ld\.global\.(?:nc\.)?v4",),
    "layernorm.cu": (r"ld\.global\.(?:nc\.)?v4", r"st\.global\.v4"),
    "norm.cu": (r"ld\.global\.(?:nc\.)?v4",),
    "rmsnorm.cu": (r"ld\.global\.(?:nc\.)?v4", r"st\.global\.v4"),
    "rotary.cu": (r"ld\.global\.(?:nc\.)?v4", r"st\.global\.v4"),
    "swiglu.cu": (r"ld\.global\.(?:nc\.)?v4", r"st\.global\.v4"),
}


def output_of(command):
    """What a command says on both streams; its failure is ours."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: {result.stderr}")
    return result.stdout + result.stderr


def spills(text):
    """(kernel, bytes) of every kernel that ptxas made spill more than a little."""
    kernel = ""
    for line in text.splitlines():
        named = re.search(r"Compiling entry function '(\S+)'", line)
        kernel = named.group(1) if named else kernel
        spilled = re.search(r"(\d+) bytes spill stores", line)
        if spilled and int(spilled.group(1)) > SPILLED_BYTES_MAX:
            yield kernel, spilled.group(1)


def check_file(nvcc, root, folder, name):
    """What is wrong with one file, a line each."""
    ptx, source = os.path.join(folder, os.path.basename(name) + ".ptx"), os.path.join(root, "kernels/cuda", name)
    output_of([nvcc, "-std=c++17", "-O3", f"-I{root}", "-arch", "compute_80", "-ptx", "-o", ptx, source])
    with open(ptx, encoding="utf-8") as file:
        content = file.read()
    wrong = [f"{name}: no {pattern}" for pattern in EXPECTED[name] if not re.search(pattern, content)]
    ptxas = os.path.join(os.path.dirname(nvcc), "ptxas")
    for architecture in ARCHITECTURES:
        text = output_of([ptxas, "-v", "-O3", "--gpu-name", architecture, "-o", os.devnull, ptx])
        if "Compiling entry function" not in text:
            wrong.append(f"{name}, {architecture}: ptxas says nothing of its kernels")
        wrong += [f"{name}, {architecture}: {kernel} spills {count} bytes" for kernel, count in spills(text)]
    return wrong


def main(nvcc, root):
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        checks = threads.map(lambda name: check_file(nvcc, root, folder, name), EXPECTED)
        wrong = [line for lines in checks for line in lines]
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
