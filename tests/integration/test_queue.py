#!/usr/bin/env python3
"""Several jobs and too few slots: who has them, who gets the next ones, and what those who wait are told."""
import json
import unittest

from cluster import Cluster
from job import ENDLESS, Job, JobTest
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


if __name__ == "__main__":
    unittest.main()
