#!/usr/bin/env python3
"""What deferred gradients of weights save in a pipeline: the same job in 1F1B and in ZB-H1 order.

pipeline.py [--rounds N] [--steps S] [--share P] [--width W] [STAGES:MICRO_BATCHES ...]

A node of STAGES slots, each with P of a processor (a control group), one replica, 16 layers. In turns with `elastic.pipeline`
1f1b and auto. Printed for each: the median step, the ratio of the two, and that of the planner; and the ratio where no stage
would ever stand idle. Exit status 1 if a bit differs.
"""
import argparse
import json
import os
import sys

from limited_slots import LimitedSlots
from local_cluster import Report, median

PATIENCE = 600  # seconds for one run
LAYERS = 16
JOB = """
name: pipeline
model: {{family: gpt2, layers: {layers}, width: {width}, heads: 4, context: 128, vocab: 256, tied: true}}
data: {{format: bytes, path: /usr/include/linux, validation: 0.05}}
train: {{steps: 100000, lanes: {lanes}, micro_batch: 2, seed: 1, optimizer: {{lr: 1e-3}}}}
elastic: {{devices: {{min: {stages}, max: {stages}}}, pipeline: {order}}}
checkpoint: {{every: 1000000}}
"""


def run(order, stages, lanes, options):
    """The lines of the first steps, and what the planner expects: (seconds, share of the bubble)."""
    with LimitedSlots(stages, options.share) as cluster:
        cluster.patience = PATIENCE
        path = cluster.folder + "/job.yaml"
        with open(path, "w", encoding="ascii") as file:
            file.write(JOB.format(layers=LAYERS, width=options.width, lanes=lanes, stages=stages, order=order))
        layout = ("--stages", str(stages), "--replicas", "1")
        plan = json.loads(cluster.firnctl("plan", path, "--json", *layout))["candidates"][0]
        cluster.submit(path, "pipeline", *layout)
        cluster.await_that("all steps are committed", lambda: options.steps in cluster.lines())
        lines = cluster.lines()
        return [lines[step] for step in range(1, options.steps + 1)], (plan["step_seconds"], plan["bubble_share"])


def compare(report, stages, lanes, options):
    """Whether both orders give the same bits."""
    orders, seconds, planned, bits = ("1f1b", "auto"), {}, {}, {}
    for turn in range(options.rounds):
        for order in orders if turn % 2 == 0 else reversed(orders):
            lines, planned[order] = run(order, stages, lanes, options)
            seconds.setdefault(order, []).append(median([line["step_ms"] / 1e3 for line in lines[2:]]))
            bits.setdefault(order, []).extend((line["step"], line["loss_bits"], line["grad_norm_bits"]) for line in lines)
    equal = len(set(bits["1f1b"])) == len(set(bits["auto"])) == len(set(bits["1f1b"] + bits["auto"])) == options.steps
    ratios = [before / after for before, after in zip(seconds["1f1b"], seconds["auto"])]
    report.say(f"   {stages} stages, {lanes:3} micro-batches: 1F1B {median(seconds['1f1b']):.3f} s a step, ZB-H1 {median(seconds['auto']):.3f} s: "
               f"{median(ratios):.2f} x ({', '.join(f'{ratio:.2f}' for ratio in ratios)}); planned "
               f"{planned['1f1b'][0] / planned['auto'][0]:.2f} x, without any bubble {1 / (1 - planned['1f1b'][1]):.2f} x; the bits are "
               + ("equal" if equal else "NOT EQUAL"),
               **{f"{stages}x{lanes}": {"seconds": seconds, "planned": planned, "equal": equal}})
    return equal


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("shapes", nargs="*", default=["4:8", "8:8", "8:32"])
    options = parser.parse_args()
    report = Report("pipeline", f"{LAYERS} layers of width {options.width}, slots of {options.share} of {os.cpu_count()} processors")
    equal = [compare(report, *map(int, shape.split(":")), options) for shape in options.shapes]
    report.write()
    sys.exit(0 if all(equal) else 1)


main()
