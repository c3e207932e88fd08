#!/usr/bin/env python3
"""Checkpoints go to a real S3 server and come back: through an outage, damage, and the loss of all others."""
import contextlib
import filecmp
import json
import os
import shutil
import unittest

from cluster import Cluster, tail
from job import CHECKPOINT_EVERY, Job, JobTest, SPEC
from object_server import ObjectServer, installed
from test_checkpoints import firnctl
from test_copies import SpreadJob, spread_cluster

BUCKET = "firn-test"
KEEP = 2


@contextlib.contextmanager
def store_and_cluster(test, make=Cluster, **more):
    """An S3 server with a bucket, and a cluster whose nodes know it."""
    with make(test.id()) as cluster:
        server = ObjectServer(cluster.folder, cluster.ports)
        cluster.store = server.settings(cluster.folder + "/object.conf", prefix="team/a", **more)
        try:
            server.launch()
            cluster.wait("the store answers", server.answers)
            server.make_bucket(BUCKET)
            for node in cluster.nodes.values():
                node.kill_daemon()
                node.flags = (*node.flags, "--object-store", cluster.store)
            cluster.launch()
            yield server, cluster
        finally:
            server.kill()


def make_job(cluster, kind=Job, copies=1):
    checkpoint = {**SPEC["checkpoint"], "copies": copies, "object": {"bucket": BUCKET, "keep": KEEP}}
    return kind(cluster, checkpoint=checkpoint).submit()


@unittest.skipUnless(installed(), "no S3 server: Debian's swift-proxy, swift-account, swift-container and "
                                  "swift-object, or moto[server] of PyPI")
class ObjectStore(JobTest):
    def complete(self, job, beyond=0):
        """The newest that is complete in the store and later than @beyond."""
        return job.cluster.wait(f"a checkpoint after step {beyond} is in the store", lambda: next(
            (record for record in reversed(job.objects())
             if record["state"] == "complete" and record["step"] > beyond), None))

    def pause(self, job):
        job.ask(state="paused")
        job.wait_state("paused")

    def test_goes_comes_back_and_damage_is_found(self):
        with store_and_cluster(self) as (server, cluster):
            job = make_job(cluster)
            self.complete(job)
            job.wait_step(5 * CHECKPOINT_EVERY)
            self.pause(job)
            newest = job.checkpoints()[-1]
            cluster.wait("the newest is in the store", lambda: any(
                record["state"] == "complete" and record["step"] == newest["step"] for record in job.objects()))
            folders = {key.rsplit("/", 1)[0] for key in server.keys(BUCKET)}
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

            key = next(key for key in server.keys(BUCKET) if f"step-{newest['step']:010}-" in key and "optimizer-" in key)
            server.flip(BUCKET, key, 5000)
            code, text = firnctl(cluster, *fetch, cluster.folder + "/damaged")
            self.assertEqual(code, 1)
            self.assertIn(os.path.basename(key), text)
            self.assertFalse(os.path.exists(cluster.folder + "/damaged"))
            self.assertNotIn(server.secret, json.dumps(job.events()) + text)
            self.assert_exact(job)

    @unittest.skipUnless(installed() == "swift", "the store must keep its objects while it is down")
    def test_an_outage_delays_nothing_but_uploads(self):
        with store_and_cluster(self) as (server, cluster):
            job = make_job(cluster)
            before = self.complete(job)["step"]
            server.kill()
            cluster.note("the store is down")
            committed = job.checkpoints()[-1]["step"]
            cluster.wait("checkpoints are committed without the store",
                         lambda: job.checkpoints()[-1]["step"] >= committed + 2 * CHECKPOINT_EVERY)
            said = cluster.wait("firn says what is wrong", lambda: next(
                (record for record in job.objects() if record["text"]), None))
            self.assertIn("127.0.0.1", said["text"])
            server.launch()
            cluster.wait("the store answers again", server.answers)
            self.complete(job, beyond=max(before, committed))
            self.end(job)

    def test_the_last_way_back(self):
        """All checkpoints of its own are gone, memory too: the job goes on from the object store's."""
        with store_and_cluster(self) as (_, cluster):
            job = make_job(cluster)
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
            said = [event["text"] for event in job.events("checkpoint") if "came back" in event["text"]]
            self.assertEqual(len(said), 1, said)
            plans = [event["text"] for event in job.events("plan")]
            self.assertTrue(any(f"from the checkpoint of step {newest['step']}" in plan for plan in plans), plans)
            self.end(job)

    def test_with_copies_each_node_sends_its_share(self):
        """And when all nodes have lost the newest checkpoint it comes back, although they have older ones."""
        with store_and_cluster(self, make=spread_cluster) as (_, cluster):
            job = make_job(cluster, SpreadJob, copies=2)
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
            self.assertTrue(any("came back" in event["text"] for event in job.events("checkpoint")))
            self.end(job)

    @unittest.skipUnless(installed() == "swift", "one real server is enough")
    def test_a_wrong_key_is_said(self):
        with store_and_cluster(self) as (server, cluster):
            server.secret = "wrong"
            server.settings(cluster.store)
            job = make_job(cluster)
            said = cluster.wait("firn says what is wrong", lambda: next(
                (record for record in job.objects() if record["state"] == "failed"), None))
            self.assertIn("SignatureDoesNotMatch", said["text"])
            self.end(job)


if __name__ == "__main__":
    unittest.main(verbosity=2)
