#!/usr/bin/env python3
"""Holds the GPU's machine code to what its source is meant to become: check_code.py NVCC ROOT

No kernel that matters spills registers, the tiles of attention use matrix instructions and ldmatrix, and flat
memory is read 16 bytes at a time. ptxas says the first, the PTX the others. Two architectures are enough: the source
does not distinguish them.
"""
import os
import re
import subprocess
import sys
import tempfile

ARCHITECTURES = ("sm_80", "sm_120")
# File, and what its PTX must contain.
EXPECTED = {
    "attention_tiles.cu": ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
                           "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
                           "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"),
    "elementwise.cu": (r"ld\.global\.(?:nc\.)?v4", r"st\.global\.v4"),
    "norm.cu": (r"ld\.global\.(?:nc\.)?v4",),
    "rmsnorm.cu": (r"ld\.global\.(?:nc\.)?v4", r"st\.global\.v4"),
    "rotary.cu": (r"ld\.global\.(?:nc\.)?v4", r"st\.global\.v4"),
    "swiglu.cu": (r"ld\.global\.(?:nc\.)?v4", r"st\.global\.v4"),
}


def compiled(nvcc, root, name, arguments):
    command = [nvcc, "-std=c++17", "-O3", f"-I{root}", *arguments,
               os.path.join(root, "kernels/cuda", name)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{name}: {result.stderr}")
    return result.stderr


def spills(text):
    """(kernel, bytes) of every kernel that ptxas made spill."""
    kernel = ""
    for line in text.splitlines():
        named = re.search(r"Compiling entry function '(\S+)'", line)
        kernel = named.group(1) if named else kernel
        spilled = re.search(r"(\d+) bytes spill stores", line)
        if spilled and int(spilled.group(1)) > 0:
            yield kernel, spilled.group(1)


def main(nvcc, root):
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for name, patterns in EXPECTED.items():
            for architecture in ARCHITECTURES:
                text = compiled(nvcc, root, name, ["-arch", architecture, "-Xptxas", "-v", "-c",
                                                   "-o", os.path.join(folder, "object")])
                if "Compiling entry function" not in text:
                    wrong.append(f"{name}: ptxas says nothing of its kernels")
                wrong += [f"{name}, {architecture}: {kernel} spills {count} bytes"
                          for kernel, count in spills(text)]
            ptx = os.path.join(folder, "ptx")
            compiled(nvcc, root, name, ["-arch", ARCHITECTURES[0], "-ptx", "-o", ptx])
            with open(ptx, encoding="utf-8") as file:
                content = file.read()
            wrong += [f"{name}: no {pattern}" for pattern in patterns
                      if not re.search(pattern, content)]
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
