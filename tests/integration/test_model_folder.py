#!/usr/bin/env python3
"""Jobs whose model.from cannot be read: they fail with one reason, and soon; or go on where it can be."""
import os
import shutil
import unittest

from lib import model_folder
from lib.cluster import Cluster
from lib.job import Job, JobTest

STEPS = 60
# Root reads everything but for these two capabilities.
WITHOUT_PRIVILEGES = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
SOMEBODY_ELSE = 12345


def truncate(folder):
    path = folder + "/model.safetensors"
    os.truncate(path, os.path.getsize(path) // 2)
    return "model.safetensors"


def damage_header(folder):
    with open(folder + "/model.safetensors", "r+b") as file:
        file.seek(8)
        file.write(b"no JSON, surely")
    return "model.safetensors"


def delete(folder):
    os.remove(folder + "/model.safetensors")
    return "model.safetensors: No such file"


def widen(folder):
    model_folder.write_config(folder, n_embd=64)
    return "model.width"


def lock(folder):
    path = folder + "/model.safetensors"
    os.chmod(path, 0o600)
    os.chown(path, SOMEBODY_ELSE, SOMEBODY_ELSE)
    return "firnd's user may not read it"


class ModelFolder(JobTest):
    def make_job(self, cluster, name, **changes):
        return Job(cluster, name=name, train__steps=STEPS, model__from=f"{cluster.folder}/models/{name}",
                   model__norm_epsilon=1e-5, **changes)

    def assert_failed(self, job, word):
        job.wait_state("failed")
        self.assertIn(word, job.why())
        self.assertIn(job.spec["model"]["from"], job.why())
        self.assertLessEqual(job.plan()["generation"], 4, "it was not tried again and again")
        self.assertEqual(len(job.events("state")), 1, "the end is told once")

    def test_nobody_can_read_it(self):
        cluster = Cluster(self.id(), nodes=2, slots=1)
        for node in cluster.nodes.values():
            if os.geteuid() == 0:
                node.wrapper = WITHOUT_PRIVILEGES
        with cluster:
            jobs = {}
            for damage in (truncate, damage_header, delete, widen, lock):
                if damage is lock and os.geteuid() != 0:
                    continue  # nobody else's file can be made
                name = damage.__name__.replace("_", "-")
                folder = f"{cluster.folder}/models/{name}"
                model_folder.write(folder)
                jobs[name] = damage(folder)
                job = self.make_job(cluster, name).submit()
                self.assert_failed(job, jobs[name])
            good = f"{cluster.folder}/models/good"
            model_folder.write(good)
            job = self.make_job(cluster, "good").submit()
            job.wait_completed()

    def test_fine_tuned_with_layers_frozen_from_the_start(self):
        """All begins with the folder's values, the untied head too; what is frozen still has them at the end."""
        with Cluster(self.id(), nodes=2, slots=1) as cluster:
            jobs = []
            for name, frozen in (("whole", 0), ("upper", 2)):
                model_folder.write(f"{cluster.folder}/models/{name}")
                jobs.append(self.make_job(cluster, name, elastic__freeze={"policy": "none", "from_start": frozen}).submit())
                jobs[-1].wait_completed()
            whole, upper = (job.exact() for job in jobs)
            self.assertEqual(whole[0].split()[1], upper[0].split()[1])
            self.assertNotEqual(whole[-1].split()[1], upper[-1].split()[1])
            begun = model_folder.read(f"{cluster.folder}/models/upper")
            ended = model_folder.read(jobs[1].whole(jobs[1].checkpoints()[-1]))
            same = {name for name, values in begun.items() if ended.get(name) == values}
            self.assertEqual(same, {name for name in begun if name.startswith(("wte", "wpe", "h.0.", "h.1."))})

    def test_one_node_can_read_it(self):
        """The other says why it takes no part, until an operator has mended it."""
        cluster = Cluster(self.id(), nodes=2, slots=1)
        for node in cluster.nodes.values():
            node.home = f"{cluster.folder}/home-{node.name}"
            model_folder.write(node.home + "/model")
        delete(cluster.nodes["b"].home + "/model")
        with cluster:
            job = Job(cluster, name="half", model__from="/proc/self/cwd/model", model__norm_epsilon=1e-5).submit()
            job.wait_step(10)
            self.assertEqual({worker["node"] for worker in job.team()}, {"a"})
            told = cluster.wait("b says why it takes no part", lambda: job.events("refused"))
            self.assertEqual({event["node"] for event in told}, {"b"})
            self.assertIn("No such file", told[0]["text"])
            shutil.copy(cluster.nodes["a"].home + "/model/model.safetensors", cluster.nodes["b"].home + "/model")
            cluster.etcd.put(f"/firn/v1/{cluster.name}/excused/b", {})
            job.wait_running(2)


if __name__ == "__main__":
    unittest.main()
