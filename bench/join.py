#!/usr/bin/env python3
"""What a join costs a model of real size: the longest silence between two commits when nodes come and go.

join.py [LAYERS WIDTH HEADS]...: for each size, a cluster of two nodes of one slot, one of them stopped;
the other trains. Then the second node starts (join), is told to leave (drain), the job is scaled, and
each time the steps around the change are compared with steps before and after: once as a second replica,
once as a second stage. Default: GPT-2 124M and 350M. FIRN_BIN_BESIDE names the programs of another build,
which are measured in the same run.

  lost   the longest silence between two commits around the change, beyond a step of the slower layout
  pause  what the worker says of it: the end of the last step to the beginning of the next
"""
import os
import sys

from local_cluster import PROGRAMS, Cluster, Report, median

SIZES = ((12, 768, 12), (24, 1024, 16))
JOB = """
name: join
model: {{family: gpt2, layers: {0}, width: {1}, heads: {2}, context: 64, vocab: 50257, tied: true}}
data: {{format: bytes, path: /usr/include/linux, validation: 0.05}}
train: {{steps: 1000000, lanes: 4, micro_batch: 1, seed: 1, optimizer: {{lr: 1e-4}}}}
checkpoint: {{every: 1000000}}
elastic: {{devices: {{min: 1, max: 2}}, freeze: {{policy: none}}}}
"""
STEPS = 4  # of a layout, before and after a change


def parameters(layers, width):
    return 50257 * width + 12 * layers * width * width


class Changes:
    def __init__(self, report, cluster, words):
        self.report, self.cluster, self.words = report, cluster, words

    def settled(self, workers, after=0):
        """The step times of the newest generation with that many workers, once it has taken STEPS steps."""
        def look():
            lines = [line for step, line in sorted(self.cluster.lines().items()) if step > after]
            lines = [line for line in lines if line["generation"] == lines[-1]["generation"]]
            return lines if len(lines) > STEPS and lines[-1]["workers"] == workers else None
        return self.cluster.await_that(f"{workers} workers commit steps", look)

    def measure(self, what, workers, change):
        before = self.settled(3 - workers)
        change()
        after = self.settled(workers, before[-1]["step"])
        lines = self.cluster.lines()
        first, last = before[-1], after[-1]
        slower = max(median([line["step_ms"] for line in some[1:]]) for some in (before, after)) / 1e3
        steps = [lines[step] for step in range(first["step"], last["step"] + 1)]
        silences = [(b["unix_ns"] - a["unix_ns"]) / 1e9 for a, b in zip(steps, steps[1:])]
        lost = max(silences) - slower
        self.report.say(f"{self.words}, {what}: longest silence {max(silences):.2f} s, a step of the slower "
                        f"layout {slower:.2f} s, so {lost:.2f} s are lost",
                        **{f"{self.words} {what} lost_seconds": lost, f"{self.words} {what} step_seconds": slower})


def run(report, programs, size, pin, pinned):
    words = f"{programs}: {parameters(size[0], size[1]) // 10 ** 6} M, {pinned}"
    with Cluster(2, 1, "--threads", "1", programs=programs) as cluster:
        cluster.patience = 600
        changes = Changes(report, cluster, words)
        path = cluster.folder + "/join.yaml"
        with open(path, "w", encoding="ascii") as file:
            file.write(JOB.format(*size))
        name = cluster.status()[1]["name"]
        cluster.firnctl("local", "kill", name, "--dir", cluster.folder)
        cluster.submit(path, "join", *pin)
        changes.settled(1)
        changes.measure("join", 2, lambda: cluster.firnctl("local", "start", name, "--dir", cluster.folder))
        changes.measure("drain", 1, lambda: cluster.firnctl("node", "drain", name))
        changes.measure("return", 2, lambda: cluster.firnctl("node", "resume", name))
        scale = ("job", "scale", "join", *pin, "--devices")
        changes.measure("scale down", 1, lambda: cluster.firnctl(*scale, "1"))
        changes.measure("scale up", 2, lambda: cluster.firnctl(*scale, "2"))
        for line in cluster.firnctl("job", "events", "join").splitlines():
            if "pause" in line or "goes on" in line:
                report.say("   " + line)


def main():
    report = Report("join", "joins and leaves of a model of real size")
    numbers = [int(word) for word in sys.argv[1:]]
    for size in [tuple(numbers[i:i + 3]) for i in range(0, len(numbers), 3)] or SIZES:
        for pin, pinned in ((("--stages", "1"), "replicas"), (("--replicas", "1"), "stages")):
            for programs in filter(None, (PROGRAMS, os.environ.get("FIRN_BIN_BESIDE"))):
                run(report, programs, size, pin, pinned)
    report.write()


main()
