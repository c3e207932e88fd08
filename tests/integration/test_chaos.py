#!/usr/bin/env python3
"""Random faults for a while, then equality: FIRN_SEED=n runs the same faults again, at their own times."""
import os
import random
import signal
import time
import unittest

from cluster import PIPELINE, Cluster, kill
from job import Job, JobTest

SECONDS = float(os.environ.get("FIRN_CHAOS_SECONDS", "25"))


class Chaos(JobTest):
    def setUp(self):
        seed = int(os.environ.get("FIRN_SEED", random.randrange(10 ** 6)))
        self.seed, self.random = seed, random.Random(seed)

    def worker(self, cluster):
        """Any that lives, on any node; (None, None) when there is none."""
        alive = [(node, pid) for node in cluster.nodes.values() for pid in node.workers()]
        return self.random.choice(alive) if alive else (None, None)

    def kill_worker(self, cluster, _):
        node, pid = self.worker(cluster)
        if pid:
            number = self.random.choice([signal.SIGKILL, signal.SIGSEGV])
            cluster.note(f"worker {pid} of {node.name} gets {number.name}")
            kill(pid, number)

    def kill_two_workers(self, cluster, job):
        self.kill_worker(cluster, job)
        self.kill_worker(cluster, job)

    def stop_worker(self, cluster, _):
        node, pid = self.worker(cluster)
        if pid:
            seconds = self.random.choice([0.2, 3.0])
            cluster.note(f"worker {pid} of {node.name} stops for {seconds} s")
            kill(pid, signal.SIGSTOP)
            self.rest(cluster, seconds)
            kill(pid, signal.SIGCONT)

    def kill_node(self, cluster, _):
        node = self.random.choice(list(cluster.nodes.values()))
        node.kill()
        self.rest(cluster, self.random.uniform(0, 4))
        node.launch()

    def kill_daemon(self, cluster, _):
        node = self.random.choice(list(cluster.nodes.values()))
        node.kill_daemon()
        self.rest(cluster, self.random.uniform(0, 4))
        node.launch()

    def kill_etcd(self, cluster, _):
        cluster.note("etcd is killed")
        cluster.etcd.kill()
        self.rest(cluster, self.random.uniform(0, 3))
        cluster.etcd.launch()
        cluster.wait("etcd is healthy again", cluster.etcd.healthy)

    def scale(self, _, job):
        job.ask(devices=self.random.randint(2, 6))

    def rest(self, cluster, seconds):
        until = time.monotonic() + seconds
        cluster.wait(f"{seconds:.1f} s are over", lambda: time.monotonic() > until)

    def test_random_faults(self):
        faults = [self.kill_worker, self.kill_worker, self.kill_two_workers, self.stop_worker,
                  self.kill_node, self.kill_daemon, self.kill_etcd, self.scale]
        with Cluster(f"{self.id()} with FIRN_SEED={self.seed}", flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_step(1)
            while time.monotonic() - cluster.began < SECONDS:
                self.rest(cluster, self.random.expovariate(1))
                self.random.choice(faults)(cluster, job)
            job.ask(devices=0)
            cluster.wait_registered(*cluster.nodes)
            job.wait_running(6)
            job.wait_step(job.step() + 40)
            self.end(job)


if __name__ == "__main__":
    unittest.main(verbosity=2)
