#!/usr/bin/env python3
"""What the seals of links cost a training step: the same job with authenticated links and with checksums.

links.py [ROUNDS [STEPS]]: in turns, with two workers as a pipeline and as two replicas. Prints the median step of
each and the ratio of each pair of runs. FIRN_BIN_BESIDE: the programs of another build, as a third
kind beside both. The model has 6 layers of width 256, so that links carry what they would beside real work.
"""
import os
import sys
import tempfile

from local_cluster import PROGRAMS, Cluster, Report, median

JOB = """
name: links
model: {family: gpt2, layers: 6, width: 256, heads: 4, context: 64, vocab: 256, tied: true}
data: {format: bytes, path: /usr/include/linux, validation: 0.05}
train: {steps: 1000000, lanes: 8, micro_batch: 2, seed: 1, optimizer: {lr: 1e-3}}
elastic: {devices: {min: 2, max: 2}, freeze: {policy: none}}
checkpoint: {every: 5}
"""
LAYOUTS = {"2 stages": ("--stages", "2", "--replicas", "1"), "2 replicas": ("--stages", "1", "--replicas", "2")}


def measure(programs, flags, layout, steps):
    """(median milliseconds of a step, median milliseconds that a checkpoint stalls training)"""
    with Cluster(2, 1, *flags, programs=programs) as cluster:
        path = f"{cluster.folder}/links.yaml"
        with open(path, "w", encoding="ascii") as file:
            file.write(JOB)
        cluster.submit(path, "links", *LAYOUTS[layout])
        generation = cluster.steady(2)
        known = len(cluster.lines())
        cluster.await_that(f"{steps} steps are committed", lambda: len(cluster.lines()) >= known + steps)
        stalls = [float(event["text"].rsplit("stalled ", 1)[1].split()[0]) for event in cluster.read("events.jsonl")
                  if event["kind"] == "checkpoint" and "stalled" in event["text"]]
        return 1e3 * cluster.step_seconds(generation), median(stalls)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    report = Report("links", "a step with authenticated links beside one with checksums")
    with tempfile.NamedTemporaryFile("w", prefix="firn-bench-", suffix=".yaml") as settings:
        settings.write("link_seals: checksums\n")
        settings.flush()
        kinds = {"authenticated": (PROGRAMS, ()), "checksums": (PROGRAMS, ("--config", settings.name))}
        if os.environ.get("FIRN_BIN_BESIDE"):
            kinds["beside"] = (os.environ["FIRN_BIN_BESIDE"], ())
        for layout in LAYOUTS:
            found = {kind: [] for kind in kinds}
            for turn in range(rounds):  # each kind is first in its turn
                for kind in sorted(kinds, key=lambda kind, turn=turn: (list(kinds).index(kind) + turn) % len(kinds)):
                    found[kind].append(measure(*kinds[kind], layout, steps))
            for kind, runs in found.items():
                ratios = [mine[0] / other[0] for mine, other in zip(found["authenticated"], runs)]
                report.say(f"{layout}, {kind}: {median([step for step, _ in runs]):.1f} ms a step, a checkpoint stalls "
                      f"{median([stall for _, stall in runs]):.1f} ms; authenticated / {kind}: {median(ratios):.3f} "
                      f"({', '.join(f'{ratio:.3f}' for ratio in ratios)})",
                           **{f"{layout.replace(' ', '_')}_{kind}_step_ms": [step for step, _ in runs]})
    report.write()


if __name__ == "__main__":
    main()
