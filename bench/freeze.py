#!/usr/bin/env python3
"""What freezing, kept outputs and elastic layouts save: one job on eight equal slots, several ways.

freeze.py [--steps N] [--share P] [--memory MIB] [--width W] [--epoch E] [--seeds S] [--rows static,freeze,...]

A node of eight slots, each worker with P of a processor (a control group) and MIB for tensors, too little for the whole
model while all its layers train. An epoch has E steps, and after each one layers freeze by the schedule of PipeTransformer,
alpha = 1/3. The rows are those of its ablation, each a run of the same job with the same seed:

  static     a pipeline of eight stages in 1F1B order, nothing freezes
  deferred   the same, in the order that firn chooses
  freeze     and layers freeze
  pipe+cache and the pipeline may shrink, outputs of frozen layers are kept; one replica
  pipe+dp    the pipeline may shrink, and what that frees becomes replicas; nothing is kept
  all        all of it

And only where --rows names them, all of it with another policy:

  gradient   PipeTransformer's rule, alpha = 1/3, after each epoch
  plasticity a layer that has calmed down, by four measurements in an epoch
  budget     until a step needs half of its arithmetic, alpha = 1/3, after each epoch

Printed: seconds from the first commit to the last, and how many times faster than `static`; pauses; samples whose frozen
output was loaded; the step of each layout as it was, and as the planner predicted it when it chose the layout for the layers
that were frozen then. The validation loss is that of the finished model, its mean and standard deviation over S seeds (of
`static` and `all` only, where S is above 1).

Then fine-tuning: the same model, nine layers frozen from the start, four epochs of 20 steps, on two slots of a whole
processor, and in a pipeline of four stages of 0.2; with kept outputs and without. Exit status 1 if a bit differs.
"""
import argparse
import glob
import re
import statistics
import sys

from limited_slots import LimitedSlots
from local_cluster import Cluster, Report, median

SLOTS = 8
SAMPLES_A_STEP = 16
CONTEXT = 128
PATIENCE = 1800  # seconds for one run
FAMILY = "/usr/include/linux/*.h"

JOB = """
name: freeze
model: {{family: gpt2, layers: 12, width: {width}, heads: 6, context: 128, vocab: 256, tied: true}}
data: {{format: bytes, path: {data}, validation: {validation}}}
train: {{steps: {steps}, lanes: 8, micro_batch: 2, seed: {seed}, optimizer: {{lr: 1e-3}}}}
evaluate: {{every: {evaluate}, batches: 16}}
elastic: {{devices: {{min: 1, max: 8}}, pipeline: {pipeline}, freeze: {freeze}}}
checkpoint: {{every: 1000000}}
"""
FINE_TUNE = """
name: tune
model: {{family: gpt2, layers: 12, width: {width}, heads: 6, context: 128, vocab: 256, tied: true}}
data: {{format: bytes, path: {data}}}
train: {{steps: 80, lanes: 8, micro_batch: 4, seed: 1, optimizer: {{lr: 1e-3}}}}
elastic: {{devices: {{min: 1, max: 4}}, freeze: {{from_start: 9, cache_mb: {cache}}}}}
checkpoint: {{every: 1000000}}
"""
FREEZE = "{{policy: schedule, alpha: 0.3333333, every: {epoch}, cache_mb: {cache}}}"
ROWS = {
    "static": ("{{policy: none}}", ["--stages", str(SLOTS)], 0),
    "deferred": ("{{policy: none}}", ["--stages", str(SLOTS)], 0),
    "freeze": (FREEZE, ["--stages", str(SLOTS)], 0),
    "pipe+cache": (FREEZE, ["--replicas", "1"], 1024),
    "pipe+dp": (FREEZE, [], 0),
    "all": (FREEZE, [], 1024),
}
POLICIES = {  # the same with other policies
    "gradient": ("{{policy: gradient, alpha: 0.3333333, every: {epoch}, cache_mb: {cache}}}", [], 1024),
    "plasticity": ("{{policy: plasticity, every: {quarter}, cache_mb: {cache}}}", [], 1024),
    "budget": ("{{policy: budget, alpha: 0.3333333, budget: 0.5, every: {epoch}, cache_mb: {cache}}}", [], 1024),
}


def write_data(folder, samples):
    """An epoch's samples and some to validate on, from the same headers."""
    text = b"".join(open(path, "rb").read() for path in sorted(glob.glob(FAMILY)))
    paths = []
    for name, begin, count in (("data", 0, samples), ("validation", samples, 64)):
        paths.append(f"{folder}/{name}")
        with open(paths[-1], "wb") as file:
            file.write(text[begin * CONTEXT:(begin + count) * CONTEXT + 1])
    return paths


def run(row, seed, options):
    """The metrics of all steps in their order, and the job's events."""
    freeze, flags, cache = {**ROWS, **POLICIES}[row]
    quarter = max(options.epoch // 4, 1)
    with LimitedSlots(SLOTS, options.share, "--memory", str(options.memory)) as cluster:
        cluster.patience = PATIENCE
        data, validation = write_data(cluster.folder, options.epoch * SAMPLES_A_STEP)
        path = cluster.folder + "/job.yaml"
        with open(path, "w", encoding="ascii") as file:
            file.write(JOB.format(width=options.width, steps=options.steps, seed=seed, data=data, validation=validation,
                                  pipeline="1f1b" if row == "static" else "auto",
                                  evaluate=quarter if row == "plasticity" else options.steps,
                                  freeze=freeze.format(epoch=options.epoch, quarter=quarter, cache=cache)))
        cluster.submit(path, row.replace("+", "-"), *flags)
        cluster.await_that("all steps are committed", lambda: "final_val_loss" in cluster.lines().get(options.steps, {}))
        lines = sorted(cluster.lines().values(), key=lambda line: line["step"])
        return lines, list(cluster.read("events.jsonl"))


def seconds_of(lines):
    return (lines[-1]["unix_ns"] - lines[0]["unix_ns"]) / 1e9


def generations_of(events):
    """The event of each generation that began after a pause: a text is told once by each writer of events."""
    return list({event["generation"]: event for event in events if event.get("pause_ms")}.values())


def predictions_of(events):
    """generation -> seconds a step, where the reason of the generation has them."""
    predicted = {}
    for event in events:
        match = re.search(r"generation (\d+).*predicted step ([\d.]+) ms", event["text"])
        if match:
            predicted[int(match[1])] = float(match[2]) / 1e3
    return predicted


def show(report, row, lines, events, static):
    seconds = seconds_of(lines)
    pauses = [event["pause_ms"] / 1e3 for event in generations_of(events)]
    loaded = sum(line.get("frozen_loaded", 0) for line in lines)
    asked = loaded + sum(line.get("frozen_computed", 0) for line in lines)
    report.say(f"   {row:11}{seconds:7.1f} s  {static / seconds:4.2f} x  validation {lines[-1]['final_val_loss']:.3f}  loaded "
               f"{100 * loaded / asked if asked else 0:.0f} %  pauses "
               + (", ".join(f"{pause:.2f}" for pause in pauses) or "none"),
               **{row: {"seconds": seconds, "ratio": static / seconds, "pauses": pauses,
                        "validation": lines[-1]["final_val_loss"], "loaded": loaded, "asked": asked}})
    predicted, spans = predictions_of(events), {}
    for line in lines:
        spans.setdefault((line["generation"], line["stages"], line["replicas"], line["frozen_layers"]), []).append(line)
    for (generation, stages, replicas, frozen), span in spans.items():
        measured = median([line["step_ms"] / 1e3 for line in span[1:] or span])
        expected = predicted.pop(generation, None)  # of the layers that were frozen when it was planned
        report.say(f"     {stages} x {replicas}, {frozen:2} frozen, {len(span):3} steps: {measured:.3f} s"
                   + (f", predicted {expected:.3f}" if expected else ""))
    return sum(pauses)


def fine_tune(report, width, where, cluster_of, *flags):
    """Whether the runs with kept outputs and without them are equal to the bit."""
    seconds, exact = {}, {}
    for cache in (0, 1024):
        with cluster_of() as cluster:
            cluster.patience = PATIENCE
            data, _ = write_data(cluster.folder, 20 * 32)
            path = cluster.folder + "/job.yaml"
            with open(path, "w", encoding="ascii") as file:
                file.write(FINE_TUNE.format(width=width, data=data, cache=cache))
            cluster.submit(path, "tune", *flags)
            cluster.await_that("all steps are committed", lambda: 80 in cluster.lines())
            lines = cluster.lines()
        seconds[cache] = [median([lines[step]["step_ms"] / 1e3 for step in steps])
                          for steps in (range(3, 21), range(65, 81))]
        exact[cache] = [(lines[step]["loss_bits"], lines[step]["grad_norm_bits"]) for step in range(1, 81)]
    equal = exact[0] == exact[1024]
    report.say(f"   fine-tuning {where}, 9 of 12 layers frozen: a step {seconds[0][0]:.3f} s in the first epoch, {seconds[0][1]:.3f} s in "
               f"the fourth; with kept outputs {seconds[1024][0]:.3f} s and {seconds[1024][1]:.3f} s: "
               f"{seconds[0][1] / seconds[1024][1]:.2f} x; the bits are " + ("equal" if equal else "NOT EQUAL"),
               **{"fine-tuning " + where: {"without": seconds[0], "with": seconds[1024], "equal": equal}})
    return equal


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=192)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--memory", type=int, default=80)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--epoch", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", default=",".join(ROWS))
    options = parser.parse_args()
    report = Report("freeze", f"12 layers of width {options.width} that freeze, on {SLOTS} slots of {options.share} processors")
    static, losses = None, {}
    for row in options.rows.split(",") if options.rows else ():
        for seed in range(1, 1 + (options.seeds if row in ("static", "all") else 1)):
            lines, events = run(row, seed, options)
            losses.setdefault(row, []).append(lines[-1]["final_val_loss"])
            if seed == 1:
                static = static or seconds_of(lines)
                paused = show(report, row, lines, events, static)
                report.say(f"     without its pauses {static / (seconds_of(lines) - paused):.2f} x")
    for row, values in losses.items():
        if len(values) > 1:
            report.say(f"   {row}: validation {statistics.mean(values):.3f} +- {statistics.stdev(values):.3f} over {len(values)} seeds")
    equal = fine_tune(report, options.width, "on two slots", lambda: Cluster(1, 2))
    equal &= fine_tune(report, options.width, "in four stages", lambda: LimitedSlots(4, options.share), "--stages", "4")
    report.write()
    sys.exit(0 if equal else 1)


main()
