#!/usr/bin/env python3
"""A device or a memory errs: a bit of a gradient or of a parameter is flipped in one of several replicas."""
import unittest

from lib.cluster import Cluster
from lib.doom import DOOMED, Flip
from lib.job import CHECKPOINT_EVERY, Job, JobTest
from test_checkpoints import firnctl

NAN_BITS = 0x7fc00000


class Disputes(JobTest):
    def test_whoever_is_wrong_leaves(self):
        """Of three replicas the one that the others outvote, which its firnd, away just then, hears later and
        does not forget before an operator has said so; of two nobody knows, and both try again."""
        with Cluster(self.id(), slots=1, flags=DOOMED) as cluster:
            job = Job(cluster).submit()
            job.wait_running(3)
            job.wait_step(20)
            node = cluster.nodes["b"]
            node.kill_daemon()
            flip = Flip(job, node, 0)
            cluster.wait("the bit is flipped", flip.carried_out)
            job.wait_running(2)
            node.launch()
            cluster.wait("firnd is told", lambda: job.events("slot"))
            cluster.wait("the slot is out of service", lambda: any(
                slot["bad"] for slot in cluster.etcd.get(f"/firn/v1/{cluster.name}/nodes/b")["slots"]))
            cluster.wait("the worker is gone", lambda: not node.workers())
            node.kill_daemon()
            node.launch()
            cluster.wait("the next firnd knows it, too", lambda: len(job.events("slot")) == 2)
            told = [event["text"] for event in job.events("slot")]
            self.assertEqual(len(set(told)), 1)
            self.assertIn("slot 0 is taken out of service until firnctl node resume", told[0])
            self.assertIn("node b, slot 0: other gradients of unit 0 than most of its 3 holders", told[0])
            job.wait_running(2)
            self.assertIn("lost b/0: 3 slots -> 2", job.plan()["reason_text"])
            job.wait_step(job.step() + 20)
            Flip(job, cluster.nodes["c"], 0)
            cluster.wait("both say so", lambda: len([event for event in job.events("stuck") if
                         "nobody can tell which are right: it is computed again" in event["text"]]) == 2)
            job.wait_running(2)
            self.assertIn("is replayed", job.plan()["reason_text"])
            job.wait_step(job.step() + 20)
            self.assertEqual(len(job.events("slot")), 2)
            cluster.wait("there is a checkpoint that the undisturbed run has, too", lambda: any(
                record["step"] % CHECKPOINT_EVERY == 0 for record in job.checkpoints()))
            node.kill_daemon()
            code, text = firnctl(cluster, "node", "resume", "b")
            self.assertEqual(code, 0, text)
            node.launch()
            job.wait_running(3)
            self.assertEqual(len(job.events("slot")), 2)
            self.end(job)

    def test_a_bit_that_changes_on_a_link_breaks_the_link(self):
        """Never the result: the generation begins anew, says why, and nobody is accused of computing wrongly."""
        with Cluster(self.id(), slots=1, flags=DOOMED) as cluster:
            job = Job(cluster).submit()
            job.wait_running(3)
            job.wait_step(20)
            for name in "abc":
                step = job.step()
                flip = Flip(job, cluster.nodes[name], 0, "wire")
                cluster.wait("the bit is flipped", flip.carried_out)
                job.wait_step(step + 20)
                job.wait_running(3)
            said = " ".join(event["text"] for event in job.events())
            self.assertIn("sent data that was changed on the way", said)
            self.assertFalse(job.events("slot"))
            self.end(job)

    def test_what_was_made_with_a_wrong_parameter_is_made_again(self):
        """It has been in the gradients of all: the job goes back, whether or not it is known who was wrong."""
        with Cluster(self.id(), slots=1, flags=DOOMED) as cluster:
            job = Job(cluster).submit()
            job.wait_running(3)
            cluster.wait("there is a checkpoint", job.checkpoints)
            Flip(job, cluster.nodes["b"], 0, "parameter")
            told = cluster.wait("the slot is out of service", lambda: job.events("slot"))
            self.assertIn("node b, slot 0: other parameters or moments of unit 0 than most of its 3 holders",
                          told[0]["text"])
            job.wait_running(2)
            self.assertIn("from the checkpoint of step", job.plan()["reason_text"])
            job.wait_step(job.step() + CHECKPOINT_EVERY + 20)
            Flip(job, cluster.nodes["c"], 0, "parameter")
            cluster.wait("both say so", lambda: len([event for event in job.events("stuck") if
                         "nobody can tell which are right: going back to the newest checkpoint" in event["text"]]) == 2)
            job.wait_running(2)
            self.assertIn("from the checkpoint of step", job.plan()["reason_text"])
            job.wait_step(job.step() + CHECKPOINT_EVERY)
            self.assertEqual(len(job.events("slot")), 1)
            self.assertFalse([event for event in job.events("alarm") if "came out different" in event["text"]])
            self.end(job)

    def test_a_wrong_parameter_does_not_pass_for_divergence(self):
        """The step's loss is NaN, and nobody applies it; but the job does not end for it."""
        with Cluster(self.id(), slots=1, flags=DOOMED) as cluster:
            job = Job(cluster).submit()
            job.wait_running(3)
            cluster.wait("there is a checkpoint", job.checkpoints)
            Flip(job, cluster.nodes["b"], 0, "parameter", NAN_BITS)
            told = cluster.wait("the slot is out of service", lambda: job.events("slot"))
            self.assertIn("node b, slot 0: other parameters or moments of unit 0 than most of its 3 holders",
                          told[0]["text"])
            job.wait_running(2)
            self.assertIn("from the checkpoint of step", job.plan()["reason_text"])
            self.assertFalse(job.events("diverged"))
            job.wait_step(job.step() + CHECKPOINT_EVERY + 20)
            self.end(job)


if __name__ == "__main__":
    unittest.main(verbosity=2)
