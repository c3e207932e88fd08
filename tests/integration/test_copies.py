#!/usr/bin/env python3
"""checkpoint.copies: each node has a folder of its own, and a node is lost together with it."""
import errno
import glob
import hashlib
import json
import os
import shutil
import time
import unittest

from lib.cluster import PIPELINE, Cluster
from lib.doom import DOOMED, ReceiptFault
from lib.job import CHECKPOINT_EVERY, Job, JobTest
from test_checkpoints import firnctl
from test_input import Tmpfs


def spread_cluster(purpose, nodes=3, flags=()):
    """One slot a node, so that a lost node is a lost stage, and no folder that two of them share."""
    return Cluster(purpose, nodes=nodes, slots=1, flags=flags, own_disks=True)


class SpreadJob(Job):
    def folders(self, step):
        """node -> its folder of that checkpoint, where it has one."""
        paths = glob.glob(f"{self.cluster.folder}/?/checkpoints/{self.name}/step-{step:010}")
        return {path.split("/")[-4]: path for path in paths}

    def digests(self):
        digests = {}
        for record in self.checkpoints():
            for folder in self.folders(record["step"]).values():
                with open(folder + "/manifest.json", "rb") as file:
                    text = file.read()
                if hashlib.sha256(text).hexdigest() == record["manifest_sha256"]:
                    digests[record["step"]] = json.loads(text)["state_digest"]
        return digests

    def whole(self, record):
        """Every node has a part: copied into one folder they are the checkpoint."""
        together = f"{self.cluster.folder}/together-{record['step']}"
        for folder in self.folders(record["step"]).values():
            shutil.copytree(folder, together, dirs_exist_ok=True)
        return together

    def wait_copies(self, copies, after=0):
        """The newest checkpoint later than @after, when it has so many copies."""
        def found():
            records = self.checkpoints()
            if not records or records[-1]["step"] <= after:
                return None
            return records[-1] if all(len(share) == copies for share in records[-1]["shares"]) else None
        return self.cluster.wait(f"a checkpoint after step {after} has {copies} copies", found)


def lose(cluster, name):
    """The node and its disk: what other nodes have is all that is left."""
    node = cluster.nodes[name]
    node.kill()
    shutil.rmtree(node.checkpoints)
    cluster.note(f"the checkpoints of node {name} are gone")


class Copies(JobTest):
    def assert_restored(self, job, record, steps=20):
        """The run has come further than where it was lost, from a checkpoint not older than @record."""
        job.wait_step(job.step() + CHECKPOINT_EVERY + steps, 90)
        plans = [event["text"] for event in job.events("plan") if "from the checkpoint of step" in event["text"]]
        self.assertTrue(plans)
        step = int(plans[-1].split("from the checkpoint of step ")[1].split()[0])
        self.assertGreaterEqual(step, record["step"])

    def test_a_stage_is_lost_with_its_node_and_disk(self):
        with spread_cluster(self.id(), flags=PIPELINE) as cluster:
            job = SpreadJob(cluster, checkpoint__copies=2).submit()
            job.wait_running(3)
            record = job.wait_copies(2)
            self.assertEqual(sorted(map(sorted, record["shares"])), [["a", "b"], ["a", "c"], ["b", "c"]])
            for folder in job.folders(record["step"]).values():
                with open(folder + "/manifest.json", encoding="ascii") as file:
                    files = {entry["name"]: entry.get("nodes") for entry in json.load(file)["files"]}
                here = {name for name, nodes in files.items() if not nodes or folder.split("/")[-4] in nodes}
                self.assertEqual(here | {"manifest.json", "placed"}, set(os.listdir(folder)) - {"verified"})
            lose(cluster, "b")
            cluster.nodes["b"].launch()  # as a new machine of that name
            self.assert_restored(job, record)
            job.wait_copies(2, job.step())
            self.end(job)

    def test_a_node_without_a_part_reads_from_others(self):
        """Two stages on two nodes; the third has nothing until it takes the place of a lost one."""
        with spread_cluster(self.id()) as cluster:
            job = SpreadJob(cluster, checkpoint__copies=2).submit(stages=2, replicas=1)
            plan = job.wait_running(2)
            record = job.wait_copies(2)
            lose(cluster, plan["workers"][0]["node"])
            self.assert_restored(job, record)
            self.end(job)

    def test_missing_copies_are_made_again(self):
        """Of a pinned checkpoint: two nodes and their disks go, one after the other, and the third has all of it."""
        with spread_cluster(self.id()) as cluster:
            job = SpreadJob(cluster, checkpoint__copies=2).submit()
            job.wait_running(3)
            step = job.wait_copies(2)["step"]
            self.assert_said(cluster, "is pinned", "pin", job.name, "--step", str(step))
            self.assert_said(cluster, " on a, b\n", "show", job.name, "--step", str(step))
            self.assert_said(cluster, "at least 2 copies of every file", "verify", job.name, "--step", str(step))

            def record():
                return next(record for record in job.checkpoints() if record["step"] == step)

            def copied_to(nodes):
                return all(len(nodes & set(share)) >= min(2, len(nodes)) for share in record()["shares"])

            lose(cluster, "b")
            cluster.wait("b's copies have been made again", lambda: copied_to({"a", "c"}), 60)
            self.assertTrue(any("made again" in event["text"] for event in job.events("checkpoint")))
            self.assert_said(cluster, "at least 2 copies of every file", "verify", job.name, "--step", str(step))
            code, text = firnctl(cluster, "checkpoint", "list", job.name, "--json")
            self.assertEqual((code, [entry["copies_left"] for entry in json.loads(text)["checkpoints"]
                                     if entry["step"] == step]), (0, [2]))
            self.assertIn("c", job.folders(step))
            lose(cluster, "a")
            job.wait_running(1)
            back = cluster.folder + "/back"
            self.assert_said(cluster, "", "export", job.name, back, "--step", str(step))
            self.assertIn("model.safetensors", os.listdir(back))
            code, text = firnctl(cluster, "sample", job.name, "--step", str(step), "--prompt", "int ", "--tokens", "5")
            self.assertEqual((code, "int " in text), (0, True), text)
            self.assert_said(cluster, "is not pinned", "unpin", job.name, "--step", str(step))
            code, text = firnctl(cluster, "checkpoint", "remove", job.name, "--step", str(step))
            # It is one too many now: the job may have been faster.
            self.assertIn("each node removes its part" if code == 0 else "has no checkpoint of step", text)
            cluster.wait("c has removed its part", lambda: not job.folders(step))
            self.end(job)

    def test_a_full_disk_and_a_lost_stage(self):
        """No checkpoint can be made when the stage is lost: the job goes back to the newest from before, and says why."""
        with spread_cluster(self.id(), flags=PIPELINE) as cluster, \
                Tmpfs(self, cluster.nodes["c"].data + "/checkpoints") as disk:
            job = SpreadJob(cluster, checkpoint__copies=2).submit()
            job.wait_running(3)
            job.wait_copies(2)
            disk.fill()
            cluster.note("the disk of node c is full")
            cluster.wait("c says so", lambda: any("No space left on device; make room" in event["text"]
                                                  for event in job.events("alarm") if event["node"] == "c"))
            record = job.checkpoints()[-1]
            lose(cluster, "b")
            cluster.nodes["b"].launch()
            self.assert_restored(job, record)
            self.assertTrue(job.key("progress").get("alarm"), "it is full still")
            if job.plan()["replicas"] == 1:  # or, with more layers frozen, others write for c
                self.assertEqual(job.checkpoints()[-1]["step"], record["step"])
            disk.make_room()
            job.wait_copies(2, record["step"])
            cluster.wait("the alarm is over", lambda: not job.key("progress").get("alarm"))
            self.end(job)

    def test_a_full_disk_of_a_replica(self):
        """The others write its part, and say whose; it is tried now and then, and is as new when there is room."""
        with spread_cluster(self.id()) as cluster, Tmpfs(self, cluster.nodes["c"].data + "/checkpoints") as disk:
            job = SpreadJob(cluster, checkpoint__copies=2).submit()
            self.assertNotEqual(job.wait_running(3)["workers"][0]["node"], "c")
            job.wait_copies(2)

            def made_by(nodes):
                record = job.checkpoints()[-1]
                return sorted({node for share in record["shares"] for node in share}) == nodes and record
            disk.fill()
            cluster.note("the disk of node c is full")
            record = cluster.wait("a checkpoint is made without c", lambda: made_by(["a", "b"]))
            self.assertEqual(sorted(map(sorted, record["shares"])), [["a", "b"], ["a", "b"]])
            said = [event["text"] for event in job.events("alarm")]
            self.assertTrue(any("No space left on device; make room" in text for text in said), said)
            cluster.wait("the job says whose disk it is", lambda: "node c cannot write its part" in
                         (job.key("progress").get("alarm") or ""))
            cluster.wait("others are made, though c is tried now and then",
                         lambda: job.checkpoints()[-1]["step"] >= record["step"] + 5 * CHECKPOINT_EVERY)
            disk.make_room()
            cluster.wait("c takes part again", lambda: made_by(["a", "b", "c"]))
            cluster.wait("the alarm is over", lambda: not job.key("progress").get("alarm"))
            self.end(job)

    def test_a_full_disk_at_the_end(self):
        """The last checkpoint is made by those who can."""
        with spread_cluster(self.id()) as cluster, Tmpfs(self, cluster.nodes["c"].data + "/checkpoints") as disk:
            disk.fill()
            job = SpreadJob(cluster, checkpoint__copies=2, checkpoint__every=1000, train__steps=200).submit()
            job.wait_completed()
            self.assertEqual(sorted(map(sorted, job.checkpoints()[-1]["shares"])), [["a", "b"], ["a", "b"]])
            self.assert_exact(job)

    def test_a_keeper_that_cannot_says_so(self):
        """In the last checkpoint, which no later step could speak for: it is made anew at once, and says why."""
        with spread_cluster(self.id(), flags=DOOMED) as cluster:
            job = SpreadJob(cluster, checkpoint__copies=2, checkpoint__every=1000, train__steps=200).submit()
            plan = job.wait_running(3)
            other = cluster.nodes[plan["workers"][2]["node"]]
            fault = ReceiptFault(job, other, errno.EIO)
            job.wait_step(200)
            began = time.monotonic()
            job.wait_completed()
            self.assertTrue(fault.carried_out())
            self.assertLess(time.monotonic() - began, 30, "a minute is how long a silent keeper is waited for")
            said = {}
            for event in job.events("alarm"):
                said.setdefault(event["node"], []).append(event["text"])
            self.assertIn("Input/output error", " ".join(said[other.name]))
            self.assertIn("a worker cannot write its share", " ".join(said[plan["workers"][0]["node"]]))
            self.assertEqual([record["step"] for record in job.checkpoints()], [200])
            self.assert_exact(job)

    def test_copies_of_an_earlier_attempt_do_not_count(self):
        """Rank 0 compares what a node has copied with what it records, and makes the checkpoint anew."""
        with spread_cluster(self.id(), flags=DOOMED) as cluster:
            job = SpreadJob(cluster, checkpoint__copies=2, checkpoint__every=1000, train__steps=200).submit()
            plan = job.wait_running(3)
            other = cluster.nodes[plan["workers"][2]["node"]]
            fault = ReceiptFault(job, other, errno.ESTALE)
            job.wait_completed()
            self.assertTrue(fault.carried_out())
            said = " ".join(event["text"] for event in job.events("alarm"))
            self.assertIn(f"node {other.name} has copies of an earlier attempt", said)
            self.assertEqual([record["step"] for record in job.checkpoints()], [200])
            self.assert_exact(job)

    def assert_said(self, cluster, words, *command):
        code, text = firnctl(cluster, "checkpoint", *command)
        self.assertEqual(code, 0, text)
        self.assertIn(words, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
