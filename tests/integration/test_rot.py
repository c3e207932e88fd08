#!/usr/bin/env python3
"""Disks that forget: what was written is read back, and one rotten block costs one checkpoint at most."""
import os
import unittest

from lib.cluster import PIPELINE, Cluster, kill
from lib.job import CHECKPOINT_EVERY, Job, JobTest
from test_checkpoints import firnctl, flip_last_byte
from test_copies import SpreadJob, spread_cluster


def frozen_files(record):
    """{name: inode} of a checkpoint's files of frozen units."""
    try:
        return {entry.name: entry.inode() for entry in os.scandir(record["path"])
                if entry.name.startswith("model-frozen-")}
    except FileNotFoundError:  # it has had its day
        return {}


def rotten(records, name, inode):
    return [record["step"] for record in records if frozen_files(record).get(name) == inode]


class Rot(JobTest):
    def test_a_shared_file_of_a_job_that_trains(self):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            cluster.wait("a checkpoint has frozen files", lambda: any(map(frozen_files, job.checkpoints())), 60)
            record = next(record for record in reversed(job.checkpoints()) if frozen_files(record))
            name, inode = sorted(frozen_files(record).items())[0]
            flip_last_byte(os.path.join(record["path"], name))
            cluster.note(f"rotten: {name} of step {record['step']}")
            cluster.wait("it is read back", lambda: any(
                "is damaged" in event["text"] and name in event["text"] for event in job.events("checkpoint")), 60)
            # What is written from now on has it anew from memory.
            found = job.step()
            cluster.wait("a later one has been read back", lambda: any(
                record["step"] > found + 2 * CHECKPOINT_EVERY and os.path.exists(record["path"] + "/verified")
                for record in job.checkpoints()), 60)
            self.assertFalse([step for step in rotten(job.checkpoints(), name, inode)
                              if step > found + 2 * CHECKPOINT_EVERY])
            self.end(job)

    def test_the_newest_costs_one_interval(self):
        """Its neighbour shares no file with it, so going back ends there."""
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            cluster.wait("frozen files are shared", lambda: any(
                len(rotten(job.checkpoints(), *item)) > 1
                for record in job.checkpoints() for item in frozen_files(record).items()), 60)
            job.ask(state="paused")
            job.wait_state("paused")
            cluster.wait("all have been read back", lambda: all(
                os.path.exists(record["path"] + "/verified") for record in job.checkpoints()))
            before, newest = job.checkpoints()[-2:]
            files = frozen_files(newest)
            self.assertTrue(files)
            self.assertFalse(set(files.values()) & set(frozen_files(before).values()))
            for name in files:
                flip_last_byte(os.path.join(newest["path"], name))
            job.ask(state="running")
            job.wait_step(newest["step"] + 20)
            plans = [event["text"] for event in job.events("plan")]
            self.assertTrue(any(f"from the checkpoint of step {before['step']}" in plan for plan in plans), plans)
            for node in cluster.nodes.values():
                for process in node.workers():
                    kill(process)
            job.wait_step(job.step() + 20)
            self.end(job)

    def test_a_copy_is_replaced_by_a_good_one(self):
        """Of a pinned checkpoint, by a firnd that knows of no earlier reading."""
        with spread_cluster(self.id()) as cluster:
            job = SpreadJob(cluster, checkpoint__copies=2).submit()
            job.wait_running(3)
            step = job.wait_copies(2)["step"]
            self.assertEqual(firnctl(cluster, "checkpoint", "pin", job.name, "--step", str(step))[0], 0)
            folder, node = job.folders(step)["a"], cluster.nodes["a"]
            name = sorted(name for name in os.listdir(folder) if name.startswith("optimizer-"))[0]
            path = os.path.join(folder, name)
            cluster.wait("it is read back", lambda: os.path.exists(folder + "/verified"))
            with open(path, "rb") as file:
                good = file.read()
            node.kill_daemon()
            flip_last_byte(path)
            os.unlink(folder + "/verified")
            node.launch()
            cluster.wait("a good copy takes its place", lambda: any(
                "good copies of other nodes" in event["text"] for event in job.events("checkpoint")), 60)
            with open(path, "rb") as file:
                self.assertEqual(file.read(), good)
            cluster.wait("it is good again", lambda: os.path.exists(folder + "/verified"))
            self.end(job)


if __name__ == "__main__":
    unittest.main(verbosity=2)
