#!/usr/bin/env python3
"""A job that has committed millions of steps is changed and mended as fast as a young one.

Nobody waits months for that: the newest checkpoint of a paused job is given a step far away, and every
node the lines of metrics and events that would be there by then. FIRN_AGE is that step.
"""
import glob
import hashlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import time
import unittest

from lib import checkpoint_format
from lib.cluster import BIN, Cluster, kill
from lib.job import Job, JobTest

AGE = int(os.environ.get("FIRN_AGE", "4000000"))
EVENTS = AGE // 40
LINES_AT_ONCE = 20_000
TURNS = 8
READER_MIB = 512  # of firnctl: most of it events
SLACK = 4  # generations that a busy machine may need more than were asked for


def age_manifest(path, step):
    """The same state, said to be of @step; returns the manifest's SHA-256."""
    with open(path, "rb") as file:
        manifest = json.loads(file.read())
    manifest["step"] = step
    del manifest["checksum"]
    text = json.dumps(manifest, separators=(",", ":"), ensure_ascii=False).encode()[:-1]
    text += b',"checksum":"%s"}\n' % checkpoint_format.digits(checkpoint_format.xxh3_128(text)).encode()
    with open(path, "wb") as file:
        file.write(text)
    return hashlib.sha256(text).hexdigest()


def append(path, key, values):
    """Lines like the last one of the file, but for one number."""
    with open(path, "rb") as file:
        line = file.read().splitlines(keepends=True)[-1]
    head, tail = line.split(f'"{key}":{json.loads(line)[key]}'.encode(), 1)
    head += f'"{key}":'.encode()
    with open(path, "ab") as file:
        for begin in range(0, len(values), LINES_AT_ONCE):
            file.write(b"".join(head + b"%d" % value + tail for value in values[begin:begin + LINES_AT_ONCE]))
        file.flush()
        os.fsync(file.fileno())  # Lines of months ago are on the disk; nobody waits for them to be written.


class AgedJob(Job):
    """Reads what is new only: all of it would be gigabytes."""
    begin = {}

    def folders(self):
        return glob.glob(f"{self.cluster.folder}/?/jobs/{self.name}")

    def files(self, name):
        return [path for path in (f"{folder}/{name}" for folder in self.folders()) if os.path.exists(path)]

    def look_from_here(self):
        self.begin = {path: os.path.getsize(path) for name in ("events.jsonl", "metrics.jsonl")
                      for path in self.files(name)}

    def events(self, kind=None):
        lines = []
        for path in self.files("events.jsonl"):
            with open(path, "rb") as file:
                file.seek(self.begin.get(path, 0))
                lines += [json.loads(line) for line in file if line.endswith(b"\n")]
        lines.sort(key=lambda line: line["unix_ns"])
        return [line for line in lines if kind in (None, line["kind"])]

    def said_step(self):
        return (self.key("progress") or {}).get("step", 0)

    def pauses(self):
        """Milliseconds without a commit, of each generation that has begun since."""
        return [event["pause_ms"] for event in self.events() if "pause_ms" in event]

    def grow_old(self):
        """Of a paused job."""
        newest = self.checkpoints()[-1]
        path = os.path.join(os.path.dirname(newest["path"]), f"step-{AGE:010}")
        shutil.copytree(newest["path"], path)
        sha256 = age_manifest(path + "/manifest.json", AGE)
        record = {**newest, "step": AGE, "path": path, "manifest_sha256": sha256}
        self.cluster.etcd.put(f"{self.root}checkpoints/{AGE:010}", record)
        for path in self.files("metrics.jsonl"):
            append(path, "step", range(newest["step"] + 1, AGE + 1))
        for path in self.files("events.jsonl"):
            first = self.events()[-1]["unix_ns"]
            append(path, "unix_ns", range(first + 1, first + 1 + EVENTS))


class Age(JobTest):
    def disturb(self, job):
        """Changes of layout, and deaths: (pauses of these, pauses of those) in milliseconds."""
        job.look_from_here()
        switches, deaths = [], []
        for turn in range(TURNS):
            for devices in (3, 4):
                switches += self.pauses_of(job, lambda devices=devices: job.ask(devices=devices), devices)
            deaths += self.pauses_of(job, lambda turn=turn: kill(job.rank_of(turn % 3)[1]), 4)[:1]
        return switches, deaths

    @staticmethod
    def pauses_of(job, strike, workers):
        known = len(job.pauses())
        strike()
        job.cluster.wait("another generation trains", lambda: len(job.pauses()) > known)
        job.wait_running(workers)
        reached = job.said_step()
        job.cluster.wait("it goes on", lambda: job.said_step() >= reached + 20)
        return job.pauses()[known:]

    def test_millions_of_steps(self):
        with Cluster(self.id(), nodes=2, slots=2) as cluster:
            job = AgedJob(cluster, train__steps=100 * AGE, elastic__freeze={"policy": "none"}).submit(devices=4)
            job.wait_running(4)
            cluster.wait("it has begun", lambda: job.said_step() > 50)
            young = self.disturb(job)
            job.ask(state="paused")
            job.wait_state("paused")
            job.grow_old()
            before = job.plan()["generation"]
            job.look_from_here()
            job.ask(state="running", devices=4)
            cluster.wait("it goes on", lambda: job.said_step() > AGE + 20)
            self.assertLessEqual(job.plan()["generation"] - before, 2 + SLACK)
            before = job.plan()["generation"]
            old = self.disturb(job)
            # A generation that is beginning is not given up for another one because it takes long.
            self.assertLessEqual(job.plan()["generation"] - before, 5 * TURNS + SLACK)
            lines = [json.loads(line) for path in job.files("metrics.jsonl")
                     for line in self.tail(path, job.begin.get(path, 0))]
            steps = sorted({line["step"] for line in lines})
            self.assertEqual(steps, list(range(steps[0], steps[-1] + 1)))
            for what, young_ms, old_ms in (("switches", young[0], old[0]), ("deaths", young[1], old[1])):
                young_ms, old_ms = statistics.median(young_ms), statistics.median(old_ms)
                print(f"{what}: the median pause is {young_ms:.0f} ms with hundreds of steps and {old_ms:.0f} ms "
                      f"with {AGE:,}: {old_ms / max(young_ms, 0.1):.2f} times as long")
            self.assertFalse([event for event in job.events() if "gone from the cluster" in event["text"]])
            job.ask(state="cancelled")
            job.wait_state("cancelled")
            self.read_all_of(job)

    def read_all_of(self, job):
        """firnctl tells of every step, in memory that does not grow with them."""
        said = job.said_step()  # at least: it is written now and then
        arguments = ["--endpoints", job.cluster.etcd.url, "--cluster", job.cluster.name]
        steps = 0
        with subprocess.Popen([BIN + "/firnctl", "metrics", job.name, "--exact", *arguments],
                              stdout=subprocess.PIPE, text=True) as metrics:
            for steps, line in enumerate(metrics.stdout, 1):
                self.assertEqual(int(line.split()[0]), steps)
        self.assertEqual(metrics.returncode, 0)
        self.assertGreaterEqual(steps, said)
        begin = time.monotonic()
        report = json.loads(subprocess.run([BIN + "/firnctl", "report", job.name, "--json", *arguments],
                                           stdout=subprocess.PIPE, check=True).stdout)
        self.assertEqual((report["first_step"], report["steps_committed"]), (1, steps))
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
        print(f"firnctl report of {steps:,} steps took {time.monotonic() - begin:.0f} s; at most {most} MiB")
        self.assertLess(most, READER_MIB)

    @staticmethod
    def tail(path, begin):
        with open(path, "rb") as file:
            file.seek(begin)
            return [line for line in file if line.endswith(b"\n")]


if __name__ == "__main__":
    unittest.main(verbosity=2)
