#!/usr/bin/env python3
"""What a plan says of memory is what its workers take, of models from some five million parameters on."""
import json
import os
import subprocess
import unittest

from lib.cluster import BIN, Cluster
from lib.job import Job
from lib.real_size import SECONDS, SIZES, need_room

TOO_MUCH = 1.08  # times what is taken; less is never planned
MEMORY_GIB = 12
DISK_GIB = 8


def show(cluster, job):
    environment = {**os.environ, "FIRN_ENDPOINTS": cluster.etcd.url, "FIRN_CLUSTER": cluster.name}
    return json.loads(subprocess.run([BIN + "/firnctl", "job", "show", job.name, "--json"], env=environment,
                                     check=True, capture_output=True).stdout)


def small(width, layers, vocab, context=128, **changes):
    """A job whose workers take some hundred MiB."""
    return {"model": {"family": "gpt2", "layers": layers, "width": width, "heads": 8, "context": context,
                      "vocab": vocab, "tied": True},
            "train__lanes": 4, "train__optimizer": {"lr": 0.0003, "schedule": "constant"}, **COMMON,
            "elastic__freeze": {"policy": "none"}, **changes}


COMMON = {"train__steps": 10 ** 6, "checkpoint": {"every": 3, "keep": 1}, "evaluate": {"every": 3, "batches": 2}}


class Memory(unittest.TestCase):
    def check(self, cluster, job, stages, replicas):
        """Of that layout, when it has taken steps, written a checkpoint and evaluated."""
        job.ask(stages=stages, replicas=replicas)
        job.wait_running(stages * replicas, SECONDS)
        job.wait_step(job.step() + 5, SECONDS)

        def known():
            memory = show(cluster, job)["memory"]
            return memory if len(memory) == stages * replicas and all(one["measured_bytes"] for one in memory) else None
        for one in cluster.wait("all workers say what they take", known, SECONDS):
            planned, measured = one["planned_bytes"], one["measured_bytes"]
            words = f"{cluster.name}: {stages} x {replicas}, rank {one['rank']}: {planned >> 20} MiB planned, {measured >> 20} measured"
            cluster.note(words)
            if os.environ.get("FIRN_TABLE"):  # for docs/measurements.md
                print(self.id().split(".")[-1], words, f"{100 * (planned / measured - 1):+.1f} %", flush=True)
            self.assertLessEqual(measured, planned, words)
            self.assertLessEqual(planned, TOO_MUCH * measured, words)

    def check_small(self, layouts, threads=1, **sizes):
        need_room(self, 4, 4)
        with Cluster(self.id(), nodes=1, slots=2, flags=("--threads", str(threads))) as cluster:
            job = Job(cluster, **sizes).submit(stages=layouts[0][0], replicas=layouts[0][1])
            for stages, replicas in layouts:
                self.check(cluster, job, stages, replicas)
            job.ask(state="cancelled")
            job.wait_state("cancelled")


class Quick(Memory):
    def test_width_256(self):
        self.check_small([(1, 2), (2, 1), (1, 1)], **small(256, 6, 2048))

    def test_width_512_with_frozen_layers(self):
        """Frozen from step 4 on, so the second and third layout are planned without them."""
        freeze = {"policy": "schedule", "every": 4, "keep_active": 4}
        self.check_small([(1, 2), (2, 1), (1, 1)], **small(512, 8, 8192, elastic__freeze=freeze))


class Slow(Memory):
    def test_gpt2_124m(self):
        need_room(self, MEMORY_GIB, DISK_GIB)
        sizes = {**SIZES, "model": {**SIZES["model"], "context": 128}, "train__lanes": 4, **COMMON}
        with Cluster(self.id(), nodes=1, slots=2) as cluster:
            job = Job(cluster, **sizes).submit(stages=1, replicas=2)
            self.check(cluster, job, 1, 2)
            self.check(cluster, job, 2, 1)
            self.check(cluster, job, 1, 1)
            job.ask(state="cancelled")
            job.wait_state("cancelled")

    def test_width_160(self):
        self.check_small([(1, 2), (1, 1)], **small(160, 6, 2048))

    def test_width_256_on_four_threads(self):
        self.check_small([(1, 2), (1, 1)], threads=4, **small(256, 6, 2048))

    def test_width_512_and_context_512(self):
        self.check_small([(1, 2), (2, 1)], **small(512, 6, 8192, context=512))


if __name__ == "__main__":
    unittest.main(verbosity=2)
