#!/usr/bin/env python3
"""What a job does when its own checkpoints have been damaged, removed or pinned."""
import json
import os
import shutil
import subprocess
import unittest

from lib import checkpoint_format
from lib.cluster import BIN, PIPELINE, Cluster
from lib.job import CHECKPOINT_EVERY, Job, JobTest


def flip_last_byte(path):
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([byte ^ 0x10]))


def own_files(folder, prefix):
    """Files that no other checkpoint shares: frozen units are links."""
    names = sorted(name for name in os.listdir(folder) if name.startswith(prefix))
    return [path for path in (os.path.join(folder, name) for name in names)
            if os.stat(path).st_nlink == 1]


def firnctl(cluster, *words):
    """(exit status, what it printed)."""
    done = subprocess.run([BIN + "/firnctl", *words, "--endpoints", cluster.etcd.url, "--cluster", cluster.name],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8", timeout=60, check=False)
    cluster.note(f"firnctl {' '.join(words)}: {done.returncode} {done.stdout}")
    return done.returncode, done.stdout


class Checkpoints(JobTest):
    def paused(self, cluster, step, **changes):
        """A job that has come past @step and lies on disk only."""
        job = Job(cluster, **changes).submit()
        job.wait_step(step)
        job.ask(state="paused")
        job.wait_state("paused")
        cluster.wait("its workers are gone", lambda: not any(
            node.workers() for node in cluster.nodes.values()))
        # What happens to a file from now on is found by whoever reads it next, and not by this reading.
        cluster.wait("all have been read back", lambda: all(
            os.path.exists(record["path"] + "/verified") for record in job.checkpoints()))
        return job

    def resume_from_the_one_before(self, job, steps=20):
        records = job.checkpoints()
        self.assertGreater(len(records), 1)
        newest, before = records[-1]["step"], records[-2]["step"]
        job.ask(state="running")
        job.wait_step(newest + steps)
        refused = [event["text"] for event in job.events("checkpoint") if "unusable" in event["text"]]
        self.assertEqual(len(refused), 1, refused)
        self.assertIn(f"step {newest} ", refused[0])
        plans = [event["text"] for event in job.events("plan")]
        self.assertTrue(any(f"from the checkpoint of step {before}" in plan for plan in plans), plans)
        self.end(job)

    def test_a_byte_deep_inside_is_found_by_a_worker(self):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = self.paused(cluster, 3 * CHECKPOINT_EVERY + 10)
            folder = job.checkpoints()[-1]["path"]
            checkpoint_format.check(folder)
            flip_last_byte(own_files(folder, "optimizer-")[-1])
            with self.assertRaises(checkpoint_format.Wrong):
                checkpoint_format.check(folder)
            self.resume_from_the_one_before(job)

    def test_a_manifest_is_found_by_the_leader(self):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = self.paused(cluster, 3 * CHECKPOINT_EVERY + 10)
            flip_last_byte(job.checkpoints()[-1]["path"] + "/config.json")
            self.resume_from_the_one_before(job)

    def test_a_removed_one_is_passed_over(self):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = self.paused(cluster, 3 * CHECKPOINT_EVERY + 10)
            shutil.rmtree(job.checkpoints()[-1]["path"])
            # Until its record, of a step that is not written again, has had its day.
            self.resume_from_the_one_before(job, (job.spec["checkpoint"]["keep"] + 1) * CHECKPOINT_EVERY)

    def test_a_disk_that_is_not_mounted_is_waited_for(self):
        """The job's folder without the checkpoints would say that they are lost: no worker makes it."""
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = self.paused(cluster, 2 * CHECKPOINT_EVERY + 10)
            newest, paused = job.checkpoints()[-1], job.plan()["generation"]
            folder = os.path.dirname(newest["path"])
            os.rename(folder, folder + ".away")
            job.ask(state="running")
            cluster.wait("workers have tried several times", lambda: job.plan()["generation"] >= paused + 3)
            self.assertEqual(job.plan()["resume_step"], newest["step"])
            self.assertFalse(os.path.exists(folder))
            os.rename(folder + ".away", folder)
            job.wait_step(newest["step"] + 20)
            self.assertFalse([event["text"] for event in job.events("checkpoint") if "unusable" in event["text"]])
            self.end(job)

    def test_a_replay_writes_damaged_ones_anew(self):
        """The newest two regular ones are damaged: the run goes back behind both and mends them."""
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = self.paused(cluster, 3 * CHECKPOINT_EVERY + 10)
            damaged = job.checkpoints()[-2:]
            for record in damaged:
                flip_last_byte(own_files(record["path"], "optimizer-")[-1])
            job.ask(state="running")
            mended = damaged[0]["step"]
            job.wait_step(damaged[1]["step"] + CHECKPOINT_EVERY)
            records = {record["step"]: record for record in job.checkpoints()}
            self.assertIn(mended, records)
            self.assertNotEqual(records[mended]["manifest_sha256"], damaged[0]["manifest_sha256"])
            self.assertTrue(os.path.isdir(damaged[0]["path"] + ".damaged"))
            self.end(job)

    def test_damage_is_remembered_and_step_0_is_asked_for(self):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = self.paused(cluster, CHECKPOINT_EVERY + 10)
            for record in job.checkpoints():
                flip_last_byte(own_files(record["path"], "optimizer-")[-1])
            newest, before = job.checkpoints()[-1]["step"], job.checkpoints()[-2]["step"]
            self.assertEqual(firnctl(cluster, "checkpoint", "verify", "job")[0], 1)
            self.assertIn("damaged", job.checkpoints()[-1])
            self.assertIn(f"durable     step {before}", firnctl(cluster, "job", "show", "job")[1])
            status, text = firnctl(cluster, "checkpoint", "remove", "job", "--step", str(before))
            self.assertEqual(status, 1)
            self.assertIn("the newest sound checkpoint", text)
            job.ask(state="running")
            cluster.wait("somebody is asked", lambda: "no sound checkpoint is left" in firnctl(
                cluster, "job", "show", "job")[1])
            self.assertTrue(all("damaged" in record for record in job.checkpoints()))
            self.assertEqual(firnctl(cluster, "checkpoint", "remove", "job", "--damaged")[0], 0)
            job.wait_step(newest + 20)
            self.end(job)

    def test_a_sample_that_meets_damage_is_remembered(self):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = self.paused(cluster, CHECKPOINT_EVERY + 10)
            flip_last_byte(own_files(job.checkpoints()[-1]["path"], "model-")[-1])
            words = ("sample", "job", "--prompt", "int ", "--tokens", "3")
            status, text = firnctl(cluster, *words)
            self.assertEqual(status, 1)
            self.assertIn("is damaged", text)
            self.assertIn("damaged", job.checkpoints()[-1])
            status, text = firnctl(cluster, *words)
            self.assertEqual(status, 0)
            self.assertIn(f"this is of step {job.checkpoints()[-2]['step']}", text)
            job.ask(state="running")
            job.wait_step(job.checkpoints()[-1]["step"] + 20)
            self.end(job)

    def test_a_job_that_etcd_has_forgotten_goes_on_from_its_folder(self):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = self.paused(cluster, 2 * CHECKPOINT_EVERY + 10)
            newest = job.checkpoints()[-1]
            job.ask(state="cancelled")
            job.wait_state("cancelled")
            self.assertEqual(firnctl(cluster, "job", "remove", "job")[0], 0)
            status, text = firnctl(cluster, "job", "submit", "--from", os.path.dirname(newest["path"]))
            self.assertEqual(status, 0)
            self.assertIn(f"goes on after step {newest['step']}", text)
            job.wait_step(newest["step"] + CHECKPOINT_EVERY + 5)  # one that an undisturbed run has too
            self.assertTrue(os.path.isfile(newest["path"] + "/verified"))
            self.assertGreater(job.plan()["generation"], newest["generation"])
            shown = json.loads(firnctl(cluster, "job", "show", "job", "--json")[1])
            self.assertGreaterEqual(shown["risk"]["verified_step"], newest["step"])  # a later one may be read, too
            self.assertGreaterEqual(shown["risk"]["durable_step"], newest["step"])
            self.end(job)

    def test_those_made_while_etcd_was_away_go_with_the_end(self):
        """Of them only the newest is recorded, and no worker is there any more to remove the others."""
        with Cluster(self.id()) as cluster:
            job = Job(cluster, train__steps=12 * CHECKPOINT_EVERY, checkpoint__keep=2).submit()
            cluster.wait("one is recorded", job.checkpoints)
            folder = os.path.dirname(job.checkpoints()[0]["path"])
            cluster.etcd.kill()
            last = f"{folder}/step-{job.steps:010}"
            cluster.wait("the last one is there", lambda: os.path.isdir(last))
            self.assertIn(len(self.steps_in(folder)), (5, 6))  # recorded 1 or 2, one more than is kept, the last
            cluster.etcd.launch()
            job.wait_completed()
            cluster.wait("only what is recorded is left", lambda: self.steps_in(folder) == {
                record["step"] for record in job.checkpoints()})
            self.assertIn(job.steps, self.steps_in(folder))
            self.assert_exact(job)

    @staticmethod
    def steps_in(folder):
        return {int(name[5:]) for name in os.listdir(folder) if name.startswith("step-") and name[5:].isdigit()}

    def test_pinned_ones_stay(self):
        with Cluster(self.id()) as cluster:
            job = Job(cluster).submit()
            first = cluster.wait("a checkpoint is committed", job.checkpoints)[0]
            self.assertEqual(firnctl(cluster, "checkpoint", "pin", "job", "--step", str(first["step"]))[0], 0)
            job.wait_step(first["step"] + 8 * CHECKPOINT_EVERY)
            job.ask(state="paused")
            job.wait_state("paused")
            # One more as long as none of them has been read back.
            left = 1 + job.spec["checkpoint"]["keep"]
            cluster.wait("the pinned one and the newest are left", lambda: len(job.checkpoints()) == left, 60)
            cluster.wait("their files are left", lambda: self.steps_in(os.path.dirname(first["path"])) == {
                record["step"] for record in job.checkpoints()})
            self.assertEqual(job.checkpoints()[0], first)
            self.assertTrue(os.path.isfile(first["path"] + "/manifest.json"))
            self.assert_exact(job)

    def test_a_node_that_must_be_empty_soon(self):
        """State that fits into the time goes to a peer, else into a checkpoint; no step is computed twice."""
        with Cluster(self.id(), slots=1) as cluster:
            job = Job(cluster).submit(stages=2, replicas=1)
            job.wait_running(2)
            job.wait_step(30)
            for deadline, way in ((300, "memory"), (1, "checkpoint")):
                plan = job.plan()
                leaving = plan["workers"][1]["node"]
                code, text = firnctl(cluster, "node", "drain", leaving, "--deadline", str(deadline))
                self.assertEqual(code, 0, text)
                cluster.wait(f"node {leaving} is empty", lambda node=leaving: not cluster.nodes[node].workers(), 30)
                after = job.wait_running(2)
                job.wait_step(job.step() + 20)
                self.assertEqual(after["source"], way)
                steps = {True: [], False: []}  # of later generations, and of those before
                for _, line in job.lines():
                    steps[line["generation"] > plan["generation"]].append(line["step"])
                self.assertEqual(min(steps[True]), max(steps[False]) + 1)
                code, text = firnctl(cluster, "node", "resume", leaving)
                self.assertEqual(code, 0, text)
            said = [event["text"] for event in job.events("plan") if ": checkpoint" in event["text"]]
            self.assertEqual(len(said), 1, said)
            self.assertIn(f"node {leaving} goes in", said[0])
            self.end(job)

    def test_firnctl_removes_what_may_go(self):
        with Cluster(self.id()) as cluster:
            job = self.paused(cluster, 3 * CHECKPOINT_EVERY + 10)
            oldest, *_, newest = job.checkpoints()
            remove = ("checkpoint", "remove", "job", "--step")
            self.assertEqual(firnctl(cluster, *remove[:3])[0], 2)  # which one?
            firnctl(cluster, "checkpoint", "pin", oldest["path"])
            for step, why in ((oldest["step"], "pinned"), (newest["step"], "newest")):
                status, text = firnctl(cluster, *remove, str(step))
                self.assertEqual(status, 1)
                self.assertIn(why, text)
            self.assertIn(oldest, job.checkpoints())
            firnctl(cluster, "checkpoint", "unpin", oldest["path"])
            status, text = firnctl(cluster, *remove, str(oldest["step"]))
            self.assertTrue(status == 0 or "No such file" in text, text)  # retention may come first
            self.assertEqual(firnctl(cluster, *remove, str(newest["step"]), "--force")[0], 0)
            cluster.wait("the record of the oldest is gone", lambda: oldest not in job.checkpoints())
            left = job.checkpoints()
            self.assertNotIn(oldest, left)
            self.assertNotIn(newest, left)
            self.assertFalse(os.path.exists(oldest["path"]) or os.path.exists(newest["path"]))
            job.ask(state="running")  # from the newest that is left
            job.wait_step(newest["step"] + 20)
            self.end(job)

    def test_firnctl_exports_while_the_job_runs(self):
        with Cluster(self.id()) as cluster:
            job = Job(cluster).submit()
            cluster.wait("a checkpoint is committed", job.checkpoints)
            for dtype, size in (("f32", 4), ("bf16", 2)):
                folder = f"{cluster.folder}/plain-{dtype}"
                self.assertEqual(firnctl(cluster, "checkpoint", "export", "job", folder, "--dtype", dtype)[0], 0)
                self.assertEqual(sorted(os.listdir(folder)), ["config.json", "model.safetensors"])
                with open(folder + "/model.safetensors", "rb") as file:
                    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
                self.assertEqual(header["transformer.wpe.weight"]["shape"], [32, 32])
                begin, end = header["transformer.wpe.weight"]["data_offsets"]
                self.assertEqual(end - begin, 32 * 32 * size)
            self.assertEqual(firnctl(cluster, "checkpoint", "export", "job", folder)[0], 1)  # it is there
            self.assertEqual(firnctl(cluster, "checkpoint", "export", "job", folder + "2", "--dtype", "f8")[0], 2)
            self.end(job)


if __name__ == "__main__":
    unittest.main()
