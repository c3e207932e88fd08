#!/usr/bin/env python3
"""How long a job takes to start on a large data set, the first time and then, beside one plain read of its file.

data_start.py [GIB]: writes a file of so many GiB of random uint16 tokens (4), drops it from the page cache, and
reads it once as cat does. Then two nodes of three slots each start a job on it, dropped from the cache again: one
worker of each node reads it. Another job of the same data follows at once, and one after the file was dropped again.
A start lasts from the submission to the first step; that of a job on little data, which pays for everything but the
data, is measured in the same cluster, the second of two. Nodes, file and etcd are on one machine and share its disk.
"""
import glob
import os
import sys
import time

import local_cluster
from local_cluster import Cluster, Report

PIECE_BYTES = 16 << 20
LITTLE_BYTES = 1 << 20
local_cluster.WAIT_SECONDS = 600

JOB = """
name: probe
model: {family: gpt2, layers: 2, width: 64, heads: 4, context: 64, vocab: 50257, tied: true}
data: {format: uint16, path: %s}
train: {steps: 1000000, lanes: 6, micro_batch: 1, seed: 1, optimizer: {lr: 1e-3}}
elastic: {devices: {min: 6, max: 6}, freeze: {policy: none}}
"""


def write_tokens(path, size_bytes):
    """Random tokens below 32768, a few MiB of them over and over: the reader does not look for repetitions."""
    piece = bytearray(os.urandom(min(PIECE_BYTES, size_bytes)))
    piece[1::2] = bytes(byte & 127 for byte in piece[1::2])
    with open(path, "wb") as file:
        for _ in range(size_bytes // len(piece)):
            file.write(piece)
        os.fsync(file.fileno())


def drop(path):
    """The file from the page cache."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def plain_read(path):
    """Seconds of one pass over the file."""
    buffer = bytearray(1 << 20)
    began = time.monotonic()
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.monotonic() - began


def start(cluster, name, data):
    """Seconds from the submission to the first step, and how many workers have read the data."""
    path = f"{cluster.folder}/{name}.yaml"
    with open(path, "w", encoding="ascii") as file:
        file.write(JOB % data)
    began = cluster.submit(path, name)
    line = cluster.await_that("the first step", lambda: cluster.lines().get(1))
    readers = 0
    for log in glob.glob(f"{cluster.folder}/nodes/*/jobs/{name}/worker-*.log"):
        with open(log, encoding="utf-8", errors="replace") as file:
            readers += "of the training data in" in file.read()
    cluster.firnctl("job", "cancel", name)
    cluster.await_that("its workers are gone", lambda: not any(node["workers"] for node in cluster.status()))
    return line["unix_ns"] / 1e9 - began, readers


def main():
    gib = float(sys.argv[1]) if len(sys.argv) > 1 else 4
    report = Report("data_start", f"the start of a job on {gib:g} GiB of tokens, two nodes of three slots")
    with Cluster(2, 3) as cluster:
        tokens = cluster.folder + "/tokens.bin"
        write_tokens(tokens, int(gib * (1 << 30)))
        drop(tokens)
        cold = plain_read(tokens)
        warm = plain_read(tokens)
        write_tokens(cluster.folder + "/little.bin", LITTLE_BYTES)
        for turn in range(2):
            little, _ = start(cluster, f"little-{turn}", cluster.folder + "/little.bin")
        report.say(f"one plain read: {cold:.2f} s from the disk ({gib / cold:.2f} GiB/s), {warm:.2f} s from memory; "
                   f"a start on little data {little:.2f} s", gib=gib, plain_cold_seconds=cold,
                   plain_warm_seconds=warm, little_seconds=little)
        drop(tokens)
        for name, what in (("first", "from the disk"), ("second", "from memory"), ("third", "from the disk")):
            if what == "from the disk":
                drop(tokens)
            seconds, readers = start(cluster, name, tokens)
            more = seconds - little
            share = f", {more / cold:.2f} of a plain read from the disk" if readers else ""
            report.say(f"{name} start, {what}: {seconds:.2f} s, {more:+.2f} s for the data{share}; read by "
                       f"{readers} workers of {cluster.workers}", **{name: {"seconds": seconds, "readers": readers}})
    report.write()


main()
