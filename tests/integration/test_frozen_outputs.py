#!/usr/bin/env python3
"""Kept outputs of frozen layers: loaded from the second epoch on, and never another bit."""
import glob
import os
import re
import shutil
import unittest

from lib.cluster import Cluster, kill
from lib.job import Job, JobTest

STEPS = 3000
SAMPLES = 256  # 12 a step: an epoch takes 22 steps
FREEZES = {"policy": "schedule", "alpha": 0.34, "every": 800, "from_start": 1}


def wishes(path, cache_mb, **others):
    freeze = {**FREEZES, "cache_mb": cache_mb, **others.pop("freeze", {})}
    return {"data__path": path, "train__steps": STEPS, "elastic__freeze": freeze, **others}


class FrozenOutputs(JobTest):
    undisturbed = None

    def data(self, cluster):
        path = cluster.folder + "/data"
        with open(path, "wb") as file:
            file.write(bytes(97 + (i * i // 7 + i) % 23 for i in range(SAMPLES * 32 + 1)))
        return path

    def alone(self):
        """The run that keeps nothing: exact lines and digests."""
        if not FrozenOutputs.undisturbed:
            with Cluster("a run that keeps nothing", nodes=1, slots=1) as cluster:
                job = Job(cluster, **wishes(self.data(cluster), 0)).submit()
                job.wait_completed()
                self.assertEqual(self.loaded(job), (0, 0))
                self.assertEqual(self.files(job), [])
                FrozenOutputs.undisturbed = job.exact(), job.digests()
        return FrozenOutputs.undisturbed

    @staticmethod
    def files(job):
        return glob.glob(f"{job.cluster.folder}/?/jobs/{job.name}/frozen/*")

    @staticmethod
    def loaded(job):
        """Samples that were loaded and computed, in all lines."""
        lines = [line for _, line in job.lines()]
        return (sum(line.get("frozen_loaded", 0) for line in lines),
                sum(line.get("frozen_computed", 0) for line in lines))

    def assert_equal(self, job):
        lines, digests = self.alone()
        self.assertEqual(job.exact(), lines)
        shared = digests.keys() & job.digests().keys()
        self.assertIn(STEPS, shared)
        for step in shared:
            self.assertEqual(job.digests()[step], digests[step])

    def test_later_epochs_load(self):
        """On one node: all but the first epoch after each freeze, and nothing is left at the end."""
        with Cluster(self.id(), nodes=1, slots=2) as cluster:
            job = Job(cluster, **wishes(self.data(cluster), 100)).submit()
            job.wait_step(40)
            self.assertEqual(len(self.files(job)), 1)
            job.wait_completed()
            loaded, computed = self.loaded(job)
            self.assertGreater(loaded, 2 * computed)
            self.assertEqual(self.files(job), [])
            self.assert_equal(job)

    def test_layers_that_thaw(self):
        """Outputs from before a thaw are never loaded after it, though as many layers are frozen again."""
        def run(cluster, cache_mb):
            others = {"train__optimizer": {"lr": 0.01, "warmup": 20, "schedule": "constant"}, "model__tied": False,
                      "evaluate": {"every": 10, "batches": 2}}
            freeze = {"policy": "schedule", "alpha": 0.5, "every": 60, "from_start": 0, "thaw": 0.01}
            job = Job(cluster, **{**wishes(self.data(cluster), cache_mb, freeze=freeze), **others,
                                  "train__steps": 600}).submit()
            job.wait_completed()
            return job

        with Cluster(self.id(), nodes=1, slots=1) as cluster:
            without = run(cluster, 0).exact()
        with Cluster(self.id(), nodes=2, slots=1) as cluster:
            job = run(cluster, 100)
            lines = [line for _, line in job.lines()]
            thawed = [line["step"] for before, line in zip(lines, lines[1:])
                      if line["frozen_layers"] < before["frozen_layers"]]
            loads = [line["step"] for line in lines if line.get("frozen_loaded")]
            self.assertTrue(any(min(loads) < step < max(loads) for step in thawed), (thawed, loads[:1], loads[-1:]))
            self.assertEqual(job.exact(), without)

    def test_too_little_room(self):
        """For some samples there is none: these are computed in every epoch."""
        with Cluster(self.id(), nodes=1, slots=1) as cluster:
            job = Job(cluster, **wishes(self.data(cluster), 1)).submit()  # 8 KiB a sample, two files
            job.wait_completed()
            loaded, computed = self.loaded(job)
            self.assertGreater(loaded, SAMPLES)
            self.assertGreater(computed, loaded)
            self.assert_equal(job)

    def test_other_nodes_outputs_are_fetched(self):
        """In the second epoch half of a node's samples were computed by the other node in the first. Some of its
        files are damaged, and it dies: the bits are those of a run that keeps nothing."""
        samples, steps = 330, 160  # 8 a step: an epoch takes 41 steps

        def run(cluster, cache_mb, disturb):
            path = cluster.folder + "/data"
            with open(path, "wb") as file:
                file.write(bytes(97 + (i * i // 7 + i) % 23 for i in range(samples * 64 + 1)))
            job = Job(cluster, data={"format": "bytes", "path": path, "validation": 0.0}, train__steps=steps,
                      evaluate={"every": 0}, model__width=256, model__context=64, train__lanes=4,
                      train__micro_batch=2,
                      elastic__freeze={"policy": "none", "from_start": 3, "cache_mb": cache_mb}).submit()
            if disturb:
                job.wait_step(90)
                for path in glob.glob(f"{cluster.folder}/b/jobs/{job.name}/frozen/*"):
                    self.damage(path, 65536)
                kill(job.rank_of(1)[1])
            job.wait_completed()
            return job

        with Cluster(self.id() + ": nothing is kept", nodes=1, slots=1) as cluster:
            without = run(cluster, 0, False)
            exact, digests = without.exact(), without.digests()
        with Cluster(self.id(), nodes=2, slots=1) as cluster:
            job = run(cluster, 100, True)
            self.assertGreater(self.fetched(job), 0)  # how many depends on how fast the machine is
            self.assertEqual(job.exact(), exact)
            self.assertEqual(job.digests()[steps], digests[steps])

    @staticmethod
    def fetched(job):
        """Outputs that came from other nodes, as the workers' logs say."""
        count = 0
        for path in glob.glob(f"{job.cluster.folder}/?/jobs/{job.name}/worker-*.log"):
            with open(path, encoding="utf-8") as log:
                count += sum(map(int, re.findall(r"(\d+) outputs of frozen layers came from other nodes", log.read())))
        return count

    @staticmethod
    def damage(path, every):
        with open(path, "r+b") as file:
            for place in range(4096 + 700, os.path.getsize(path), every):
                file.seek(place)
                byte = file.read(1)
                file.seek(place)
                file.write(bytes([byte[0] ^ 64]))

    def test_kills_damage_and_loss(self):
        """Workers and nodes die, layouts change; files are damaged, emptied and removed under way."""
        with Cluster(self.id(), nodes=2, slots=2) as cluster:
            job = Job(cluster, **wishes(self.data(cluster), 100)).submit()
            job.wait_step(40)
            kill(job.rank_of(1)[1])
            job.wait_step(job.step() + 20)
            cluster.note("every second block of the kept outputs is damaged")
            for path in self.files(job):
                self.damage(path, 8192)
            job.wait_step(job.step() + 30)
            job.ask(stages=2, replicas=1)
            job.wait_running(2)
            cluster.note("the kept outputs are emptied")
            for path in self.files(job):
                os.truncate(path, 0)
            job.wait_step(job.step() + 20)
            job.ask(stages=0, replicas=0)
            job.wait_running(4)
            cluster.note("the kept outputs are removed")
            for path in glob.glob(f"{cluster.folder}/?/jobs/{job.name}/frozen"):
                shutil.rmtree(path, ignore_errors=True)
            victim = cluster.nodes["b"]
            victim.kill()
            job.wait_step(job.step() + 20)
            victim.launch()
            self.assertLess(job.step(), STEPS, "it was over before all that")
            job.wait_completed()
            self.assertGreater(self.loaded(job)[0], 0)
            self.assert_equal(job)

    def test_a_pause_keeps_them_and_a_cancel_removes_them(self):
        with Cluster(self.id(), nodes=1, slots=1) as cluster:
            freeze = {"policy": "none", "from_start": 3}
            job = Job(cluster, **wishes(self.data(cluster), 100, freeze=freeze, train__steps=10 ** 6)).submit()
            job.wait_step(60)
            job.ask(state="paused")
            job.wait_state("paused")
            kept, paused_at = self.files(job), job.step()
            self.assertEqual(len(kept), 1)
            job.ask(state="running")
            job.wait_step(paused_at + 40)
            self.assertEqual(self.files(job), kept)
            after = [line for _, line in job.lines() if paused_at + 10 < line["step"] <= paused_at + 40]
            self.assertEqual(sum(line["frozen_computed"] for line in after), 0)
            cluster.note("firnd starts again, beside the folder of a job that has gone meanwhile")
            node = cluster.nodes["a"]
            node.kill_daemon()
            ghost = f"{cluster.folder}/a/jobs/ghost/frozen"
            os.makedirs(ghost)
            with open(ghost + "/outputs-0", "wb") as file:
                file.truncate(1 << 20)
            node.launch()
            cluster.wait("firnd has removed what nobody uses", lambda: not os.path.exists(ghost))
            job.wait_step(job.step() + 20)
            self.assertEqual(self.files(job), kept)
            job.ask(state="cancelled")
            job.wait_state("cancelled")
            cluster.wait("firnd has removed the kept outputs", lambda: not os.path.exists(os.path.dirname(kept[0])))


if __name__ == "__main__":
    unittest.main(verbosity=2)
