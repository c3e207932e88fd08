#!/usr/bin/env python3
"""Whether a job learns: examples/shakespeare.yaml on a local cluster, to a validation loss below 2.0.

learn.py TEXT: trains on that file (tinyshakespeare, 1.1 MB) with one worker on each of two cores, and
prints when the validation loss, in nats per byte, fell below the aim, what it was in the end, and text
that the trained model writes. Exit status 1 when the aim was missed.
"""
import os
import sys

from local_cluster import Cluster, Report

AIM = 2.0
SECONDS_MAX = 900
EXAMPLE = os.path.join(os.path.dirname(__file__), "..", "examples", "shakespeare.yaml")


def train(cluster, text):
    """The metrics of the whole run, and what the trained model writes."""
    cluster.submit(EXAMPLE, "learn", "--set", "data.path=" + os.path.abspath(text))
    cluster.firnctl("watch", "learn", seconds=SECONDS_MAX)
    lines = sorted(cluster.lines().values(), key=lambda line: line["step"])
    return lines, cluster.firnctl("sample", "learn", "--prompt", "ROMEO:", "--tokens", "400", "--top-k", "40")


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: learn.py TEXT")
    report = Report("learn", "training examples/shakespeare.yaml to a validation loss below 2.0 nats a byte")
    with Cluster(1, 2) as cluster:
        lines, sample = train(cluster, sys.argv[1])
    began = lines[0]["unix_ns"] / 1e9 - lines[0]["step_ms"] / 1e3
    curve = [(line["step"], line["tokens"], line["unix_ns"] / 1e9 - began, line["val_loss"])
             for line in lines if "val_loss" in line]
    for step, _, seconds, loss in curve:
        print(f"   step {step:5}  {seconds:6.1f} s  validation {loss:.3f}")
    below = next((point for point in curve if point[3] < AIM), None)
    if below:
        report.say(f"below {AIM} at step {below[0]}, after {below[2]:.0f} s and {below[1]} tokens",
                   below_aim_step=below[0], below_aim_seconds=below[2])
    step, _, seconds, loss = curve[-1]
    report.say(f"validation loss {loss:.3f} nats a byte at step {step} after {seconds:.0f} s; the model writes:\n"
               f"{sample}", validation_loss=loss, seconds=seconds, sample=sample)
    report.write()
    sys.exit(0 if below else 1)


main()
