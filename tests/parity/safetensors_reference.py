#!/usr/bin/env python3
"""Opens a checkpoint's folder as Hugging Face's tools do: the index, then each file with the official reader.

Every value must be the index of its element plus 1000 times the number in the tensor's name, which is
what test_huggingface wrote. Exit status: 0 equal, 1 not, 77 when safetensors or numpy is not installed.
"""
import json
import os
import sys

try:
    import numpy
    from safetensors import safe_open
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def check(folder):
    with open(os.path.join(folder, "model.safetensors.index.json"), encoding="utf-8") as file:
        index = json.load(file)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        assert json.load(file)["model_type"] == "gpt2"
    total = 0
    for name, file_name in index["weight_map"].items():
        with safe_open(os.path.join(folder, file_name), "numpy") as file:
            assert file.metadata() == {"format": "pt"}, file.metadata()
            assert sorted(file.keys()) == sorted(n for n, f in index["weight_map"].items() if f == file_name)
            tensor = file.get_tensor(name)
        start = 1000 * int(name.split(".")[1])
        expected = numpy.arange(start, start + tensor.size, dtype=numpy.float32)
        assert tensor.dtype == numpy.float32
        assert numpy.array_equal(tensor.reshape(-1), expected), name
        total += tensor.nbytes
    assert total == index["metadata"]["total_size"]
    print(f"{len(index['weight_map'])} tensors, {total} bytes")


check(sys.argv[1])
