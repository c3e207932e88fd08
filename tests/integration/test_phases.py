#!/usr/bin/env python3
"""A worker dies at every place in its work, one after the other in one run, and the result is the undisturbed one's.

The places are those of doomed_worker.c: before a worker holds, between holding and the commit, while some
have the commit and some have not, between the commit and the optimizer step, after it; in a switch of
layouts before and after links and state; in a checkpoint before and after it gets its name.
"""
import signal
import unittest

from lib.cluster import PIPELINE, Cluster
from lib.doom import CHECKPOINT, DOOMED, ROOT_NEVER, ROOT_ONLY, STEP, SWITCH, Order
from lib.job import Job, JobTest


class Phases(JobTest):
    turn = 0

    def start(self, cluster):
        job = Job(cluster).submit()
        job.wait_step(20)
        job.wait_running(6)
        return job

    def victim(self, job, place):
        """(node, slot): everybody gets a turn, so that no slot is taken for a bad one."""
        workers = job.team()
        self.turn += 1
        if place in ROOT_NEVER:
            workers = workers[1:]
        worker = workers[0 if place in ROOT_ONLY else self.turn % len(workers)]
        return job.cluster.nodes[worker["node"]], worker["slot"]

    def die_in_a_switch(self, job, place, number):
        """Layouts of two sizes change, and another worker is ordered to die in each: not everybody has state
        to hand over in every change."""
        for devices in (4, 6) * 4:
            node, slot = self.victim(job, place)
            order = Order(job, node, slot, place, number)
            job.ask(devices=devices)
            job.cluster.wait(f"{order.what}, or {devices} workers", lambda order=order, devices=devices:
                             order.carried_out() or self.settled(job, devices))
            if order.carried_out():
                return
            order.withdraw()
        self.fail(f"nobody came by: {place}")

    @staticmethod
    def settled(job, devices):
        lines = job.newest(10)
        return len(lines) == 10 and {line["workers"] for line in lines} == {devices}

    def die(self, job, place, number):
        """One worker dies there; the others go on, and it comes back."""
        if place in SWITCH:
            self.die_in_a_switch(job, place, number)
        else:
            node, slot = self.victim(job, place)
            order = Order(job, node, slot, place, number, job.step() + 1)
            job.cluster.wait(order.what, order.carried_out)
        job.wait_step(job.step() + 10)
        job.ask(devices=6)
        job.wait_running(6)

    def all_places(self, places, numbers, rounds=1):
        """A cluster for each round: in one of them a slot would die too often, and be taken out of service."""
        for first in range(rounds):
            with Cluster(self.id(), flags=PIPELINE + DOOMED) as cluster:
                job = self.start(cluster)
                for turn, place in enumerate(places, first * len(places)):
                    self.die(job, place, numbers[turn % len(numbers)])
                self.end(job)


class Quick(Phases):
    def test_in_a_step(self):
        self.all_places(STEP, (signal.SIGKILL, signal.SIGSEGV))

    def test_in_a_checkpoint(self):
        self.all_places(CHECKPOINT, (signal.SIGSEGV, signal.SIGKILL))


class Slow(Phases):
    def test_in_a_switch(self):
        self.all_places(SWITCH, (signal.SIGSEGV, signal.SIGKILL))

    def test_killed_everywhere(self):
        self.all_places(STEP + SWITCH + CHECKPOINT, (signal.SIGKILL,), 3)

    def test_a_bug_everywhere(self):
        self.all_places(STEP + SWITCH + CHECKPOINT, (signal.SIGSEGV,), 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
