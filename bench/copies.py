#!/usr/bin/env python3
"""What copies of checkpoints cost: the same job with `checkpoint.copies` 1 and 2, in turns.

copies.py [ROUNDS]: two nodes of one slot each, two replicas that share the writing; with copies each
node fetches the other's share, paced to at most half of the time. From the commit records: how long a
checkpoint took from its boundary to its record, and how long training was held up; from the metrics: a
step while checkpoints are made one behind the other. Both nodes and the disk are on this machine.
"""
import json
import sys

from local_cluster import Cluster, Report, median

RECORDS = 6  # of each run; the first is left out, for files of etcd and disk are new then
EVERY = 5
JOB = """
name: probe
model: {family: gpt2, layers: 6, width: 512, heads: 8, context: 32, vocab: 256, tied: true}
data: {format: bytes, path: /usr/include/linux}
train: {steps: 1000000, lanes: 2, micro_batch: 1, seed: 1, optimizer: {lr: 1e-3}}
elastic: {devices: {min: 2, max: 2}, freeze: {policy: none}}
checkpoint: {every: %d, keep: 100, copies: %d%s}
"""


def run(cluster, name, copies):
    """The records of a job's checkpoints, and the median seconds of a step."""
    path = f"{cluster.folder}/{name}.yaml"
    shared = "" if copies > 1 else f", path: {cluster.folder}/shared"
    with open(path, "w", encoding="ascii") as file:
        file.write(JOB % (EVERY, copies, shared))
    cluster.submit(path, name, "--stages", "1", "--replicas", "2")

    def records():
        text = cluster.firnctl("checkpoint", "list", name, "--json")
        found = json.loads(text)["checkpoints"]
        return found if len(found) >= RECORDS else None
    # A boundary passes without a checkpoint while the one before is still being written.
    for step in range(RECORDS * EVERY, 20 * RECORDS * EVERY, EVERY):
        cluster.await_that(f"step {step}", lambda step=step: max(cluster.lines(), default=0) >= step)
        if records():
            break
    found = sorted(cluster.await_that("enough checkpoints", records), key=lambda record: record["step"])[1:]
    seconds = median([line["step_ms"] / 1e3 for step, line in cluster.lines().items() if step > EVERY])
    cluster.firnctl("job", "cancel", name)
    return found, seconds


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    report = Report("copies", "checkpoints in one shared folder and with a copy on each of two nodes")
    with Cluster(2, 1, "--own-disks") as cluster:
        results = {1: [], 2: []}
        for turn in range(rounds):
            for copies, runs in results.items():
                runs.append(run(cluster, f"c{copies}-{turn}", copies))
    for copies, runs in results.items():
        records = [record for found, _ in runs for record in found]
        size = records[0]["size_bytes"]
        took = median([record["write_seconds"] for record in records])
        stalls = sorted(record["stall_seconds"] for record in records)
        report.say(f"copies {copies}: {size / 1e6:.0f} MB in {took:.2f} s ({size * copies / took / 1e6:.0f} MB/s of "
                   f"files), stall median {median(stalls) * 1e3:.1f} ms, worst {stalls[-1] * 1e3:.1f} ms of "
                   f"{len(records)}; step {median([seconds for _, seconds in runs]) * 1e3:.0f} ms",
                   **{f"copies_{copies}": {"write_seconds": [record["write_seconds"] for record in records],
                                           "stall_seconds": stalls, "size_bytes": size,
                                           "step_seconds": [seconds for _, seconds in runs]}})
    report.write()


main()
