#!/usr/bin/env python3
"""What a plan says of memory is what its workers take, for a model of the size that people train."""
import json
import os
import subprocess
import unittest

from cluster import BIN, Cluster
from job import Job
from real_size import SECONDS, SIZES, need_room

TOO_MUCH = 1.08  # times what is taken; less is never planned
MEMORY_GIB = 12
DISK_GIB = 8


def show(cluster, job):
    environment = {**os.environ, "FIRN_ENDPOINTS": cluster.etcd.url, "FIRN_CLUSTER": cluster.name}
    return json.loads(subprocess.run([BIN + "/firnctl", "job", "show", job.name, "--json"], env=environment,
                                     check=True, capture_output=True).stdout)


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
            words = f"{stages} x {replicas}, rank {one['rank']}: {planned >> 20} MiB planned, {measured >> 20} measured"
            cluster.note(words)
            self.assertLessEqual(measured, planned, words)
            self.assertLessEqual(planned, TOO_MUCH * measured, words)

    def test_plans_are_what_workers_take(self):
        need_room(self, MEMORY_GIB, DISK_GIB)
        sizes = {**SIZES, "model": {**SIZES["model"], "context": 128}, "train__lanes": 4, "train__steps": 10 ** 6,
                 "checkpoint": {"every": 3, "keep": 1}, "evaluate": {"every": 3, "batches": 2}}
        with Cluster(self.id(), nodes=1, slots=2) as cluster:
            job = Job(cluster, **sizes).submit(stages=1, replicas=2)
            self.check(cluster, job, 1, 2)
            self.check(cluster, job, 2, 1)
            self.check(cluster, job, 1, 1)
            job.ask(state="cancelled")
            job.wait_state("cancelled")


if __name__ == "__main__":
    unittest.main(verbosity=2)
