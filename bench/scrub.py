#!/usr/bin/env python3
"""What reading checkpoints back costs a step: steps while one is read beside steps of the same run while none is.

scrub.py [CHECKPOINTS]: one node whose two slots keep both processors busy, so the reading takes its time from the
steps. A step counts as one or the other only where that held from its begin to its end; a step in which a
checkpoint is written counts as neither. Slow drifts of the machine are taken out by comparing the steps around one
reading with one another.
"""
import bisect
import http.client
import json
import sys
import time

from local_cluster import Cluster, Report, median

EVERY = 90
PAUSE_SECONDS = 0.02  # between two looks at the progress
JOB = """
name: probe
model: {family: gpt2, layers: 12, width: 512, heads: 8, context: 64, vocab: 256, tied: true}
data: {format: bytes, path: /usr/include/linux}
train: {steps: 1000000, lanes: 2, micro_batch: 1, seed: 1, optimizer: {lr: 1e-3}}
elastic: {devices: {min: 2, max: 2}, freeze: {policy: none}}
checkpoint: {every: %d, keep: 100}
"""


class Progress:
    """Times at which a reading was seen in progress or not, of the node's GET /metrics."""

    def __init__(self, host):
        self.host, self.times, self.bytes, self.verified = host, [], [], 0

    def look(self):
        connection = http.client.HTTPConnection(self.host, timeout=5)
        connection.request("GET", "/metrics")
        values = dict(line.rsplit(" ", 1) for line in connection.getresponse().read().decode().splitlines()
                      if line.startswith("firn_scrub_"))
        connection.close()
        self.times.append(time.time())
        self.bytes.append(float(values["firn_scrub_bytes"]))
        self.verified = int(float(values["firn_scrub_verified_checkpoints"]))

    def during(self, begin, end):
        """Whether a checkpoint was read all the time, or none at any time; None: neither, or not known."""
        first, last = bisect.bisect_left(self.times, begin) - 1, bisect.bisect_right(self.times, end) + 1
        if first < 0 or last > len(self.times):
            return None
        seen = {size > 0 for size in self.bytes[first:last]}
        return seen.pop() if len(seen) == 1 else None


def classify(lines, progress, records):
    """(seconds of steps while a checkpoint is read, and while none is) of each interval of checkpoints."""
    written = {record["step"]: record["write_seconds"] for record in records}
    intervals = {}
    for step, line in lines.items():
        boundary = (step - 1) // EVERY * EVERY
        if boundary not in written:
            continue
        seconds, end = line["step_ms"] / 1e3, line["unix_ns"] / 1e9
        saved = lines[boundary]["unix_ns"] / 1e9 + written[boundary]
        reading = progress.during(end - seconds, end)
        if end - seconds > saved and reading is not None:
            intervals.setdefault(boundary, ([], []))[0 if reading else 1].append(seconds)
    return [pair for pair in intervals.values() if all(pair)]


def main():
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    report = Report("scrub", "steps while a checkpoint is read back and while none is")
    with Cluster(1, 2) as cluster:
        path = f"{cluster.folder}/probe.yaml"
        with open(path, "w", encoding="ascii") as file:
            file.write(JOB % EVERY)
        cluster.submit(path, "probe", "--stages", "1", "--replicas", "2")
        progress = Progress(json.loads(cluster.firnctl("node", "list", "--json"))["nodes"][0]["http"])
        while progress.verified <= wanted:  # the rest of the last interval is of use, too
            progress.look()
            time.sleep(PAUSE_SECONDS)
        records = json.loads(cluster.firnctl("checkpoint", "list", "probe", "--json"))["checkpoints"]
        lines = cluster.lines()
    pairs = classify(lines, progress, records)
    ratios = [median(reading) / median(resting) for reading, resting in pairs]
    steps = [sum(map(len, kind)) for kind in zip(*pairs)]
    share = sum(size > 0 for size in progress.bytes) / len(progress.bytes)
    report.say(f"{records[0]['size_bytes'] / 1e6:.0f} MB every {EVERY} steps of "
               f"{median([line['step_ms'] for line in lines.values()]):.0f} ms: a step takes {median(ratios):.3f} times as "
               f"long while a checkpoint is read ({', '.join(f'{ratio:.3f}' for ratio in ratios)}; {steps[0]} and "
               f"{steps[1]} steps), which is {share:.0%} of the time: "
               f"{(median(ratios) - 1) * share:.1%} of all steps", ratios=ratios, share=share, steps=steps)
    report.write()


main()
