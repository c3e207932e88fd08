#!/usr/bin/env python3
"""A loss that is no number any more: the job stops before it, or leaves it out, on every layout alike."""
import math
import os
import struct
import unittest

from lib.cluster import Cluster
from lib.job import Job, JobTest

# Decay that turns parameters around, half as large again with every step.
DIVERGES = {"train__optimizer": {"lr": 0.25, "weight_decay": 10, "schedule": "constant"},
            "elastic": {}, "checkpoint": {"every": 1, "keep": 2}}
STEPS = 120


class Divergence(JobTest):
    def failed(self, job, **wishes):
        """The step that it fails at; what came before it is good, and kept."""
        job.submit(**wishes).wait_state("failed")
        lines, newest = job.metrics(), job.checkpoints()[-1:]
        step = max(lines) + 1
        # A slow disk may not have written the first checkpoint in the half second until then.
        way_on = rf"checkpoint of step {newest[0]['step']} .*--from" if newest else "no checkpoint to go on from"
        self.assertRegex(job.why(), rf"^step {step}: the (loss|gradient norm) is (NaN|infinite), so it "
                         rf"changes no parameter .*{way_on}$")
        self.assertFalse(list(self.without_numbers(job)))
        for checkpoint in newest:
            self.assertLess(checkpoint["step"], step - 1, "no step can be computed from it")
            self.assert_finite(checkpoint["path"])
        job.cluster.wait("its progress is that of the step before",
                         lambda: job.key("progress").get("step") == step - 1, 20)
        told = [event["text"] for event in job.events("diverged")]
        self.assertTrue(told)  # by one node at least: the others may be stopped before they hear of it
        self.assertTrue(all(job.why().startswith(text + ";") for text in told), told)
        self.assert_no_checkpoint_failed(job)
        return step, lines

    def assert_no_checkpoint_failed(self, job):
        """One is due at every step: most are left out, by all workers alike."""
        self.assertEqual([event["text"] for event in job.events("alarm") if "checkpoint" in event["text"]], [])

    @staticmethod
    def without_numbers(job):
        return (line for _, line in job.lines() if None in (line["loss"], line["grad_norm"]))

    def assert_finite(self, path):
        for name in os.listdir(path):
            if name.endswith(".safetensors"):
                with open(os.path.join(path, name), "rb") as file:
                    header = struct.unpack("<Q", file.read(8))[0]
                    file.seek(8 + header)
                    data = file.read()
                self.assertTrue(all(math.isfinite(value) for value, in struct.iter_unpack("<f", data)))

    def test_a_job_stops_where_it_diverges(self):
        with Cluster(self.id(), nodes=2) as cluster:
            first = self.failed(Job(cluster, train__steps=STEPS, **DIVERGES))
            again = Job(cluster, name="pipeline", train__steps=STEPS, **DIVERGES)
            self.assertEqual(self.failed(again, stages=2), first)
            cluster.wait("no worker is left", lambda: not any(
                node.workers() for node in cluster.nodes.values()))

    def test_steps_that_diverge_are_left_out(self):
        with Cluster(self.id(), nodes=2) as cluster:
            first = Job(cluster, train__steps=STEPS, train__on_nan="skip", **DIVERGES).submit()
            first.wait_completed()
            again = Job(cluster, name="pipeline", train__steps=STEPS, train__on_nan="skip", **DIVERGES)
            again.submit(stages=2).wait_completed()
            self.assertEqual(again.metrics(), first.metrics())
            for job in (first, again):
                self.assertTrue(list(self.without_numbers(job)))
                alarms = [event["text"] for event in job.events("alarm") if "train.on_nan: skip" in event["text"]]
                begun = [alarm for alarm in alarms if not alarm.startswith("alarm over: ")]
                self.assertEqual(len(begun), 1, alarms)
                self.assert_no_checkpoint_failed(job)
                self.assertEqual(job.checkpoints()[-1]["step"], STEPS)
                self.assert_finite(job.checkpoints()[-1]["path"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
