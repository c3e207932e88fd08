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


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: learn.py TEXT")
    report = Report("learn", "training examples/shakespeare.yaml to a validation loss below 2.0 nats a byte")
    with Cluster(1, 2) as cluster:
        cluster.submit(EXAMPLE, "learn", "--set", "data.path=" + os.path.abspath(sys.argv[1]))
        cluster.firnctl("watch", "learn", seconds=SECONDS_MAX)
        lines = sorted(cluster.lines().values(), key=lambda line: line["step"])
        sample = cluster.firnctl("sample", "learn", "--prompt", "ROMEO:", "--tokens", "400")
    measured = [line for line in lines if "val_loss" in line]
    below = next((line for line in measured if line["val_loss"] < AIM), None)
    began = lines[0]["unix_ns"] / 1e9 - lines[0]["step_ms"] / 1e3
    for line in measured:
        print(f"   step {line['step']:5}  {line['unix_ns'] / 1e9 - began:6.1f} s  validation {line['val_loss']:.3f}")
    last = measured[-1]
    if below:
        report.say(f"below {AIM} at step {below['step']}, after {below['unix_ns'] / 1e9 - began:.0f} s and "
                   f"{below['tokens']} tokens", below_aim_step=below["step"],
                   below_aim_seconds=below["unix_ns"] / 1e9 - began)
    report.say(f"validation loss {last['val_loss']:.3f} nats a byte at step {last['step']} after "
               f"{last['unix_ns'] / 1e9 - began:.0f} s; the model writes:\n{sample}",
               validation_loss=last["val_loss"], seconds=last["unix_ns"] / 1e9 - began, sample=sample)
    report.write()
    sys.exit(0 if below else 1)


main()
