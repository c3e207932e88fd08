#!/usr/bin/env python3
"""Several jobs and too few slots: who has them, who gets the next ones, and what those who wait are told."""
import json
import unittest

from lib.cluster import Cluster
from lib.job import ENDLESS, Job, JobTest
from test_checkpoints import firnctl


class Queue(JobTest):
    def one(self, cluster, name, least=1, most=1, steps=ENDLESS):
        return Job(cluster, name=name, train__steps=steps, elastic__devices={"min": least, "max": most}).submit()

    def used(self, cluster):
        """Slots in use, by node, as firnctl node list has them."""
        status, text = firnctl(cluster, "node", "list", "--json")
        self.assertEqual(status, 0, text)
        return {node["name"]: node["slots_in_use"] for node in json.loads(text)["nodes"]}

    def test_a_paused_job_has_no_slots(self):
        with Cluster(self.id(), nodes=2, slots=1) as cluster:
            first, second = self.one(cluster, "p1"), self.one(cluster, "p2")
            first.wait_running(1)
            second.wait_running(1)
            first.wait_step(5)
            first.ask(state="paused")
            first.wait_state("paused")
            self.assertEqual(sorted(self.used(cluster).values()), [0, 1])
            self.assertEqual(firnctl(cluster, "job", "pause", "p1"),
                             (0, "job p1 was already asked to pause: it is paused\n"))
            status, text = firnctl(cluster, "job", "scale", "p2", "--stages", "9")
            self.assertEqual(status, 1)
            self.assertIn("9 stages x 1 replica are asked for, 1 slot may be used (2 slots are in service on 2 nodes", text)
            third = self.one(cluster, "p3")
            third.wait_running(1)
            self.assertEqual(sorted(self.used(cluster).values()), [1, 1])
            first.ask(state="running")
            first.wait_state("waiting")
            cluster.wait("it says who has the slots", lambda: "job p2 has 1, job p3 has 1" in first.why())
            self.assertIn("wants at least 1, 0 are free", first.why())
            self.assertIn("firnctl job scale, pause or cancel", first.why())

    def test_a_job_that_a_drain_emptied_has_no_slots(self):
        with Cluster(self.id(), nodes=2, slots=1) as cluster:
            wide = self.one(cluster, "wide", least=2, most=2)
            wide.wait_running(2)
            wide.wait_step(5)
            cluster.etcd.put(f"/firn/v1/{cluster.name}/drains/b", {})
            wide.wait_state("waiting")
            self.assertEqual(set(self.used(cluster).values()), {0})
            self.one(cluster, "narrow").wait_running(1)

    def test_first_submitted_first_served(self):
        """Not by name; and who waits for more than there is keeps nobody waiting."""
        with Cluster(self.id(), nodes=1, slots=2) as cluster:
            first = self.one(cluster, "first", least=2, most=2)
            first.wait_running(2)
            order = [self.one(cluster, "z", least=2, most=2), self.one(cluster, "y", least=3, most=3),
                     self.one(cluster, "b", least=1, most=1), self.one(cluster, "a", least=2, most=2)]
            for job in order:
                job.wait_state("waiting")
            cluster.wait("b says who is before it", lambda: "for job z, submitted before" in order[2].why())
            running = first
            for job, slots in ((order[0], 2), (order[2], 1)):
                running.ask(state="cancelled")
                running.wait_state("cancelled")
                job.wait_running(slots)
                self.assertEqual(order[3].state(), "waiting")
                running = job
            running.ask(state="cancelled")
            order[3].wait_running(2)
            self.assertEqual(order[1].state(), "waiting")

    def test_who_has_more_than_its_least_gives_way(self):
        """The default takes all slots; another job gets what it needs to begin, and back they go when it is over."""
        with Cluster(self.id(), nodes=2, slots=2) as cluster:
            greedy = self.one(cluster, "greedy", least=1, most=64)
            greedy.wait_running(4)
            greedy.wait_step(10)
            late = self.one(cluster, "late", least=2, most=64)
            late.wait_running(2)
            greedy.wait_running(2)
            self.assertIn("job late waits for slots", [event["text"] for event in greedy.events("plan")][-1])
            greedy.wait_step(greedy.step() + 10)
            generation = greedy.plan()["generation"]
            late.wait_step(late.step() + 20)
            self.assertEqual(greedy.plan()["generation"], generation, "both stay as they are")
            late.ask(state="cancelled")
            greedy.wait_running(4)
            self.end(greedy)


if __name__ == "__main__":
    unittest.main()
