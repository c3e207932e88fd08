#!/usr/bin/env python3
"""Random faults for a while, then equality, and how much of the time was put to use.

FIRN_SEED=n runs the same faults again, at their own times; FIRN_CHAOS_SECONDS and FIRN_CHAOS_RATE (faults a
minute) say how long and how many: `make chaos SEED=n MINUTES=m RATE=r`. What the cluster is like follows from
the seed, too, unless FIRN_CHAOS_WITH (WITH=) names it, of these:

    shadow      shadow state: three stages of as many replicas as there are slots for, often one
    disks       each node has a disk of its own, and checkpoints have two copies
    members     three members of etcd
    store       checkpoints go to an object store, too
    plain       none of these

FIRN_CHAOS_FAULTS (FAULTS=) draws from these faults alone, by their names in chaos.py.
"""
import contextlib
import filecmp
import os
import random
import shutil
import tempfile
import time
import unittest

from lib.chaos import DEVICES, Chaos
from lib.clock import Clock
from lib.cluster import PIPELINE, Cluster
from lib.doom import DOOMED
from lib.job import FREEZE_EVERY, Job, JobTest
from lib.network import Network
from lib.object_server import ObjectServer, installed
from lib.ports import Ports
from test_checkpoints import firnctl
from test_copies import SpreadJob

SECONDS = float(os.environ.get("FIRN_CHAOS_SECONDS", "25"))
RATE = float(os.environ.get("FIRN_CHAOS_RATE", "60"))
KINDS = ("shadow", "disks", "members", "store")  # at the end: what the others draw stays
SETTLED_STEP = FREEZE_EVERY + 60  # nothing freezes after it, so steps last alike


def kinds(seed):
    """What the cluster of that seed is like."""
    asked = os.environ.get("FIRN_CHAOS_WITH", "").split()
    numbers = random.Random(f"{seed}/kinds")
    drawn = [kind for kind in KINDS if numbers.random() < 0.4]
    if installed() != "swift":  # it has to keep its objects while it is down
        drawn = [kind for kind in drawn if kind != "store"]
    return [kind for kind in asked if kind != "plain"] if asked else drawn


class Store:
    """An object store for one cluster, with a bucket."""

    bucket = "chaos"

    def __init__(self, host):
        self.ports, self.folder = Ports(), tempfile.mkdtemp(prefix="firn-store-")
        self.server = ObjectServer(self.folder, self.ports, host)
        self.settings = self.server.settings(self.folder + "/object.conf")
        self.server.launch()

    def check(self, test, job):
        """The newest checkpoint comes there, and back as it was."""
        cluster, newest = job.cluster, job.checkpoints()[-1]
        cluster.wait("the newest checkpoint is in the store", lambda: any(
            record["state"] == "complete" and record["step"] == newest["step"] for record in job.objects()), 180)
        code, text = firnctl(cluster, "checkpoint", "fetch", job.name, "--object-store", self.settings,
                             self.folder + "/back")
        test.assertEqual(code, 0, text)
        names = os.listdir(self.folder + "/back")
        test.assertEqual(sorted(filecmp.cmpfiles(self.folder + "/back", job.whole(newest), names, shallow=False)[0]),
                         sorted(names))

    def close(self):
        self.server.kill()
        self.ports.close()
        shutil.rmtree(self.folder)


class ChaosTest(JobTest):
    def steps_per_second(self, job, seconds):
        job.wait_running(DEVICES)
        began, first = time.monotonic(), job.step()
        job.cluster.wait("the undisturbed rate is measured",
                         lambda: time.monotonic() - began > seconds, seconds + 60)
        return (job.step() - first) / (time.monotonic() - began)

    @staticmethod
    def submit(cluster, having, store):
        if store:
            cluster.wait("there is a bucket", lambda: store.server.make_bucket(store.bucket))
        job = (SpreadJob if "disks" in having else Job)(
            cluster, elastic__shadow="shadow" in having, checkpoint__copies=2 if "disks" in having else 1,
            checkpoint__object={"bucket": store.bucket, "keep": 3} if store else {})
        return job.submit(**({"stages": 3} if "shadow" in having else {}))

    def test_random_faults(self):
        seed = int(os.environ.get("FIRN_SEED") or random.randrange(10 ** 6))
        having, measured = kinds(seed), max(2.0, SECONDS / 10)
        network = None
        with contextlib.suppress(unittest.SkipTest):
            network = Network()
        print(f"seed {seed}: {', '.join(having) or 'plain'}", flush=True)
        # Copies of state need memory: the stages are asked for instead of forced.
        flags = DOOMED if "shadow" in having else PIPELINE + DOOMED
        with contextlib.ExitStack() as closing:
            clock, store = closing.enter_context(contextlib.closing(Clock())), None
            if "store" in having:
                store = closing.enter_context(contextlib.closing(Store(network.host if network else "127.0.0.1")))
                flags += ("--object-store", store.settings)
            cluster = closing.enter_context(Cluster(
                f"{self.id()} with FIRN_SEED={seed}", flags=flags, network=network, clock=clock,
                members=3 if "members" in having else 1, own_disks="disks" in having))
            job = self.submit(cluster, having, store)
            job.wait_step(SETTLED_STEP)
            rates = [self.steps_per_second(job, measured)]
            chaos = Chaos(cluster, job, seed, SECONDS, store.server if store else None)
            began, first = time.monotonic(), job.step()
            chaos.disturb(SECONDS, RATE / 60)
            steps, seconds = job.step() - first, time.monotonic() - began
            job.ask(devices=DEVICES)
            cluster.wait_registered("a", "b", "c")
            rates.append(self.steps_per_second(job, measured))
            self.end(job)
            if store:
                clock.step(0)  # a store takes no signature of another hour
                store.check(self, job)
        faults = ", ".join(f"{count} {name}" for name, count in sorted(chaos.count.items()))
        rate = sum(rates) / len(rates)
        print(f"{sum(chaos.count.values())} faults in {seconds:.0f} s ({faults}): {steps} steps committed, "
              f"goodput {steps / seconds / rate:.0%} of {rate:.0f} steps/s undisturbed "
              f"({', '.join(f'{each:.0f}' for each in rates)}), exact"
              f"{'; flipped bits in ' if chaos.rotten else ''}{', '.join(sorted(chaos.rotten))}", flush=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
