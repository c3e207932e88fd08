#!/usr/bin/env python3
"""A cluster is upgraded node by node, as an operator does it, while a job trains."""
import signal
import unittest

from lib.cluster import BIN, PIPELINE, Cluster, kill
from lib.job import CHECKPOINT_EVERY, Job, JobTest

NEXT = ("--worker", BIN.rstrip("/").removesuffix("/bin") + "/tests/firn-next-worker")
NEXT_LINKS = 200  # FRAME_VERSION of firn-next-worker


class Upgrade(JobTest):
    def upgrade(self, node):
        """systemctl reload firnd, after the programs were replaced."""
        workers = node.workers()
        node.cluster.note(f"node {node.name} is upgraded")
        node.flags = (*node.flags, *NEXT)
        node.process.send_signal(signal.SIGUSR2)
        node.process.wait()
        node.launch()
        node.cluster.wait_registered(node.name)
        self.assertEqual(node.workers(), workers, "the workers of old were to go on")

    def test_node_by_node(self):
        """Also a worker dies meanwhile: its node cannot start another one that the rest understands."""
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_step(30)
            before = job.plan()["links"]
            self.upgrade(cluster.nodes["a"])
            job.wait_step(job.step() + 10)
            cluster.wait("it is said why node a is left out", lambda: "node a starts workers of link "
                         f"protocol {NEXT_LINKS}, this job's speak {before}" in job.why())
            victim = cluster.nodes["a"].workers()[0]
            cluster.note(f"worker {victim} of node a is killed")
            kill(victim)
            cluster.wait("the others go on", lambda: len(job.team()) in (4, 5) and job.plan()["links"] == before)
            cluster.wait("a worker without a part has left", lambda: sum(
                len(node.workers()) for node in cluster.nodes.values()) == len(job.team()))
            job.wait_step(job.step() + 10)
            self.upgrade(cluster.nodes["b"])
            job.wait_step(job.step() + 10)
            self.upgrade(cluster.nodes["c"])
            cluster.wait("the job has moved over", lambda: job.plan().get("links") == NEXT_LINKS)
            moved = job.wait_running(6)
            self.assertEqual(moved["source"], "checkpoint")
            self.assertEqual(moved["resume_step"], job.checkpoints()[-1]["step"])
            self.assertEqual(moved["resume_step"], max(
                line["step"] for _, line in job.lines() if line["generation"] < moved["generation"] - 1),
                "a step was lost")
            job.wait_step(job.step() + 20)
            cluster.wait("there is a checkpoint that the undisturbed run has, too", lambda: any(
                record["step"] % CHECKPOINT_EVERY == 0 for record in job.checkpoints()))
            self.end(job)


if __name__ == "__main__":
    unittest.main(verbosity=2)
