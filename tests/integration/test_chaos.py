#!/usr/bin/env python3
"""Random faults for a while, then equality, and how much of the time was put to use.

FIRN_SEED=n runs the same faults again, at their own times; FIRN_CHAOS_SECONDS and FIRN_CHAOS_RATE (faults a
minute) say how long and how many: `make chaos SEED=n MINUTES=m RATE=r`. FIRN_CHAOS_SHADOW=1 (SHADOW=1) gives
the job shadow state: three stages of as many replicas as there are slots for, often one.
"""
import contextlib
import os
import random
import time
import unittest

from chaos import DEVICES, Chaos
from cluster import PIPELINE, Cluster
from doom import DOOMED
from job import FREEZE_EVERY, Job, JobTest
from network import Network

SECONDS = float(os.environ.get("FIRN_CHAOS_SECONDS", "25"))
RATE = float(os.environ.get("FIRN_CHAOS_RATE", "60"))
SHADOW = os.environ.get("FIRN_CHAOS_SHADOW") == "1"
SETTLED_STEP = FREEZE_EVERY + 60  # nothing freezes after it, so steps last alike


class ChaosTest(JobTest):
    def steps_per_second(self, job, seconds):
        job.wait_running(DEVICES)
        began, first = time.monotonic(), job.step()
        job.cluster.wait("the undisturbed rate is measured",
                         lambda: time.monotonic() - began > seconds, seconds + 60)
        return (job.step() - first) / (time.monotonic() - began)

    def test_random_faults(self):
        seed = int(os.environ.get("FIRN_SEED") or random.randrange(10 ** 6))
        measured = max(2.0, SECONDS / 10)
        network = None
        with contextlib.suppress(unittest.SkipTest):
            network = Network()
        print(f"seed {seed}", flush=True)
        # Copies need memory: the stages are asked for instead of forced.
        flags, wishes = (DOOMED, {"stages": 3}) if SHADOW else (PIPELINE + DOOMED, {})
        with Cluster(f"{self.id()} with FIRN_SEED={seed}", flags=flags, network=network) as cluster:
            job = Job(cluster, elastic__shadow=SHADOW).submit(**wishes)
            job.wait_step(SETTLED_STEP)
            rates = [self.steps_per_second(job, measured)]
            chaos, began, first = Chaos(cluster, job, random.Random(seed)), time.monotonic(), job.step()
            chaos.disturb(SECONDS, RATE / 60)
            steps, seconds = job.step() - first, time.monotonic() - began
            job.ask(devices=DEVICES)
            cluster.wait_registered("a", "b", "c")
            rates.append(self.steps_per_second(job, measured))
            self.end(job)
        faults = ", ".join(f"{count} {name}" for name, count in sorted(chaos.count.items()))
        rate = sum(rates) / len(rates)
        print(f"{sum(chaos.count.values())} faults in {seconds:.0f} s ({faults}): {steps} steps committed, "
              f"goodput {steps / seconds / rate:.0%} of {rate:.0f} steps/s undisturbed "
              f"({', '.join(f'{each:.0f}' for each in rates)}), exact", flush=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
