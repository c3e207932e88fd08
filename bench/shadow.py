#!/usr/bin/env python3
"""What shadow state costs a step: the same job with and without elastic.shadow, in turns.

shadow.py [ROUNDS]: two nodes of one slot each, two stages of one replica, so each worker keeps the
copy of the other's stage. Two batches: a step's gradients are as large for few tokens as for many, so
the share that their transfer, one norm and one optimizer step more take falls with the batch. Processor
time of the workers is measured beside the clock's, because it holds on a busy machine.
"""
import os
import sys

from local_cluster import Cluster, Report, median

STEPS = 25  # of each run; the first ones are left out
SKIPPED = 5

JOB = """
name: probe
model: {family: gpt2, layers: 6, width: 256, heads: 4, context: 64, vocab: 256, tied: true}
data: {format: bytes, path: /usr/include/linux}
train: {steps: 1000000, lanes: %d, micro_batch: 2, seed: 1, optimizer: {lr: 1e-3}}
elastic: {devices: {min: 1, max: 2}, shadow: %s, freeze: {policy: none}}
"""
PARAMETERS = 6 * 12 * 256 * 256 + (256 + 64) * 256  # of the matrices, nearly all


def processor_seconds(cluster):
    """That the workers have used so far, user and system."""
    seconds = 0.0
    for node in cluster.status():
        for worker in node["workers"]:
            with open(f"/proc/{worker['pid']}/stat", encoding="ascii") as stat:
                times = stat.read().rpartition(")")[2].split()[11:13]
            seconds += sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
    return seconds


def run(cluster, name, lanes, shadow):
    """Median seconds of a step by the clock, and seconds of a step of both workers' processors."""
    path = f"{cluster.folder}/{name}.yaml"
    with open(path, "w", encoding="ascii") as file:
        file.write(JOB % (lanes, str(shadow).lower()))
    cluster.submit(path, name, "--stages", "2", "--replicas", "1")
    cluster.await_that("the first steps", lambda: max(cluster.lines(), default=0) >= SKIPPED)
    first, began = max(cluster.lines()), processor_seconds(cluster)
    cluster.await_that("enough steps", lambda: max(cluster.lines(), default=0) >= STEPS)
    busy = (processor_seconds(cluster) - began) / (max(cluster.lines()) - first)
    seconds = median([line["step_ms"] / 1e3 for step, line in cluster.lines().items() if step > SKIPPED])
    cluster.firnctl("job", "cancel", name)
    return seconds, busy


def list_of(ratios):
    return ", ".join(f"{ratio:.3f}" for ratio in ratios)


def measure(report, cluster, lanes, rounds):
    plain, shadowed = [], []
    for turn in range(rounds):
        plain.append(run(cluster, f"plain-{lanes}-{turn}", lanes, False))
        shadowed.append(run(cluster, f"shadow-{lanes}-{turn}", lanes, True))
    ratios = [with_it[0] / without[0] for with_it, without in zip(shadowed, plain)]
    busy = [with_it[1] / without[1] for with_it, without in zip(shadowed, plain)]
    report.say(f"{lanes} lanes x 128 tokens, {PARAMETERS * 4 / 1e6:.0f} MB of gradients: step "
               f"{median([time for time, _ in plain]) * 1e3:.0f} ms without, "
               f"{median([time for time, _ in shadowed]) * 1e3:.0f} ms with shadows, ratio {median(ratios):.3f} "
               f"({list_of(ratios)}); of processor time {median(busy):.3f} ({list_of(busy)})",
               **{f"lanes_{lanes}": {"plain_seconds": plain, "shadow_seconds": shadowed}})


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    report = Report("shadow", "the step of a pipeline of two stages with and without shadow state")
    with Cluster(2, 1) as cluster:
        for lanes in (2, 16):
            measure(report, cluster, lanes, rounds)
    report.write()


main()
