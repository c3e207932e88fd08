"""A model of the size that people train, GPT-2 124M, and what it needs of a machine."""
import os
import shutil

SECONDS = 400  # for what takes ten to forty where nothing else runs
SIZES = {
    "model": {"family": "gpt2", "layers": 12, "width": 768, "heads": 12, "context": 32, "vocab": 50257, "tied": True},
    "train__lanes": 2,
    "train__optimizer": {"lr": 0.0003, "schedule": "constant"},  # of so many steps as of more
    "elastic__freeze": {"policy": "none"},
    "checkpoint": {"every": 8, "keep": 2},
    "evaluate": {"every": 0},
}


def spare_gib():
    """Of memory and of disk."""
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = dict(line.split(":") for line in file)
    return int(memory["MemAvailable"].split()[0]) >> 20, shutil.disk_usage(os.environ.get("TMPDIR", "/tmp")).free >> 30


def need_room(test, memory_gib, disk_gib):
    """Skip @test where that is not free."""
    memory, disk = spare_gib()
    if memory < memory_gib or disk < disk_gib:
        test.skipTest(f"needs {memory_gib} GiB of memory and {disk_gib} of disk; {memory} and {disk} are free")
