#!/usr/bin/env python3
"""A model of the size that people train: GPT-2 124M joins, dies, rests and goes on, and is the undisturbed run's.

Toy models hide what grows with the size: memory that is touched while others wait, gigabytes that move in a switch,
messages that do not fit a buffer, checkpoints that take seconds."""
import unittest

from lib.cluster import Cluster, kill
from lib.job import ENDLESS, Job
from lib.real_size import SECONDS, SIZES, need_room

MEMORY_GIB = 10  # two workers of 3.5 GiB each, and their checkpoints in the page cache
DISK_GIB = 8


class RealSize(unittest.TestCase):
    def setUp(self):
        need_room(self, MEMORY_GIB, DISK_GIB)

    def go_on(self, job, steps=1):
        job.wait_step(job.step() + steps, SECONDS)

    def join(self, cluster, job):
        cluster.add("b", 1)
        cluster.launch()
        job.wait_running(2, SECONDS)
        self.go_on(job)

    def kill_ranks(self, cluster, job, *ranks):
        """Survivors go on; with none of them the newest checkpoint is restored."""
        for node, process in [job.rank_of(rank) for rank in ranks]:
            cluster.note(f"killed: the worker on {node.name}")
            kill(process)

    def rest(self, job):
        """The state is in a checkpoint alone, and comes back from there."""
        self.pause(job)
        job.ask(state="running")
        self.go_on(job)

    def pause(self, job):
        job.ask(state="paused")
        job.wait_state("paused", seconds=SECONDS)

    def assert_undisturbed(self, expected, digests):
        """A run of as many steps on one worker, which nothing happens to, has these lines and that end."""
        steps = len(expected)
        with Cluster(self.id() + ", undisturbed", nodes=1, slots=1) as cluster:
            job = Job(cluster, **SIZES, train__steps=steps).submit()
            job.wait_completed(seconds=SECONDS)
            self.assertEqual(job.exact(), expected)
            self.assertEqual(job.digests()[steps], digests[steps])


class Quick(RealSize):
    def test_a_join_a_death_and_a_rest(self):
        with Cluster(self.id(), nodes=1, slots=1) as cluster:
            job = Job(cluster, **SIZES, train__steps=ENDLESS).submit()
            job.wait_step(1, SECONDS)
            self.join(cluster, job)
            self.kill_ranks(cluster, job, 1)
            self.go_on(job)
            self.rest(job)
            self.pause(job)
            expected, digests = job.exact(), job.digests()
        self.assert_undisturbed(expected, digests)


class Slow(RealSize):
    def test_the_newest_checkpoint_is_gone_back_to(self):
        with Cluster(self.id(), nodes=1, slots=1) as cluster:
            job = Job(cluster, **SIZES, train__steps=ENDLESS).submit()
            cluster.wait("there is a checkpoint", job.checkpoints, SECONDS)
            self.join(cluster, job)
            self.kill_ranks(cluster, job, 0, 1)
            self.go_on(job)
            job.wait_running(2, SECONDS)
            job.ask(stages=2, replicas=1)
            cluster.wait("it runs as a pipeline", lambda: (2, 1) in job.generations().values(), SECONDS)
            self.go_on(job, 10)
            self.kill_ranks(cluster, job, 0)
            self.go_on(job)
            self.rest(job)
            self.pause(job)
            expected, digests = job.exact(), job.digests()
        self.assert_undisturbed(expected, digests)


if __name__ == "__main__":
    unittest.main(verbosity=2)
