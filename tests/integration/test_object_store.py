#!/usr/bin/env python3
"""Checkpoints go to a real S3 server and come back: through an outage, damage, and the loss of all others."""
import contextlib
import filecmp
import json
import os
import shutil
import tempfile
import unittest

from lib.cluster import Cluster, tail
from lib.job import CHECKPOINT_EVERY, Job, JobTest, SPEC, make_spec
from lib.object_server import ObjectServer, installed
from lib.ports import Ports
from test_checkpoints import firnctl
from test_copies import SpreadJob, spread_cluster

KEEP = 2


@unittest.skipUnless(installed(), "no S3 server: Debian's python3-swift (cmake/packages-test.txt), or moto[server] "
                                  "of PyPI")
class ObjectStore(JobTest):
    """One S3 server for all tests, which takes seconds to come up; each has a bucket of its own."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ports, cls.folder = Ports(), tempfile.mkdtemp(prefix="firn-store-")
        cls.addClassCleanup(cls.ports.close)
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.server = ObjectServer(cls.folder, cls.ports)
        cls.addClassCleanup(cls.server.kill)
        cls.server.launch()

    @contextlib.contextmanager
    def cluster(self, make=Cluster):
        """A cluster whose nodes know the server, and the bucket."""
        with make(self.id()) as cluster:
            self.bucket = os.path.basename(cluster.folder).replace("_", "-")
            cluster.store = self.server.settings(cluster.folder + "/object.conf", prefix="team/a")
            for node in cluster.nodes.values():
                node.kill_daemon()
                node.flags = (*node.flags, "--object-store", cluster.store)
            cluster.launch()
            cluster.wait("there is a bucket", lambda: self.server.make_bucket(self.bucket))
            yield cluster

    def make_job(self, cluster, kind=Job, copies=1):
        checkpoint = {**SPEC["checkpoint"], "copies": copies, "object": {"bucket": self.bucket, "keep": KEEP}}
        return kind(cluster, checkpoint=checkpoint).submit()

    def complete(self, job, beyond=0):
        """The newest that is complete in the store and later than @beyond."""
        return job.cluster.wait(f"a checkpoint after step {beyond} is in the store", lambda: next(
            (record for record in reversed(job.objects())
             if record["state"] == "complete" and record["step"] > beyond), None))

    def pause(self, job):
        job.ask(state="paused")
        job.wait_state("paused")

    def test_goes_comes_back_and_damage_is_found(self):
        with self.cluster() as cluster:
            job = self.make_job(cluster)
            self.complete(job)
            job.wait_step(5 * CHECKPOINT_EVERY)
            self.pause(job)
            newest = job.checkpoints()[-1]
            cluster.wait("the newest is in the store", lambda: any(
                record["state"] == "complete" and record["step"] == newest["step"] for record in job.objects()))
            folders = {key.rsplit("/", 1)[0] for key in self.server.keys(self.bucket)}
            self.assertLessEqual(len(folders), KEEP)
            self.assertTrue(all(folder.startswith("team/a/job/step-") for folder in folders), folders)

            code, text = firnctl(cluster, "checkpoint", "list", job.name)
            self.assertEqual(code, 0)
            self.assertIn("local, object", text)

            fetch = ("checkpoint", "fetch", job.name, "--object-store", cluster.store)
            back = cluster.folder + "/back"
            code, text = firnctl(cluster, *fetch, back)
            self.assertEqual(code, 0, text)
            names = sorted(os.listdir(back))
            self.assertEqual(filecmp.cmpfiles(back, newest["path"], names, shallow=False)[0], names)
            self.assertEqual(firnctl(cluster, "checkpoint", "verify", back)[0], 0)

            wrong = self.server.settings(cluster.folder + "/wrong.conf", prefix="team/a", secret_key="wrong")
            code, text = firnctl(cluster, *fetch[:-1], wrong, cluster.folder + "/denied")
            if installed() == "swift":  # moto lets everybody in
                self.assertEqual(code, 1)
                self.assertIn("SignatureDoesNotMatch", text)

            key = next(key for key in self.server.keys(self.bucket)
                       if f"step-{newest['step']:010}-" in key and "optimizer-" in key)
            self.server.flip(self.bucket, key, 5000)
            code, text = firnctl(cluster, *fetch, cluster.folder + "/damaged")
            self.assertEqual(code, 1)
            self.assertIn(os.path.basename(key), text)
            self.assertFalse(os.path.exists(cluster.folder + "/damaged"))
            self.assertNotIn(self.server.secret, json.dumps(job.events()) + text)
            self.assert_exact(job)

    def submit(self, cluster, seed):
        """By firnctl, which gives the submission an ID; completes, and the end of it is in the store."""
        spec = make_spec(train__steps=90, train__seed=seed,
                         checkpoint={"every": 20, "keep": 2, "object": {"bucket": self.bucket, "keep": 1}})
        with open(cluster.folder + "/job.yaml", "w", encoding="utf-8") as file:
            json.dump(spec, file)
        code, text = firnctl(cluster, "job", "submit", file.name)
        self.assertEqual(code, 0, text)
        job = Job(cluster)
        job.wait_completed()
        cluster.wait("the last one is in the store", lambda: any(
            record["state"] == "complete" and record["step"] == 90 for record in job.objects()))
        return os.path.basename(os.path.dirname(job.checkpoints()[-1]["path"]))

    def test_a_job_of_a_removed_name_leaves_what_the_first_one_has_put(self):
        with self.cluster() as cluster:
            first = self.submit(cluster, 7)
            before = set(self.server.keys(self.bucket))
            self.assertEqual({key.split("/")[2] for key in before}, {first})
            code, text = firnctl(cluster, "job", "remove", "job", "--purge")
            self.assertEqual(code, 0, text)
            second = self.submit(cluster, 8)
            after = set(self.server.keys(self.bucket))
            self.assertEqual({key for key in after if key.split("/")[2] == first}, before)
            self.assertEqual({key.split("/")[2] for key in after}, {first, second})
            digests = set()
            for number, words in enumerate((["job"], [first, "--bucket", self.bucket])):
                back = f"{cluster.folder}/back-{number}"
                code, text = firnctl(cluster, "checkpoint", "fetch", words[0], back, *words[1:],
                                     "--object-store", cluster.store)
                self.assertEqual(code, 0, text)
                code, text = firnctl(cluster, "checkpoint", "show", back, "--json")
                digests.add(json.loads(text)["state_digest"])
            self.assertEqual(len(digests), 2, "two runs")

    def test_a_bucket_that_is_not_there_is_told_at_the_start(self):
        """Before there is a checkpoint to send, by the node that will send it; and the job trains."""
        with self.cluster() as cluster:
            job = Job(cluster, checkpoint={"every": 10 ** 6, "object": {"bucket": "nowhere", "keep": KEEP}}).submit()
            said = cluster.wait("what is wrong is told", lambda: job.events("checkpoint"))
            self.assertEqual(len(said), 1, said)
            self.assertIn("this node cannot upload checkpoints to the object store", said[0]["text"])
            self.assertIn("NoSuchBucket", said[0]["text"])
            job.wait_step(20)
            self.assertEqual(said[0]["node"], job.team()[0]["node"])

    @unittest.skipUnless(installed() == "swift", "the store must keep its objects while it is down")
    def test_an_outage_delays_nothing_but_uploads(self):
        with self.cluster() as cluster:
            job = self.make_job(cluster)
            before = self.complete(job)["step"]
            self.server.kill()
            cluster.note("the store is down")
            committed = job.checkpoints()[-1]["step"]
            cluster.wait("checkpoints are committed without the store",
                         lambda: job.checkpoints()[-1]["step"] >= committed + 2 * CHECKPOINT_EVERY)
            said = cluster.wait("firn says what is wrong", lambda: next(
                (record for record in job.objects() if record["text"]), None))
            self.assertIn("127.0.0.1", said["text"])
            self.server.launch()
            cluster.wait("the store answers again", self.server.answers)
            self.complete(job, beyond=max(before, committed))
            self.end(job)

    def test_the_last_way_back(self):
        """All checkpoints of its own are gone, memory too: the job goes on from the object store's."""
        with self.cluster() as cluster:
            job = self.make_job(cluster)
            self.complete(job)
            self.pause(job)
            newest = job.checkpoints()[-1]
            cluster.wait("the newest is in the store", lambda: any(
                record["state"] == "complete" and record["step"] == newest["step"] for record in job.objects()))
            cluster.wait("its workers are gone", lambda: not any(node.workers() for node in cluster.nodes.values()))
            for record in job.checkpoints():
                shutil.rmtree(record["path"])
            job.ask(state="running")
            job.wait_step(newest["step"] + CHECKPOINT_EVERY)
            said = [event["text"] for event in job.events("checkpoint") if "fetched the checkpoint" in event["text"]]
            self.assertEqual(len(said), 1, said)
            plans = [event["text"] for event in job.events("plan")]
            self.assertTrue(any(f"from the checkpoint of step {newest['step']}" in plan for plan in plans), plans)
            self.end(job)

    def test_with_copies_each_node_sends_its_share(self):
        """And when all nodes have lost the newest checkpoint it comes back, although they have older ones."""
        with self.cluster(spread_cluster) as cluster:
            job = self.make_job(cluster, SpreadJob, copies=2)
            job.wait_running(3)
            self.complete(job)
            self.pause(job)
            newest = job.checkpoints()[-1]
            cluster.wait("the newest is in the store", lambda: any(
                record["state"] == "complete" and record["step"] == newest["step"] for record in job.objects()))
            senders = [record["node"] for record in job.objects()]
            cluster.wait("the other nodes have sent their parts", lambda: all(
                "this node's part of the checkpoint" in tail(node.log, 1000)
                for node in cluster.nodes.values() if node.name not in senders))
            cluster.wait("its workers are gone", lambda: not any(node.workers() for node in cluster.nodes.values()))
            self.assertGreater(len(job.checkpoints()), 1)  # older ones stay
            for folder in job.folders(newest["step"]).values():
                shutil.rmtree(folder)
            job.ask(state="running")
            job.wait_step(newest["step"] + CHECKPOINT_EVERY)
            plans = [event["text"] for event in job.events("plan") if "from the checkpoint" in event["text"]]
            self.assertIn(f"from the checkpoint of step {newest['step']}", plans[-1])
            self.assertTrue(any("fetched the checkpoint" in event["text"] for event in job.events("checkpoint")))
            self.end(job)


if __name__ == "__main__":
    unittest.main(verbosity=2)
