#!/usr/bin/env python3
"""Steps on every number of replicas: lanes that do not divide evenly are shared, micro-batch by micro-batch.

uneven.py [--lanes L] [--micro-batches M] [--rounds N] [--steps S] [--share P] [--width W]

A node of L slots, each with P of a processor (a control group), and two jobs, one after another. The first trains on L to 1
replicas in turn, N times, each for S steps. The second trains the same steps on L replicas alone. Printed for each number: the median
step; how much longer it takes than that of L replicas, where exactly L / replicas is ideal and L / replicas, rounded up, is
what whole lanes take at best; and what the planner expected. Exit status 1 if a bit differs.
"""
import argparse
import json
import os
import sys

from limited_slots import LimitedSlots
from local_cluster import Report, median

PATIENCE = 600  # seconds for the steps of one layout
LAYERS = 6
JOB = """
name: {name}
model: {{family: gpt2, layers: {layers}, width: {width}, heads: 4, context: 128, vocab: 256, tied: true}}
data: {{format: bytes, path: /usr/include/linux, validation: 0.05}}
train: {{steps: 100000, lanes: {lanes}, micro_batch: 1, micro_batches_per_lane: {batches}, seed: 1, optimizer: {{lr: 1e-3, schedule: constant}}}}
elastic: {{devices: {{min: 1, max: {lanes}}}, freeze: {{policy: none}}}}
checkpoint: {{every: 1000000}}
"""


def bits(lines):
    return [(line["step"], line["loss_bits"], line["grad_norm_bits"]) for line in lines]


class Runs:
    def __init__(self, cluster, options):
        self.cluster, self.options = cluster, options

    def submit(self, name, replicas):
        self.path = f"{self.cluster.folder}/{name}.yaml"
        with open(self.path, "w", encoding="ascii") as file:
            file.write(JOB.format(name=name, layers=LAYERS, width=self.options.width, lanes=self.options.lanes,
                                  batches=self.options.micro_batches))
        self.cluster.submit(self.path, name, "--stages", "1", "--replicas", str(replicas))

    def committed(self, replicas, after):
        """The seconds of the steps behind that one which a layout of so many replicas has computed from their beginning."""
        lines = sorted(self.cluster.lines().values(), key=lambda line: line["step"])
        own = [line["step_ms"] / 1e3 for line in lines if line["step"] > after and line["replicas"] == replicas]
        return own[1:]  # the first may have begun in the layout before

    def seconds(self, replicas):
        self.cluster.firnctl("job", "scale", self.cluster.job, "--stages", "1", "--replicas", str(replicas))
        after = max(self.cluster.lines(), default=0)
        return self.cluster.await_that(f"{replicas} replicas commit steps", lambda: (
            found if len(found := self.committed(replicas, after)) >= self.options.steps else None))

    def planned(self, replicas):
        layout = ("--stages", "1", "--replicas", str(replicas))
        return json.loads(self.cluster.firnctl("plan", self.path, "--json", *layout))["candidates"][0]["step_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--micro-batches", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--width", type=int, default=128)
    options = parser.parse_args()
    report = Report("uneven", f"{options.lanes} lanes of {options.micro_batches} micro-batches, {LAYERS} layers of width "
                    f"{options.width}, slots of {options.share} of {os.cpu_count()} processors")
    counts = range(options.lanes, 0, -1)
    with LimitedSlots(options.lanes, options.share) as cluster:
        cluster.patience = PATIENCE
        runs, times = Runs(cluster, options), {replicas: [] for replicas in counts}
        runs.submit("uneven", options.lanes)
        for _ in range(options.rounds):
            for replicas in counts:
                times[replicas] += runs.seconds(replicas)
        seconds = {replicas: median(times[replicas]) for replicas in counts}
        planned = {replicas: runs.planned(replicas) for replicas in counts}
        lines = sorted(cluster.lines().values(), key=lambda line: line["step"])
        cluster.firnctl("job", "cancel", "uneven")
        runs.submit("even", options.lanes)
        cluster.await_that("the same steps on all slots", lambda: len(cluster.lines()) >= len(lines))
        same = bits(sorted(cluster.lines().values(), key=lambda line: line["step"])[:len(lines)]) == bits(lines)
    base = seconds[options.lanes]
    for replicas in counts:
        whole = -(-options.lanes // replicas)
        report.say(f"   {replicas} replicas: {seconds[replicas]:.3f} s a step, {seconds[replicas] / base:.2f} times as long as "
                   f"{options.lanes} (ideal {options.lanes / replicas:.2f}, whole lanes {whole:.2f}); planned "
                   f"{planned[replicas] / planned[options.lanes]:.2f}",
                   **{str(replicas): {"seconds": seconds[replicas], "planned": planned[replicas]}})
    report.say(f"   the bits of {len(lines)} steps on {options.lanes} replicas alone are " + ("equal" if same else "NOT EQUAL"), equal=same)
    report.write()
    sys.exit(0 if same else 1)


main()
