#!/usr/bin/env python3
"""A checkpoint is read for as long as it takes: no limit but silence ends a start."""
import unittest

from lib.cluster import BIN, Cluster
from lib.job import Job

SECONDS = 25  # to read a stage's state, and as long to check its files; without progress 30 s end a start
STEPS = 20
LARGER = {"model__width": 128, "train__steps": STEPS, "checkpoint__every": 10, "elastic__freeze": {"policy": "none"}}
STATE_BYTES = 3 * 4 * 128 * (4 * 12 * 128)  # of the layers: parameters and moments


class SlowDisk(unittest.TestCase):
    def test_restores_from_a_slow_disk(self):
        with Cluster(self.id(), nodes=2, slots=1) as cluster:
            job = Job(cluster, **LARGER).submit(stages=2, replicas=1)
            job.wait_completed()
            undisturbed = job.exact(), job.digests()
        with Cluster(self.id(), nodes=2, slots=1) as cluster:
            job = Job(cluster, **LARGER).submit(stages=2, replicas=1)
            cluster.wait("a checkpoint is recorded", job.checkpoints)
            for node in cluster.nodes.values():
                node.kill()
            cluster.environment.update(
                LD_PRELOAD=BIN.rstrip("/").removesuffix("/bin") + "/tests/libslow-disk.so",
                FIRN_READ_RATE=str(STATE_BYTES / 2 / SECONDS))
            before = job.plan()["generation"]
            for node in cluster.nodes.values():
                node.launch()
            cluster.wait("the job says what its workers do", lambda: "reads its state" in job.why(), 60)
            job.wait_completed(seconds=300)
            plans = [event["text"] for event in job.events() if event["text"].startswith(f"plan of generation {before + 1}")]
            self.assertEqual(len(plans), 1, plans)
            self.assertIn("from the checkpoint of step 10", plans[0])
            self.assertEqual(job.plan()["generation"], before + 2)  # the next one is empty: all steps are committed
            self.assertEqual((job.exact(), job.digests()), undisturbed)


if __name__ == "__main__":
    unittest.main(verbosity=2)
