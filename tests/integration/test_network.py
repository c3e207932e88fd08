#!/usr/bin/env python3
"""Cables that are cut and mended: nobody says goodbye, and nobody who was away changes anything."""
import time
import unittest

from lib.cluster import FAILURE_TIMEOUT_MS, PIPELINE, Cluster
from lib.job import Job, JobTest
from lib.network import Network

LEASE_SECONDS = 10


class Cables(JobTest):
    def cluster(self):
        return Cluster(self.id(), flags=PIPELINE, network=Network())

    def start(self, cluster):
        job = Job(cluster).submit()
        job.wait_running(6)
        job.wait_step(50)
        return job

    def nodes_of(self, job):
        return {worker["node"] for worker in job.team()}

    def others_go_on(self, job, node):
        job.cluster.wait(f"a plan without node {node.name}", lambda: node.name not in self.nodes_of(job))
        job.wait_step(job.step() + 20)

    def comes_back(self, job, node):
        """Whatever ran there has been sent away or is taken on again; all slots work."""
        node.mend()
        job.cluster.wait_registered(node.name)
        job.wait_running(6)
        job.wait_step(job.step() + 20)

    @staticmethod
    def follower(cluster):
        leader = cluster.wait_leader()
        return next(node for node in cluster.nodes.values() if node is not leader)


class Quick(Cables):
    def test_a_node_loses_its_cable(self):
        """Only silence tells; its workers can do nothing, and join again when the cable is mended."""
        with self.cluster() as cluster:
            job = self.start(cluster)
            node = self.follower(cluster)
            node.cut()
            self.others_go_on(job, node)
            self.comes_back(job, node)
            self.end(job)

    def test_the_leading_node_loses_its_cable(self):
        with self.cluster() as cluster:
            job = self.start(cluster)
            node = cluster.wait_leader()
            node.cut()
            self.others_go_on(job, node)
            self.assertIsNot(cluster.wait_leader(), node)
            self.comes_back(job, node)
            self.end(job)

    def test_two_nodes_lose_each_other_for_long(self):
        """Both reach etcd and the third: one of them is done without, and comes back when its firnd is new."""
        with self.cluster() as cluster:
            job = self.start(cluster)
            pair = [cluster.nodes["a"], cluster.nodes["b"]]
            cluster.note("nodes a and b lose each other")
            cluster.network.part(*(node.cable for node in pair))
            cluster.wait("a plan without one of them", lambda: "do not reach each other: without" in
                         job.plan()["reason_text"])
            node, = [node for node in pair if node.name not in self.nodes_of(job)]
            job.wait_running(4)
            job.wait_step(job.step() + 20)
            cluster.note("and find each other")
            cluster.network.part(*(node.cable for node in pair), apart=False)
            node.kill_daemon()
            node.launch()
            job.wait_running(6)
            job.wait_step(job.step() + 20)
            self.end(job)

    def test_a_node_with_the_whole_job_is_cut_off(self):
        """Nobody can withhold a commit from it: it holds by itself before its lease ends."""
        with Cluster(self.id(), network=Network()) as cluster:
            job = Job(cluster).submit(devices=1)
            job.wait_running(1)
            job.wait_step(50)
            node = cluster.nodes[job.team()[0]["node"]]
            node.cut()
            cluster.wait("the node holds", lambda: "cut off from etcd" in node.read(f"jobs/{job.name}/events.jsonl"))
            self.assertEqual(self.nodes_of(job), {node.name}, "it holds before another node takes over")
            cluster.wait("another node takes over", lambda: node.name not in self.nodes_of(job))
            held = node.read(f"jobs/{job.name}/metrics.jsonl")
            job.wait_running(1)
            job.wait_step(job.step() + 20)
            self.assertEqual(node.read(f"jobs/{job.name}/metrics.jsonl"), held)
            node.mend()
            cluster.wait_registered(node.name)
            cluster.wait("the late worker is sent away", lambda: not node.workers())
            job.wait_step(job.step() + 20)
            self.end(job)


class Slow(Cables):
    def away(self, choose):
        """For longer than every lease and every timeout."""
        with self.cluster() as cluster:
            job = self.start(cluster)
            node = choose(cluster)
            node.cut()
            gone = time.monotonic()
            self.others_go_on(job, node)
            cluster.wait("its lease is over", lambda: time.monotonic() - gone >
                         2 * LEASE_SECONDS + FAILURE_TIMEOUT_MS / 1000)
            self.comes_back(job, node)
            self.end(job)

    def test_isolated_for_longer_than_its_lease(self):
        self.away(self.follower)

    def test_leader_isolated_for_longer_than_its_lease(self):
        self.away(Cluster.wait_leader)

    def test_a_node_goes_for_good(self):
        """Its processes are killed while nobody can hear of it, and it starts anew."""
        with self.cluster() as cluster:
            job = self.start(cluster)
            node = self.follower(cluster)
            node.cut()
            node.kill()
            self.others_go_on(job, node)
            node.mend()
            node.launch()
            job.wait_running(6)
            self.end(job)

    def all_but_the_leader(self, flags, meanwhile):
        with Cluster(self.id(), flags=flags, network=Network()) as cluster:
            job = self.start(cluster)
            cluster.wait("a checkpoint is committed", job.checkpoints)
            leader = cluster.wait_leader()
            others = [node for node in cluster.nodes.values() if node is not leader]
            for node in others:
                node.cut()
            meanwhile(job, others)
            for node in others:
                node.mend()
            cluster.wait_registered(*cluster.nodes)
            job.wait_running(6)
            job.wait_step(job.step() + 20)
            self.end(job)

    def test_one_node_is_left(self):
        def meanwhile(job, others):
            for node in others:
                self.others_go_on(job, node)
        self.all_but_the_leader((), meanwhile)

    def test_one_node_is_left_and_is_too_small(self):
        """It waits for the others, and whatever of their state is needed."""
        def meanwhile(job, _):
            job.cluster.wait("the job says what it waits for", lambda: "waits for slots" in job.why())
        self.all_but_the_leader(PIPELINE, meanwhile)

    def part(self, meanwhile):
        with self.cluster() as cluster:
            job = self.start(cluster)
            one, other = list(cluster.nodes.values())[:2]
            cluster.note("nodes a and b lose each other")
            cluster.network.part(one.cable, other.cable)
            cluster.wait("the generation breaks", lambda: job.events("stuck"))
            meanwhile(job)
            cluster.note("and find each other")
            cluster.network.part(one.cable, other.cable, apart=False)
            job.wait_step(job.step() + 20)
            job.wait_running(6)
            self.end(job)

    def test_two_nodes_lose_each_other_for_a_moment(self):
        self.part(lambda job: job.cluster.wait("another generation is tried",
                                               lambda: job.plan()["generation"] > 1))

    def test_two_nodes_lose_each_other_until_one_is_taken_away(self):
        """Sooner than it is found out which of them to do without: somebody ends one."""
        def meanwhile(job):
            node = job.cluster.nodes["b"]
            node.kill()
            job.wait_step(job.step() + 20, 120)
            node.launch()
        self.part(meanwhile)

    def test_two_nodes_that_are_both_needed_lose_each_other(self):
        """They are waited for, which the job says, and it goes on from memory when they find each other."""
        with Cluster(self.id(), nodes=2, slots=1, network=Network()) as cluster:
            job = Job(cluster).submit(stages=2, replicas=1)
            job.wait_running(2)
            job.wait_step(50)
            cluster.network.part(*(node.cable for node in cluster.nodes.values()))
            cluster.wait("it says what it waits for", lambda: "the network between them is waited for" in job.why())
            held = job.plan()["generation"]
            cluster.network.part(*(node.cable for node in cluster.nodes.values()), apart=False)
            job.wait_step(job.step() + 20)
            self.assertEqual(job.plan()["generation"], held, "it goes on in the generation that waited")
            self.assertEqual(job.plan()["source"], "memory")
            self.end(job)

    def test_cables_are_cut_again_and_again(self):
        with self.cluster() as cluster:
            job = self.start(cluster)
            for turn in range(6):
                node = list(cluster.nodes.values())[turn % 3]
                node.cut()
                self.others_go_on(job, node)
                self.comes_back(job, node)
            self.end(job)


if __name__ == "__main__":
    unittest.main(verbosity=2)
