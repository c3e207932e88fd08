#!/usr/bin/env python3
"""A model of the size that people train: GPT-2 124M joins, dies, rests and goes on, and is the undisturbed run's.

Toy models hide what grows with the size: memory that is touched while others wait, gigabytes that move in a switch,
messages that do not fit a buffer, checkpoints that take seconds."""
import os
import shutil
import unittest

from cluster import Cluster, kill
from job import Job

STEPS = 40  # more than a join and a death take
SECONDS = 400  # for what takes ten to forty where nothing else runs
MEMORY_GIB = 12  # two workers of 4 GiB each, and their checkpoints in the page cache
DISK_GIB = 12
SIZES = {
    "model": {"family": "gpt2", "layers": 12, "width": 768, "heads": 12, "context": 32, "vocab": 50257, "tied": True},
    "train__lanes": 2,
    "train__steps": STEPS,
    "train__optimizer": {"lr": 0.0003},
    "elastic__freeze": {"policy": "none"},
    "checkpoint": {"every": 10, "keep": 2},
    "evaluate": {"every": 0},
}


def spare_gib():
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = dict(line.split(":") for line in file)
    return int(memory["MemAvailable"].split()[0]) >> 20, shutil.disk_usage(os.environ.get("TMPDIR", "/tmp")).free >> 30


class RealSize(unittest.TestCase):
    def test_gpt2_124m(self):
        memory, disk = spare_gib()
        if memory < MEMORY_GIB or disk < DISK_GIB:
            self.skipTest(f"needs {MEMORY_GIB} GiB of memory and {DISK_GIB} of disk; {memory} and {disk} are free")
        with Cluster(self.id() + ", undisturbed", nodes=1, slots=1) as cluster:
            job = Job(cluster, **SIZES).submit()
            job.wait_completed(seconds=SECONDS)
            expected, digest = job.exact(), job.digests()[STEPS]
        self.assertEqual(len(expected), STEPS)
        with Cluster(self.id(), nodes=2, slots=1) as cluster:
            late = cluster.nodes["b"]
            late.kill_daemon()
            cluster.wait("b is gone", lambda: not cluster.etcd.get(f"/firn/v1/{cluster.name}/nodes/b"), 60)
            job = Job(cluster, **SIZES).submit()
            job.wait_step(1, SECONDS)
            late.launch()
            job.wait_running(2, SECONDS)
            job.wait_step(job.step() + 1, SECONDS)
            node, process = job.rank_of(1)
            cluster.note(f"killed: the worker on {node.name}")
            kill(process)
            job.wait_step(job.step() + 1, SECONDS)
            if job.step() < STEPS:  # a fast machine may be through
                job.ask(state="paused")
                job.wait_state("paused", "completed", seconds=SECONDS)
                job.ask(state="running")
            job.wait_completed(seconds=SECONDS)
            self.assertEqual(job.exact(), expected)
            self.assertEqual(job.digests()[STEPS], digest)


if __name__ == "__main__":
    unittest.main(verbosity=2)
