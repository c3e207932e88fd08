#!/usr/bin/env python3
"""A failure or a change within a step costs what was lost, not the step."""
import pathlib
import re
import signal
import time
import unittest

from lib.cluster import Cluster, kill
from lib.job import Job, JobTest

STEPS = 5
LONG = {"train__steps": STEPS, "train__optimizer__warmup": 1, "train__micro_batches_per_lane": 200, "checkpoint__every": STEPS,
        "evaluate__every": 2, "elastic__freeze": {"policy": "schedule", "every": 2, "alpha": 0.25}}
MICRO_BATCHES = 12 * 200  # in a step
MICRO_BATCHES_OF_JOIN = 2000  # of a lane: a step that is longer than the start of a node
MICRO_BATCHES_OF_MOVE = 6000  # a step whose rest is longer than a node's start and the least notice for handing over
# Of the step that is left when a drain is announced: the step does not end in time, even where it takes two
# thirds of the time of the one before because the machine does less beside it.
NOTICE = 0.5
LONGER = {**LONG, "train__micro_batches_per_lane": MICRO_BATCHES_OF_JOIN, "train__steps": 3, "checkpoint__every": 3}
# Steps of about 5 s, whose last fifth is shorter than the failure timeout; sums of small units are not kept at the end of one.
WIDER = {**LONG, "model__width": 64, "train__micro_batches_per_lane": 1000, "train__steps": 3, "checkpoint__every": 3,
         "elastic__freeze": {"policy": "none"}}
EVALUATED = 12000  # micro-batches of an evaluation that is longer than the start of a node
GOES_ON = re.compile(r"step (\d+) goes on with (\d+) of (\d+) micro-batches done")


class LongJob(Job):
    def let_pass(self, share):
        """Wait for that share of a step as long as the last one; returns the seconds that the rest takes."""
        seconds = self.newest(1)[0]["step_ms"] / 1000
        deadline = time.monotonic() + share * seconds
        self.cluster.wait(f"{share:.0%} of a step have passed", lambda: time.monotonic() > deadline)
        return (1 - share) * seconds

    def within_a_step(self, share=0.5):
        """Wait until about that share of a step is computed; returns the seconds that the rest takes."""
        known = self.step()
        self.cluster.wait("a step ends", lambda: self.step() > known)
        return self.let_pass(share)

    def kept(self):
        """(step, micro-batches that were kept) of each time that one went on."""
        found = [GOES_ON.search(event["text"]) for event in self.events()]
        return [(int(hit[1]), int(hit[2])) for hit in found if hit]

    def paused(self, step):
        """The time at which a generation without node b began at that boundary; None: not yet."""
        return next((event["unix_ns"] for event in self.events()
                     if event["step"] == step and "node b drains" in event["text"] and "pause" in event["text"]), None)

    def announce(self, seconds, node="b"):
        """The node is about to go; returns (the key of the notice, the time at which it was given)."""
        self.cluster.note(f"node {node} is drained, and gone in {seconds:.1f} s")
        key, now_ns = f"/firn/v1/{self.cluster.name}/drains/{node}", time.time_ns()
        self.cluster.etcd.put(key, {"deadline_unix_ns": now_ns + int(seconds * 1e9)})
        return key, now_ns


class WithinAStep(JobTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with Cluster("the undisturbed long steps", nodes=1, slots=1) as cluster:
            job = LongJob(cluster, **LONG).submit()
            job.wait_completed(seconds=300)
            cls.undisturbed = job.exact(), job.digests()
            longer = LongJob(cluster, name="longer", **LONGER).submit()
            longer.wait_completed(seconds=300)
            cls.longer = longer.exact(), longer.digests()

    def assert_undisturbed(self, job):
        self.assertEqual(job.exact(), self.undisturbed[0])
        self.assertEqual(job.digests()[STEPS], self.undisturbed[1][STEPS])

    def assert_longer_undisturbed(self, job):
        self.assertEqual((job.exact(), job.digests()[3]), (self.longer[0], self.longer[1][3]))

    def assert_same(self, job, other):
        self.assertEqual(job.exact(), other.exact())
        self.assertEqual(job.digests(), other.digests())

    def strike_half_way(self, victim, least, slots=2, **wishes):
        """A worker dies in the middle of a step, of which at least so many micro-batches are kept."""
        with Cluster(self.id(), nodes=2, slots=slots) as cluster:
            job = LongJob(cluster, **LONG).submit(**wishes)
            plan = job.wait_running(wishes["stages"] * wishes["replicas"])
            self.assertEqual("replica_head" in plan, 12 % wishes["replicas"] > 0)
            job.within_a_step()
            kill(job.rank_of(victim)[1])
            job.wait_completed(seconds=300)
            self.assert_undisturbed(job)
            kept = job.kept()
            self.assertTrue(kept, "nothing was kept")
            self.assertGreater(kept[0][1], least)
            self.assertLess(kept[0][1], MICRO_BATCHES)

    # Half of the step was computed, three quarters of that survive; the machine may be busy.
    def test_replica_dies(self):
        self.strike_half_way(1, MICRO_BATCHES / 8, stages=1, replicas=4)

    def test_first_replica_dies(self):
        self.strike_half_way(0, MICRO_BATCHES / 8, stages=1, replicas=4)

    def test_replica_that_shares_lanes_dies(self):
        """It computes the head of one lane and the rest of another."""
        self.strike_half_way(2, MICRO_BATCHES / 8, slots=3, stages=1, replicas=5)

    def test_owner_of_a_shared_lane_hangs_at_the_end(self):
        """If the machine is idle, the others have finished their parts then: what they have stays, the head of the owner's
        lane and its loss too."""
        with Cluster(self.id(), nodes=2, slots=3) as cluster:
            undisturbed = LongJob(cluster, name="undisturbed", **WIDER).submit(stages=1, replicas=6)
            undisturbed.wait_completed(seconds=300)
            job = LongJob(cluster, **WIDER).submit(stages=1, replicas=5)
            job.wait_running(5)
            job.within_a_step(0.8)
            _, pid = job.rank_of(2)
            cluster.note("the worker of rank 2 hangs")
            kill(pid, signal.SIGSTOP)
            cluster.wait("a step goes on", job.kept, 60)
            kill(pid)
            job.wait_completed(seconds=300)
            self.assert_same(job, undisturbed)

    def test_stage_of_one_replica_dies(self):
        self.strike_half_way(2, MICRO_BATCHES / 32, stages=2, replicas=2)

    def test_joins(self):
        """A second node computes a part of the very step within which it comes."""
        with Cluster(self.id(), nodes=1, slots=1) as cluster:
            job = LongJob(cluster, **LONGER).submit()
            job.wait_running(1)
            job.wait_step(1)
            cluster.add("b", 1).launch()
            cluster.wait("a step goes on", job.kept, 60)
            job.wait_completed(seconds=300)
            step, kept = job.kept()[0]
            self.assertLess(kept, 12 * MICRO_BATCHES_OF_JOIN)
            changed = next(line for _, line in job.lines() if line["step"] == step)
            self.assertEqual(changed["replicas"], 2)
            self.assert_longer_undisturbed(job)

    def test_leaves_in_time(self):
        """A node that is about to go does not wait for the end of a step that ends after that."""
        with Cluster(self.id(), nodes=2, slots=1) as cluster:
            job = LongJob(cluster, **LONGER).submit()
            job.wait_running(2)
            notice = NOTICE * job.within_a_step(0.25)
            step = job.step() + 1
            job.announce(notice)
            cluster.wait("the plan without node b has begun", lambda: job.paused(step - 1), 60)
            (kept_step, kept), = job.kept()
            self.assertEqual(kept_step, step)
            self.assertLess(kept, 12 * MICRO_BATCHES_OF_JOIN)
            job.wait_completed(seconds=300)
            changed = next(line for _, line in job.lines() if line["step"] == step)
            self.assertEqual(changed["replicas"], 1)
            self.assert_longer_undisturbed(job)

    def test_moves_away(self):
        """The only worker must go: its sums go to the worker that takes its place."""
        longer = {**LONG, "train__micro_batches_per_lane": MICRO_BATCHES_OF_MOVE, "train__steps": 2,
                  "checkpoint__every": 2}
        with Cluster(self.id(), nodes=2, slots=1) as cluster:
            alone = LongJob(cluster, name="alone", **longer).submit(devices=1)
            alone.wait_completed(seconds=300)
            job = LongJob(cluster, **longer).submit(devices=1)
            job.wait_running(1)
            goes, = (worker["node"] for worker in job.team())
            job.announce(NOTICE * job.within_a_step(0.3), goes)
            cluster.wait("the step goes on elsewhere", job.kept, 60)
            job.wait_completed(seconds=300)
            (_, kept), = job.kept()
            self.assertGreater(kept, 12 * MICRO_BATCHES_OF_MOVE / 5)
            self.assertLess(kept, 12 * MICRO_BATCHES_OF_MOVE)
            self.assert_same(job, alone)

    def test_stages_change(self):
        """A stage gets the sums of its units from the worker that computed these before, within the step."""
        with Cluster(self.id(), nodes=1, slots=1) as cluster:
            job = LongJob(cluster, **LONGER).submit()
            job.wait_running(1)
            job.wait_step(1)
            job.ask(stages=2, replicas=1)
            cluster.add("b", 1).launch()
            cluster.wait("the step goes on in two stages", job.kept, 60)
            job.wait_completed(seconds=300)
            (step, kept), = job.kept()
            self.assertGreater(kept, 0)
            changed = next(line for _, line in job.lines() if line["step"] == step)
            self.assertEqual((changed["stages"], changed["replicas"]), (2, 1))
            self.assert_longer_undisturbed(job)

    def test_all_must_go_in_turn(self):
        """The node that is left must go, too, before the step is over in which the other one left."""
        longer = {**LONG, "train__micro_batches_per_lane": MICRO_BATCHES_OF_MOVE, "train__steps": 3,
                  "checkpoint__every": 3}
        with Cluster(self.id(), nodes=2, slots=1) as cluster:
            job = LongJob(cluster, **longer).submit()
            job.wait_running(2)
            notice = NOTICE * job.within_a_step(0.25)
            step = job.step()
            job.announce(notice)
            cluster.wait("the plan without node b has begun", lambda: job.paused(step), 60)
            _, drained_ns = job.announce(notice, "a")
            cluster.wait("the boundary is saved", lambda: [c for c in job.checkpoints() if c["step"] == step], 60)
            self.assertLess(time.time_ns() - drained_ns, notice * 1e9)
            cluster.wait("nobody computes",
                         lambda: not any(node.workers() for node in cluster.nodes.values()), 60)

    def test_evaluations_are_left(self):
        """Who comes computes a part of the very evaluation; who must go does not wait for its end."""
        slow = {"model__layers": 8, "model__width": 96, "train__steps": 2, "train__optimizer__warmup": 1,
                "checkpoint__every": 2, "evaluate": {"every": 1, "batches": EVALUATED},
                "elastic__freeze": {"policy": "plasticity", "every": 1, "tolerance": 1, "patience": 1}}
        with Cluster(self.id(), nodes=1, slots=1) as cluster:
            alone = LongJob(cluster, name="alone", **slow).submit()
            alone.wait_completed(seconds=300)
            job = LongJob(cluster, **slow).submit(stages=1)
            job.wait_running(1)  # evaluates: before each of the two steps, and the finished model
            began = time.monotonic()
            cluster.add("b", 1).launch()
            job.wait_step(1)
            notice = NOTICE * (time.monotonic() - began) / 2
            self.assertEqual(job.newest(1)[0]["workers"], 2)
            cluster.wait("the last step is committed", lambda: job.key("progress").get("step") == 2, 60)
            drain, _ = job.announce(notice)
            cluster.wait("the plan without node b has begun", lambda: job.paused(2), 60)
            self.assertFalse(job.checkpoints(), "the last evaluation was not left")
            job.wait_completed(seconds=300)
            self.assert_same(job, alone)
            for key in ("val_loss", "final_val_loss"):
                self.assertEqual(job.newest(1)[0][key], alone.newest(1)[0][key])
            self.assertEqual(job.newest(1)[0]["plasticity"], alone.newest(1)[0]["plasticity"])

            cluster.etcd.delete(drain)
            pinned = LongJob(cluster, name="pinned", **slow).submit(stages=2)
            cluster.wait("the last step is committed", lambda: pinned.key("progress").get("step") == 2, 60)
            _, drained_ns = pinned.announce(notice)
            cluster.wait("the model is saved", pinned.checkpoints, 60)
            self.assertLess(time.time_ns() - drained_ns, notice * 1e9)
            pinned.wait_completed(seconds=300)
            self.assert_same(pinned, alone)
            self.assertNotIn("final_val_loss", pinned.newest(1)[0])

    def test_too_few_stay(self):
        """Where a notice leaves too few slots, the boundary before the step is saved in time, also without the
        worker that has handed over its stage and left."""
        with Cluster(self.id(), nodes=3, slots=1) as cluster:
            job = LongJob(cluster, **LONGER).submit(stages=3, replicas=1)
            job.wait_running(3)
            job.ask(stages=2, replicas=1)
            job.wait_running(2)
            self.assertTrue(job.plan()["moves"], "nobody hands over")
            stays, goes = (worker["node"] for worker in job.team())
            (left,) = {"a", "b", "c"} - {stays, goes}
            cluster.etcd.put(f"/firn/v1/{cluster.name}/drains/{left}", {"deadline_unix_ns": 0})
            notice = NOTICE * job.within_a_step(0.25)
            step = job.step()
            drain, drained_ns = job.announce(notice, goes)
            cluster.wait("the boundary is saved", lambda: [c for c in job.checkpoints() if c["step"] == step], 60)
            self.assertLess(time.time_ns() - drained_ns, notice * 1e9)
            cluster.wait("nobody computes",
                         lambda: not any(node.workers() for node in cluster.nodes.values()), 60)
            cluster.etcd.delete(drain)
            job.wait_completed(seconds=300)
            self.assert_longer_undisturbed(job)

    def lose_all_within_a_step(self, **changes):
        """All workers die in the step after a checkpoint: nothing but that step is lost."""
        longer = {**LONGER, "checkpoint__every": 1, **changes}
        with Cluster(self.id(), nodes=2, slots=1, own_disks="checkpoint__copies" in changes) as cluster:
            job = LongJob(cluster, **longer).submit()
            job.wait_running(2)
            job.wait_step(1)
            cluster.wait("a checkpoint is recorded", job.checkpoints)
            self.assertEqual((job.step(), job.checkpoints()[-1]["step"]), (1, 1))
            for node in cluster.nodes.values():
                for worker in node.workers():
                    kill(worker)
            job.wait_completed(seconds=300)
            begun = [event["text"] for event in job.events() if "from the checkpoint of step" in event["text"]]
            self.assertIn("from the checkpoint of step 1", begun[-1])
            return job.exact()

    def test_checkpoint_within_the_next_step(self):
        """A checkpoint is recorded when its shares are durable, not when the next step ends."""
        self.assertEqual(self.lose_all_within_a_step(), self.lose_all_within_a_step(checkpoint__copies=2))

    def test_leaves(self):
        """The worker that stays takes the memory of the other's stage before the others wait for it."""
        with Cluster(self.id(), nodes=2, slots=1) as cluster:
            job = LongJob(cluster, **LONG).submit(stages=2, replicas=1)
            job.wait_running(2)
            job.within_a_step()
            job.ask(stages=1, replicas=1)
            job.wait_completed(seconds=300)
            self.assert_undisturbed(job)
            logs = "".join(pathlib.Path(f"{node.data}/jobs/{job.name}/worker-0.log").read_text(encoding="utf-8")
                           for node in cluster.nodes.values())
            self.assertRegex(logs, r"MiB are reserved for generation \d+ while this one trains")


if __name__ == "__main__":
    unittest.main(verbosity=2)
