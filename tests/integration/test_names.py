#!/usr/bin/env python3
"""Names of jobs that are used again, and folders that are shared: nobody touches another one's checkpoints."""
import glob
import hashlib
import json
import os
import signal
import unittest

from lib.cluster import Cluster
from lib.job import Job, JobTest, make_spec
from test_checkpoints import firnctl

STEPS, EVERY, KEEP = 90, 20, 2


def digests(folder):
    """Of every file below @folder but marks that a checkpoint gets later, by path."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in set(names) - {"verified"}:
            with open(f"{place}/{name}", "rb") as file:
                found[os.path.join(place, name)] = hashlib.sha256(file.read()).hexdigest()
    return found


class Names(JobTest):
    def put(self, cluster, **changes):
        spec = make_spec(name="again", train__steps=STEPS, checkpoint={"every": EVERY, "keep": KEEP}, **changes)
        file = cluster.folder + "/job.yaml"
        with open(file, "w", encoding="utf-8") as out:
            json.dump(spec, out)
        self.expect(cluster, "job", "submit", file)

    def submit(self, cluster, **changes):
        self.put(cluster, **changes)
        job = Job(cluster, name="again", train__steps=STEPS)
        job.wait_completed()
        folder = self.folder_of(job)
        cluster.wait("retention has removed the older checkpoints", lambda: len(glob.glob(folder + "/step-*")) == KEEP)
        return job

    def expect(self, cluster, *words, status=0):
        code, text = firnctl(cluster, *words)
        self.assertEqual(code, status, text)
        return text

    @staticmethod
    def folder_of(job):
        return os.path.dirname(job.checkpoints()[-1]["path"])

    def test_a_removed_name_is_free(self):
        """Another seed under the same name completes, and what the first one left can be listed, read, removed."""
        with Cluster(self.id(), nodes=2, slots=1) as cluster:
            first = self.folder_of(self.submit(cluster))
            before = digests(first)
            self.assertIn(first, self.expect(cluster, "job", "remove", "again"))
            job = self.submit(cluster, train__seed=8)
            second = self.folder_of(job)
            self.assertNotEqual(first, second)
            self.assertEqual(digests(first), before)

            folders = json.loads(self.expect(cluster, "checkpoint", "list", cluster.checkpoints, "--json"))["folders"]
            self.assertEqual({folder["path"] for folder in folders}, {first, second})
            self.assertEqual({(folder["cluster"], folder["job"]) for folder in folders}, {(cluster.name, "again")})
            self.assertEqual([folder["steps"][0] for folder in folders], [STEPS, STEPS])
            for command in ("verify", "show"):
                self.expect(cluster, "checkpoint", command, first)
            self.expect(cluster, "checkpoint", "export", first, cluster.folder + "/exported")

            self.assertIn("is of job again", self.expect(cluster, "checkpoint", "remove", second, "--all", status=1))
            self.expect(cluster, "checkpoint", "remove", first, "--all")
            self.assertFalse(os.path.exists(first))
            self.expect(cluster, "checkpoint", "verify", "again")
            self.expect(cluster, "job", "remove", "again", "--purge")
            self.assertFalse(os.path.exists(second))

    def test_a_name_is_taken_again_while_a_node_does_not_look(self):
        """The node hears of both at once, and must not run the job that it knows."""
        with Cluster(self.id(), nodes=1, slots=1) as cluster:
            node = cluster.nodes["a"]
            first = self.submit(cluster).exact()
            node.process.send_signal(signal.SIGSTOP)
            self.expect(cluster, "job", "remove", "again")
            self.put(cluster, train__seed=8)
            node.process.send_signal(signal.SIGCONT)
            job = Job(cluster, name="again", train__steps=STEPS)
            job.wait_completed()
            with open(f"{node.data}/jobs/again/spec.json", encoding="utf-8") as file:
                self.assertEqual(json.load(file)["train"]["seed"], 8)
            self.assertEqual(len(job.exact()), STEPS)
            self.assertNotEqual(job.exact()[0], first[0])

    def test_a_name_is_taken_again_while_a_node_is_away(self):
        """A worker of the removed job still trains when the node's firnd comes back: it ends."""
        with Cluster(self.id(), nodes=1, slots=1) as cluster:
            node = cluster.nodes["a"]
            before = Job(cluster, name="again").submit()
            before.wait_step(3)
            workers = node.workers()
            node.kill_daemon()
            cluster.etcd.delete_below(before.root)
            cluster.etcd.delete_below(before.said)
            job = Job(cluster, name="again", train__steps=STEPS, train__seed=8).submit()
            node.launch()
            job.wait_completed()
            self.assertEqual(len(job.exact()), STEPS)
            cluster.wait("the worker of the job before ends", lambda: not set(workers) & set(node.workers()))

    def test_what_a_half_removed_job_left_is_not_taken(self):
        """Of the job before, all keys but the specification are there: the new job begins with step 1."""
        with Cluster(self.id(), nodes=1, slots=1) as cluster:
            before = self.submit(cluster)
            folder, lines = self.folder_of(before), before.exact()
            cluster.etcd.delete(before.root + "spec")
            self.assertTrue(before.checkpoints())
            job = self.submit(cluster, train__seed=8)
            self.assertNotIn(folder, {os.path.dirname(record["path"]) for record in job.checkpoints()})
            self.assertEqual(len(job.exact()), STEPS)
            self.assertNotEqual(job.exact()[0], lines[0])

    def test_two_clusters_share_a_folder(self):
        with Cluster(self.id(), nodes=1, slots=1) as one, Cluster(self.id(), nodes=1, slots=1) as other:
            other.checkpoints = one.checkpoints
            for node in other.nodes.values():
                node.terminate()
                other.wait("it has left", lambda node=node: node.process.poll() is not None)
                node.checkpoints = one.checkpoints
                node.launch()
            first = self.folder_of(self.submit(one))
            before = digests(first)
            second = self.folder_of(self.submit(other, train__seed=8))
            self.assertEqual(os.path.dirname(first), os.path.dirname(second))
            self.assertEqual(digests(first), before)
            self.assertIn(f"cluster {one.name}", self.expect(other, "checkpoint", "remove", first, "--all", status=1))
            self.expect(one, "checkpoint", "verify", "again")


if __name__ == "__main__":
    unittest.main()
