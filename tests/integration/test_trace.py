#!/usr/bin/env python3
"""firnctl trace: what each worker did in each step, also before it was killed, and what it says where spans are missing."""
import collections
import json
import os
import unittest

from lib.cluster import Cluster, kill
from lib.job import Job, JobTest
from test_checkpoints import firnctl

STEPS, STAGES, REPLICAS, LANES = 130, 2, 2, 12
IN_EACH_STEP = {"forward", "backward", "send", "reduce", "norm and digests", "commit", "optimizer"}
SOME_TIME = {"read samples", "wait for activations", "wait for gradients", "metrics", "validation", "snapshot",
             "write checkpoint", "final checkpoint", "switch of generations", "open device", "open data",
             "read state", "open links", "receive state", "build engine"}


class Span:
    """An entry of the trace; times in nanoseconds."""

    def __init__(self, entry):
        self.name, self.thread, self.category = entry["name"], (entry["pid"], entry["tid"]), entry["cat"]
        self.begin = round(entry["ts"] * 1000)
        self.end = self.begin + round(entry["dur"] * 1000)
        self.args = entry["args"]
        self.step = self.args["step"]
        self.inside = []  # what it contains without anything between them

    def is_step(self):
        return "committed" in self.args

    def place(self):
        return self.args["stage"], self.args["replica"]


def by(key, spans):
    groups = collections.defaultdict(list)
    for span in spans:
        groups[key(span)].append(span)
    return groups


class Trace(JobTest):
    def trace(self, cluster, *flags, status=0):
        """(spans, thread -> its name, entries, what was said)"""
        path = cluster.folder + "/trace.json"
        code, said = firnctl(cluster, "trace", "job", "--output", path, *flags)
        self.assertEqual(code, status, said)
        if status:
            return [], {}, [], said
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)["traceEvents"]
        names = {(entry["pid"], entry["tid"]): entry["args"]["name"] for entry in entries
                 if entry["ph"] == "M" and entry["name"] == "thread_name"}
        return [Span(entry) for entry in entries if entry["ph"] == "X"], names, entries, said

    def nest(self, spans):
        """Spans of one thread contain each other or do not touch."""
        for thread in by(lambda span: span.thread, spans).values():
            around = []
            for span in sorted(thread, key=lambda span: (span.begin, -span.end)):
                while around and around[-1].end <= span.begin:
                    around.pop()
                if around:
                    self.assertLessEqual(span.end, around[-1].end, f"{span.name} overlaps {around[-1].name}")
                    around[-1].inside.append(span)
                around.append(span)

    def check_step(self, step):
        """One worker's step that was committed: its parts belong to it. Returns the time that they take."""
        self.assertEqual({span.step for span in step.inside if span.category != "checkpoint"}, {step.step})
        parts = sum(span.end - span.begin for span in step.inside)
        self.assertLessEqual(parts, step.end - step.begin)
        return parts

    def check_steps(self, spans, committed):
        """Every step that metrics have is one span of each place, and each lane is computed once in each stage."""
        steps = by(lambda span: span.step, [span for span in spans if span.is_step()])
        forwards = by(lambda span: span.step, [span for span in spans if span.name == "forward"])
        parts = total = 0
        for number in committed:
            places = [step.place() for step in steps[number] if step.args["committed"]]
            lanes = collections.Counter((span.args["stage"], span.args["lane"]) for span in forwards[number])
            self.assertEqual(len(lanes), STAGES * LANES)
            if all(step.args["committed"] for step in steps[number]) and len(places) == STAGES * REPLICAS:
                self.assertEqual(set(lanes.values()), {1}, f"step {number}")
                self.assertEqual(len(set(places)), STAGES * REPLICAS)
                for step in steps[number]:
                    self.assertEqual(IN_EACH_STEP - {span.name for span in step.inside}, set(), step.name)
            else:  # about where the worker was killed: its peers kept what they had computed
                self.disturbed.append(number)
            for step in steps[number]:
                if step.args["committed"]:
                    parts += self.check_step(step)
                    total += step.end - step.begin
        self.assertGreater(parts, 0.8 * total, "most of a step's time is in no span")

    def check_killed(self, spans, names, entries, killed, slot):
        """The spans of the killed worker end where it was killed, and those of the next one begin later."""
        nodes = {entry["args"]["name"]: entry["pid"] for entry in entries if entry["name"] == "process_name"}
        earlier = [thread for thread, name in names.items() if f"earlier process {killed}: stage" in name]
        self.assertEqual(len(earlier), 1, names)
        self.assertEqual(earlier[0][0], nodes[slot[0]])
        of_killed = [span for span in spans if span.thread == earlier[0]]
        self.assertIn(len(self.disturbed), (1, 2))  # one may stand, and the next one be broken off
        last = max(step.step for step in of_killed if step.is_step())
        self.assertIn(last + 1, self.disturbed)
        self.assertLessEqual({span.step for span in of_killed}, set(range(last + 2)))
        after = [span for thread, group in by(lambda span: span.thread, spans).items()
                 if thread[0] == nodes[slot[0]] and names[thread].startswith(f"slot {slot[1]}: ") for span in group]
        self.assertGreater(min(span.begin for span in after), max(span.end for span in of_killed))
        events = [entry for entry in entries if entry["ph"] == "i"]
        self.assertTrue([event for event in events if "killed by signal 9" in event["args"]["text"]])

    def check_missing(self, cluster, job):
        """A node that does not answer, and a damaged ring, are named; the rest is written."""
        ring = f"{cluster.nodes['a'].data}/jobs/{job.name}/trace-0.ring"
        with open(ring, "r+b") as file:
            file.write(b"damage")
        cluster.nodes["b"].kill_daemon()
        spans, names, _, said = self.trace(cluster)
        self.assertIn("no answer from b", said)
        self.assertIn("slot 0 on node a is left out: the head of the trace is damaged", said)
        self.assertEqual({names[span.thread].split(":")[0] for span in spans}, {"slot 1"})

    def check_mistakes(self, cluster):
        self.assertIn("no job \"jog\"; did you mean \"job\"?", firnctl(cluster, "trace", "jog")[1])
        self.assertIn("is neither a number", self.trace(cluster, "--steps", "9..2", status=2)[-1])
        self.assertIn("no span of steps 7000 to 7001", self.trace(cluster, "--steps", "7000..7001", status=1)[-1])
        code, said = firnctl(cluster, "trace", "job", "--output", cluster.folder + "/none/trace.json")
        self.assertEqual(code, 1, said)
        self.assertIn("No such file or directory", said)

    def test_a_worker_is_killed_and_all_steps_are_there(self):
        self.disturbed = []  # steps
        with Cluster(self.id(), nodes=2, slots=2) as cluster:
            job = Job(cluster, train__steps=STEPS).submit(stages=STAGES, replicas=REPLICAS)
            job.wait_step(30)
            node, killed = job.rank_of(1)
            slot = next(worker["slot"] for worker in node.job_workers(job.name) if worker["pid"] == killed)
            kill(killed)
            spans, _, _, _ = self.trace(cluster, "--steps", "5")  # while it runs, most often
            steps = sorted({span.step for span in spans if span.is_step()})
            self.assertGreaterEqual(len(steps), 5)
            self.assertEqual(steps, list(range(steps[0], steps[-1] + 1)))
            self.assertGreater(steps[0], 20)
            job.wait_completed()
            spans, names, entries, said = self.trace(cluster, "--steps", f"0..{STEPS + 1}")
            self.assertIn(f"of {STAGES * REPLICAS + 1} workers, steps 1 to {STEPS}", said)
            self.assertEqual((IN_EACH_STEP | SOME_TIME) - {span.name for span in spans}, set())
            self.nest(spans)
            self.check_steps(spans, job.metrics())
            self.check_killed(spans, names, entries, killed, (node.name, slot))
            self.assertEqual(os.path.getsize(f"{node.data}/jobs/{job.name}/trace-{slot}.1.ring"), 4096 + 2 ** 21)
            self.check_mistakes(cluster)
            self.check_missing(cluster, job)


if __name__ == "__main__":
    unittest.main()
