#!/usr/bin/env python3
"""Machines that are slow, full, wrong about the time, or gone as soon as they have come."""
import os
import contextlib
import errno
import sys
import time
import unittest

from lib.clock import Clock
from lib.cluster import PIPELINE, REPOSITORY, Cluster, kill
from lib.doom import DOOMED, disk_fault
from lib.job import CHECKPOINT_EVERY, Job, JobTest

sys.path.append(REPOSITORY + "/bench")
from cgroup import Share  # pylint: disable=wrong-import-position


class Machine(JobTest):
    def join_and_die(self, times):
        """It is registered, may be planned with, and is dead within the second."""
        with Cluster(self.id(), nodes=2, flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_running(4)
            guest = cluster.add("d", 2)
            for turn in range(times):
                guest.launch()
                cluster.wait_registered("d")
                if turn % 2:  # half of the time it is about to take part
                    cluster.wait("it is planned with", lambda: guest.workers() or "d" in {
                        worker["node"] for worker in job.team()})
                guest.kill()
            job.wait_step(job.step() + 40)
            guest.launch()
            job.wait_running(6)
            self.end(job)


class Quick(Machine):
    def test_cpu_slots_are_measured_once(self):
        """A node registers what it has measured, and one that starts again says what it said before."""
        with Cluster(self.id(), nodes=1) as cluster:
            node = cluster.nodes["a"]
            node.kill_daemon()
            os.remove(node.data + "/cpu-rates")
            node.measures = True
            node.launch()

            def rates():
                return (cluster.etcd.get(f"/firn/v1/{cluster.name}/nodes/a") or {}).get("rates", {})

            cluster.wait("the slots are measured", lambda: node.read("cpu-rates") and rates().get("f32_flops", 0) > 0)
            kept = node.read("cpu-rates").splitlines()
            self.assertEqual(kept[1], f"f32 {rates()['f32_flops']:.1e} memory {rates()['memory_bytes']:.1e}")
            node.kill_daemon()
            with open(node.data + "/cpu-rates", "w", encoding="utf-8") as file:  # which no machine measures
                file.write(f"{kept[0]}\nf32 3.0e+03 memory 4.0e+03\n")
            node.launch()
            cluster.wait("it repeats what was kept", lambda: rates() == {"f32_flops": 3e3, "memory_bytes": 4e3})

    def test_a_slow_worker_is_not_taken_for_dead(self):
        """A tenth of a processor: far slower than the others, and its heartbeats still come."""
        try:
            share = Share("slow", 0.1)
        except OSError as error:
            self.skipTest(f"control groups cannot be made here: {error}")
        with share, Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_step(50)
            job.wait_running(6)
            _, pid = job.rank_of(1)
            cluster.note(f"worker {pid} gets a tenth of a processor")
            share.add(pid)
            began = time.monotonic()
            cluster.wait("it has been slow for long", lambda: time.monotonic() - began > 8)
            job.wait_step(job.step() + 10)
            self.assertEqual(job.events("stuck"), [])
            share.limit(2)
            self.end(job)

    def test_a_straggler_loses_its_lanes(self):
        """Slower yet, with elastic.evict_stragglers: others take over what it computed, and nobody is stuck."""
        try:
            share = Share("straggler", 0.02)  # four times less than the others have even on a crowded machine
        except OSError as error:
            self.skipTest(f"control groups cannot be made here: {error}")
        with share, Cluster(self.id(), slots=1) as cluster:
            # Four: on a busy machine replicas differ by two for a while with nobody's help.
            job = Job(cluster, elastic__evict_stragglers={"factor": 4, "steps": 20}).submit()
            job.wait_step(50)
            job.wait_running(3)
            node, pid = job.rank_of(1)
            cluster.note(f"worker {pid} of node {node.name} gets next to nothing of a processor")
            share.add(pid)
            # For its own sake, or when layers freeze and a plan is made anyway.
            cluster.wait("others take its lanes", lambda: job.plan().get("slow"))
            plan = job.plan()
            self.assertEqual([slow["node"] for slow in plan["slow"]], [node.name])
            lanes = {worker["node"]: plan["replica_first_lane"][rank + 1] - plan["replica_first_lane"][rank]
                     for rank, worker in enumerate(job.team())}
            self.assertLess(lanes.get(node.name, 0), 12 / 3)
            job.wait_step(job.step() + 50)
            self.assertEqual(job.events("stuck"), [])
            named = {line["slowest"][0]["worker"] for _, line in job.lines()
                     if line.get("slowest") and line["slowest"][0]["lane_ms"] > 4 * line["slowest"][0]["fastest_ms"]}
            self.assertIn(f"{node.name}/0", named)
            self.end(job)

    def test_the_clock_steps_by_an_hour(self):
        with contextlib.closing(Clock()) as clock, \
                Cluster(self.id(), flags=PIPELINE, clock=clock) as cluster:
            job = Job(cluster).submit()
            job.wait_step(50)
            for seconds in (3600, -3600, 0):
                cluster.note(f"the clock is {seconds} s ahead now")
                clock.step(seconds)
                job.wait_step(job.step() + 60)
            self.assertEqual(job.events("stuck"), [])
            stamps = [line["unix_ns"] for _, line in job.lines()]
            self.assertGreater(max(stamps) - min(stamps), 3600e9, "the clock did not step")
            clock.step(3600)  # and with that time everything else works as well
            _, pid = job.rank_of(1)
            cluster.note("rank 1 is killed")
            kill(pid)
            cluster.wait("the others are stuck", lambda: job.events("stuck"))
            job.wait_running(6)
            self.end(job)

    def test_disks_fail_under_checkpoints(self):
        with Cluster(self.id(), flags=PIPELINE + DOOMED) as cluster:
            job = Job(cluster).submit()
            cluster.wait("a checkpoint is committed", job.checkpoints)
            for number in (errno.EIO, errno.ENOSPC):
                with disk_fault(job, cluster.nodes.values(), number):
                    cluster.wait("the alarm is shown", lambda: job.key("progress").get("alarm"))
                    job.wait_step(job.step() + 3 * CHECKPOINT_EVERY)
                    newest = job.checkpoints()[-1]["step"]
                cluster.wait("checkpoints are committed again", lambda: job.checkpoints()[-1]["step"] > newest)
                cluster.wait("the alarm is over", lambda: not job.key("progress").get("alarm"))
            self.assertEqual(job.events("stuck"), [])
            self.end(job)

    def test_a_node_joins_and_dies(self):
        self.join_and_die(6)


class Slow(Machine):
    def test_a_node_joins_and_dies_twenty_times(self):
        self.join_and_die(20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
