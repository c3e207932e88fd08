#!/usr/bin/env python3
"""Whatever is killed, stopped or taken away, a job's result is that of the undisturbed run."""
import signal
import time
import unittest

from lib.cluster import FAILURE_TIMEOUT_MS, PIPELINE, Cluster, kill
from lib.job import CHECKPOINT_EVERY, FREEZE_EVERY, Job, JobTest
from lib.processes import is_alive

LEASE_SECONDS = 10


class Faults(JobTest):
    def kill_ranks(self, job, *ranks):
        """In the same moment, as far as there is one."""
        victims = [job.rank_of(rank) for rank in ranks]
        job.cluster.note("killed: " + ", ".join(f"rank {rank} on {node.name}" for rank, (node, _)
                                                in zip(ranks, victims)))
        for _, pid in victims:
            kill(pid)
        return [node for node, _ in victims]

    def taken_over(self, job, node, workers):
        cluster = job.cluster
        node.launch()
        cluster.wait_registered(node.name)
        cluster.wait("the workers are taken over", lambda: sorted(
            worker["pid"] for worker in node.job_workers(job.name)) == workers)
        job.wait_step(job.step() + 20)
        self.assertEqual(job.events("stuck"), [])
        self.assertEqual([plan for plan in job.events("plan") if "lost" in plan["text"]], [])
        self.end(job)

    def test_leading_daemon_is_killed(self):
        """Another node leads, the workers go on, and the firnd that follows takes them over."""
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_step(30)
            node = cluster.wait_leader()
            workers = node.workers()
            self.assertEqual(len(workers), 2)
            node.kill_daemon()
            cluster.wait("another node leads", cluster.leader)
            job.wait_step(job.step() + 20)
            self.assertTrue(all(map(is_alive, workers)))
            self.taken_over(job, node, workers)

    def test_other_daemon_is_killed(self):
        """Layers freeze meanwhile; the switch to fewer stages waits until all can hear of it."""
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_step(FREEZE_EVERY - 40)  # away for less than its lease, on a slow machine too
            leader = cluster.wait_leader()
            node = next(node for node in cluster.nodes.values() if node is not leader)
            workers = node.workers()
            self.assertEqual(len(workers), 2)
            node.kill_daemon()
            killed = time.monotonic()
            job.wait_step(FREEZE_EVERY + 60)
            generations = set(job.generations())
            if time.monotonic() - killed < LEASE_SECONDS:
                self.assertEqual(generations, {1})
            self.assertTrue(all(map(is_alive, workers)))
            self.taken_over(job, node, workers)

    def test_daemon_goes_for_long_before_a_change_that_needs_its_node(self):
        """What its workers cannot hear of is planned anew, without them."""
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_running(6)
            leader = cluster.wait_leader()
            node = next(node for node in cluster.nodes.values()
                        if node not in (leader, job.rank_of(0)[0]))
            node.kill_daemon()
            plan = cluster.wait("another plan takes the change's place", lambda: next(
                (plan for plan in job.events("plan") if "cannot hear" in plan["text"]), None))
            self.assertIn(f"node {node.name} is gone", plan["text"])
            cluster.wait("it begins", lambda: max(job.generations()) >= plan["generation"])
            node.launch()
            cluster.wait("its slots are used again", lambda: node.name in
                         {worker["node"] for worker in job.plan()["workers"]})
            job.wait_step(job.step() + 20)
            self.end(job)

    def test_daemon_is_away_for_longer_than_its_lease(self):
        """Its node is left by a planned change, although nobody there can be told of it."""
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_step(FREEZE_EVERY + 60)
            cluster.wait("no change is being prepared",
                         lambda: not cluster.etcd.range(job.root + "next"))
            job.wait_running(6)
            leader = cluster.wait_leader()
            node = next(node for node in cluster.nodes.values() if node is not leader)
            node.kill_daemon()
            cluster.wait(f"node {node.name} is left", lambda: node.name not in
                         {worker["node"] for worker in job.plan()["workers"]})
            job.wait_step(job.step() + 20)
            node.launch()
            job.wait_running(6)
            self.end(job)

    def test_leading_daemon_stands_still_for_longer_than_its_lease(self):
        """What it believes when it goes on is over: another one leads, and has left its node."""
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_running(6)
            leader = cluster.wait_leader()
            workers = leader.workers()
            cluster.note(f"firnd {leader.name} gets SIGSTOP")
            kill(leader.process.pid, signal.SIGSTOP)
            others = [node for node in cluster.nodes.values() if node is not leader]
            cluster.wait("another node leads", lambda: any(node.status().get("leads") for node in others))
            job.wait_step(FREEZE_EVERY + 20)
            self.assertTrue(all(map(is_alive, workers)))
            cluster.wait(f"node {leader.name} is left", lambda: leader.name not in
                         {worker["node"] for worker in job.plan()["workers"]})
            job.wait_step(job.step() + 20)
            cluster.note("and SIGCONT")
            kill(leader.process.pid, signal.SIGCONT)
            cluster.wait("its slots are used again", lambda: leader.name in
                         {worker["node"] for worker in job.plan()["workers"]})
            job.wait_running(6)
            self.assertEqual(sum(bool(node.status().get("leads")) for node in cluster.nodes.values()), 1)
            self.end(job)

    def test_worker_stops_and_continues(self):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_step(50)
            before = job.plan()["generation"]
            node, pid = job.rank_of(1)
            cluster.note(f"rank 1 on {node.name} gets SIGSTOP")
            kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            cluster.wait("the others go on without it",
                         lambda: job.plan()["generation"] > before, 20)
            job.wait_step(job.step() + 20)
            cluster.wait("it is late for sure", lambda: time.monotonic() - began >
                         2 * FAILURE_TIMEOUT_MS / 1000)
            cluster.note("and SIGCONT")
            kill(pid, signal.SIGCONT)
            cluster.wait("it is sent away", lambda: not is_alive(pid))
            job.wait_running(6)  # with another process in its place
            self.end(job)

    def test_two_workers_die_together_and_every_stage_survives(self):
        with Cluster(self.id()) as cluster:
            job = Job(cluster, train__steps=400).submit(stages=3)
            job.wait_step(50)
            self.assertEqual((job.plan()["stages"], job.plan()["replicas"]), (3, 2))
            nodes = self.kill_ranks(job, 0, 4)  # stage 0 of one replica, stage 1 of the other
            self.assertNotEqual(*nodes)
            job.wait_completed()
            self.assert_exact(job)

    def test_a_stage_dies_entirely(self):
        with Cluster(self.id()) as cluster:
            job = Job(cluster, train__steps=400).submit(stages=3)
            job.wait_step(60)
            cluster.wait("a checkpoint is committed", job.checkpoints)
            self.assertEqual((job.plan()["stages"], job.plan()["replicas"]), (3, 2))
            self.kill_ranks(job, 1, 4)  # both replicas of stage 1
            job.wait_completed()
            self.assert_exact(job)

    def lose_the_node_of_a_single_replica(self, shadow):
        """Three stages of one replica on three of four nodes; the plan that follows the loss."""
        with Cluster(self.id(), nodes=4, slots=1) as cluster:
            job = Job(cluster, elastic__shadow=shadow).submit(stages=3, replicas=1)
            cluster.wait("a checkpoint is committed", job.checkpoints)
            job.wait_step(job.step() + CHECKPOINT_EVERY // 2)
            before = job.plan()
            self.assertEqual(len(before.get("shadows", [])), 3 if shadow else 0)
            cluster.nodes[before["workers"][1]["node"]].kill()
            after = cluster.wait("a plan follows the loss", lambda: next(
                (plan for plan in [job.plan()] if plan["generation"] > before["generation"]), None))
            job.wait_step(max(job.step(), FREEZE_EVERY) + 20)
            self.end(job)
            return after

    def test_a_node_dies_and_the_shadow_of_its_stage_lives(self):
        after = self.lose_the_node_of_a_single_replica(shadow=True)
        self.assertEqual(after["source"], "memory")
        self.assertEqual(len(after["shadows"]), 3)

    def test_a_node_dies_with_the_only_copy_of_its_stage(self):
        after = self.lose_the_node_of_a_single_replica(shadow=False)
        self.assertEqual(after["source"], "checkpoint")

    def test_worker_dies_while_another_is_replaced(self):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster, train__steps=600).submit()
            job.wait_step(50)
            before = job.plan()["generation"]
            _, next_victim = job.rank_of(3)
            self.kill_ranks(job, 2)
            cluster.wait("another generation is in force", lambda: job.plan()["generation"] > before)
            cluster.note("the worker of the former rank 3 is killed")
            kill(next_victim)
            job.wait_completed()
            self.assert_exact(job)

    def test_a_node_dies_while_a_worker_is_replaced(self):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_step(50)
            nodes = self.kill_ranks(job, 2)
            other = next(node for node in cluster.nodes.values() if node is not nodes[0])
            cluster.wait("somebody is stuck", lambda: job.events("stuck"))
            other.kill()
            job.wait_step(job.step() + 40)
            other.launch()
            job.wait_running(6)
            self.end(job)

    def test_drain_and_resume(self):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_step(50)
            drain = f"/firn/v1/{cluster.name}/drains/b"
            cluster.note("node b is drained")
            cluster.etcd.put(drain, {})
            job.wait_running(4)
            cluster.wait("node b has no workers", lambda: not cluster.nodes["b"].workers())
            self.assertEqual({worker["node"] for worker in job.team()}, {"a", "c"})
            job.wait_step(job.step() + 20)
            cluster.note("node b is back in service")
            cluster.etcd.delete(drain)
            job.wait_running(6)
            self.assertEqual(job.events("stuck"), [])
            self.end(job)

    def test_daemon_hands_over_and_leaves(self):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_step(50)
            leader = cluster.wait_leader()  # the most that can leave
            leader.terminate()
            cluster.wait("it has left", lambda: leader.process.poll() is not None, 30)
            self.assertEqual(leader.process.returncode, 0)
            self.assertEqual(leader.workers(), [])
            leader.process = None
            job.wait_running(4)
            self.assertEqual(job.events("stuck"), [])
            self.end(job)

    def test_resume_in_the_moment_of_a_pause(self):
        """While workers save and leave, before the job is paused."""
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_running(6)
            for checked in range(0, 10, 2):  # times that the plan is looked at in between
                job.wait_step(job.step() + 20)
                job.ask(state="paused")
                for _ in range(checked):
                    job.plan()
                job.ask(state="running")
                job.wait_step(job.step() + 20)
                job.wait_running(6)
            self.end(job)

    def test_cancel(self):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            cluster.wait("a checkpoint is committed", job.checkpoints)
            job.ask(state="cancelled")
            job.wait_state("cancelled")
            cluster.wait("no worker is left", lambda: not any(
                node.workers() for node in cluster.nodes.values()))
            self.assertEqual(job.events("stuck"), [], "a wish was taken for a failure")
            self.assert_exact(job)
            again = Job(cluster, name="again", train__steps=80).submit()
            again.wait_completed()  # the slots are free
            self.assert_exact(again)


if __name__ == "__main__":
    unittest.main(verbosity=2)
