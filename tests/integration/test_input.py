#!/usr/bin/env python3
"""Wishes that cannot be fulfilled and files that are not what they should be: a clear word, nothing lost."""
import os
import socket
import subprocess
import tempfile
import time
import unittest

from lib.cluster import BIN, PIPELINE, Cluster
from lib.job import Job, JobTest
from test_checkpoints import firnctl

DISK_BYTES = 6 << 20  # room for twice the checkpoints that are kept: neighbours share no file


class Tmpfs:
    """A small disk at @path; skips the test where it may not be mounted."""

    def __init__(self, test, path):
        self.path = path
        os.makedirs(path)
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", path],
                               capture_output=True, check=False)
        if mount.returncode:
            test.skipTest("mounting a small disk is not allowed here")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "--lazy", self.path], check=True)

    def fill(self):
        with open(self.path + "/padding", "wb", buffering=0) as padding:
            try:
                while True:
                    padding.write(bytes(4096))
            except OSError:
                pass

    def make_room(self):
        os.remove(self.path + "/padding")


class Bound:
    """A disk at @path that can be taken away and come back; skips the test where nothing may be mounted."""

    def __init__(self, test, path):
        self.path, self.disk = path, path + ".disk"
        os.makedirs(path)
        os.makedirs(self.disk)
        if self.mount().returncode:
            test.skipTest("mounting is not allowed here")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.unmount()

    def mount(self):
        return subprocess.run(["mount", "--bind", self.disk, self.path], capture_output=True, check=False)

    def unmount(self):
        subprocess.run(["umount", "--lazy", self.path], check=True)


class Input(JobTest):
    def refused(self, words, **changes):
        """A job that no node can run ends as failed, and says why."""
        with Cluster(self.id()) as cluster:
            job = Job(cluster, **changes).submit()
            job.wait_state("failed")
            for word in words:
                self.assertIn(word, job.why())
            cluster.wait("no worker is left", lambda: not any(
                node.workers() for node in cluster.nodes.values()))
            after = Job(cluster, name="after", train__steps=80).submit()
            after.wait_completed()
            self.assert_exact(after)

    def test_data_path_is_missing(self):
        self.refused(["/nowhere/to/be/found"], data__path="/nowhere/to/be/found")

    def test_data_is_empty(self):
        with tempfile.TemporaryDirectory() as folder:
            self.refused(["data.path", "0 tokens"], data__path=folder)

    def test_data_differs(self):
        """A third node has other files by the same path: it goes, and the run is what it would have been."""
        with Cluster(self.id(), nodes=2, slots=1) as cluster:
            for node, folder in (("a", "linux"), ("b", "linux"), ("c", "asm-generic")):
                self.give_home(cluster, node, "/usr/include/" + folder)
            job = Job(cluster, data__path="/proc/self/cwd/text").submit()
            job.wait_step(10)
            cluster.launch()
            told = cluster.wait("c says why it takes no part", lambda: job.events("refused"))
            self.assertEqual({event["node"] for event in told}, {"c"})
            self.assertIn("is not what this run was trained on so far", told[0]["text"])
            job.wait_step(job.step() + 20)
            self.assertEqual({worker["node"] for worker in job.team()}, {"a", "b"})
            job.ask(state="paused")
            job.wait_state("paused")
            for node in "ab":
                self.give_home(cluster, node, "/usr/include/asm-generic")
            job.ask(state="running")
            job.wait_state("failed")
            self.assertIn("is not what this run was trained on so far", job.why())
            self.assertEqual(len(job.events("state")), 1, "the end is told once")
            self.assert_exact(job)

    @staticmethod
    def give_home(cluster, name, text):
        """The node is where ./text leads there; one that is not yet there begins with launch()."""
        node = cluster.nodes[name] if name in cluster.nodes else cluster.add(name, 1)
        node.home = node.home or f"{cluster.folder}/home-{name}"
        os.makedirs(node.home, exist_ok=True)
        link = node.home + "/text"
        if os.path.lexists(link):
            os.remove(link)
        os.symlink(text, link)
        if node.process and os.readlink(f"/proc/{node.process.pid}/cwd") != node.home:
            node.kill_daemon()
            node.launch()

    def test_job_waits_for_slots_and_says_so(self):
        with Cluster(self.id(), nodes=3) as cluster:
            cluster.nodes["c"].terminate()
            cluster.wait("c has left", lambda: cluster.nodes["c"].process.poll() is not None)
            cluster.nodes["c"].process = None
            job = Job(cluster, train__steps=80, elastic__devices={"min": 6}).submit()
            job.wait_state("waiting")
            self.assertIn("wants at least 6, 4 are free", job.why())
            cluster.nodes["c"].launch()
            job.wait_completed()
            self.assert_exact(job)

    def test_more_stages_than_units(self):
        with Cluster(self.id()) as cluster:
            job = Job(cluster, train__steps=80).submit(stages=99, replicas=1)
            cluster.wait("the job says why it waits", lambda: "stages" in job.why())
            self.assertEqual(job.state(), "waiting")
            job.ask(stages=0, replicas=0)
            job.wait_completed()
            self.assert_exact(job)

    def test_port_is_taken_by_another_program(self):
        """Of one slot's links: firnd does not start; later the job trains on the other slot."""
        flags = ("--failure-timeout-ms", "200")  # starts in vain follow each other quickly
        with Cluster(self.id(), nodes=1, flags=flags) as cluster, socket.socket() as other:
            node = cluster.nodes["a"]
            other.bind((node.address, node.link_port + 1))
            other.listen()
            job = Job(cluster, train__steps=80).submit()
            job.wait_completed()
            self.assertIn(f"cannot listen on {node.address}:{node.link_port + 1}",
                          node.status()["record"]["slots"][1]["bad"])
            self.assert_exact(job)
            node.kill()
            run = subprocess.run(node.command(), capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertIn(f"link_port: port {node.link_port + 1} of {node.address}", run.stderr)

    def test_second_firnd_of_the_same_name(self):
        with Cluster(self.id(), nodes=1) as cluster:
            twin = cluster.add_twin("a")
            cluster.wait("the second one is refused", lambda: twin.process.poll() is not None)
            self.assertNotEqual(twin.process.returncode, 0)
            twin.process = None
            with open(twin.log, encoding="utf-8") as log:
                self.assertIn('another firnd is alive under the node name "a"', log.read())
            self.assert_folders_are_its_own(cluster)
            job = Job(cluster, train__steps=80).submit()
            job.wait_completed()

    def assert_folders_are_its_own(self, cluster):
        """Another firnd would take the workers that it finds by their sockets for its own."""
        node = cluster.nodes["a"]
        for flag, folder in (("--data-dir", node.data), ("--run-dir", node.run)):
            run = subprocess.run([*node.command(), "--node", "z", "--data-dir", cluster.folder + "/z", "--run-dir",
                                  cluster.folder + "/run-z", flag, folder],
                                 capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertIn(f"another firnd uses {folder}", run.stderr)
        run = subprocess.run([*node.command(), "--node", "z", "--data-dir", cluster.folder + "/z", "--run-dir",
                              cluster.folder + "/run-z"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn(f"cannot listen at {node.http}: Address already in use", run.stderr)

    def test_etcd_is_not_there(self):
        if not os.path.exists(BIN + "/firnctl"):
            self.skipTest("firnctl is not built")
        began = time.monotonic()
        run = subprocess.run([BIN + "/firnctl", "node", "list"], capture_output=True, text=True,
                             env={**os.environ, "FIRN_ENDPOINTS": "http://127.0.0.1:9"},
                             timeout=60, check=False)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertIn("127.0.0.1:9", run.stderr)
        self.assertLess(time.monotonic() - began, 30)

    def damaged(self, damage, told):
        """The newest checkpoint is damaged while the job is paused: the one before it is used."""
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_step(130)
            job.ask(state="paused")
            job.wait_state("paused")
            newest = job.checkpoints()[-1]
            damage(newest["path"])
            cluster.note(f"the checkpoint of step {newest['step']} is damaged")
            job.ask(state="running")
            cluster.wait("the damage is told", lambda: any(
                told in event["text"] for event in job.events()))
            job.wait_step(newest["step"] + 100)
            self.end(job)

    def test_newest_checkpoint_is_truncated(self):
        def truncate(path):
            part = max((os.path.join(path, name) for name in os.listdir(path)
                        if name.endswith(".safetensors")), key=os.path.getsize)
            os.truncate(part, os.path.getsize(part) // 2)
        self.damaged(truncate, "is unusable; using the one before it")

    def test_manifest_of_the_newest_checkpoint_is_foreign(self):
        def overwrite(path):
            with open(path + "/manifest.json", "w", encoding="ascii") as manifest:
                manifest.write('{"format": "something else"}\n')
        self.damaged(overwrite, "is unusable; using the one before it")

    def test_bits_of_the_newest_checkpoint_flip(self):
        def flip(path):
            for name in os.listdir(path):
                if name.endswith(".safetensors"):
                    with open(os.path.join(path, name), "r+b") as part:
                        part.seek(os.path.getsize(part.name) - 4096)
                        block = part.read(4096)
                        part.seek(-len(block), os.SEEK_END)
                        part.write(bytes(byte ^ 1 for byte in block))
        self.damaged(flip, "is unusable; using the one before it")

    def test_checkpoints_cannot_be_written_is_told_at_the_start(self):
        """Before there is one to write, and the job trains; also where the disk has not enough room."""
        with Cluster(self.id()) as cluster, Tmpfs(self, cluster.folder + "/disk") as disk:
            disk.fill()
            for name, path, words in (("a", "/proc/nowhere", "make the folder"), ("b", disk.path, "make room")):
                job = Job(cluster, name=name, checkpoint={"every": 10 ** 6, "path": path}).submit()
                said = cluster.wait("the alarm is shown", lambda job=job: job.key("progress").get("alarm"))
                self.assertIn(f"no checkpoint can be written to {path}", said)
                self.assertIn(words, said)
                job.wait_step(20)
                job.ask(state="cancelled")
                job.wait_state("cancelled")

    def test_disk_is_full(self):
        with Cluster(self.id()) as cluster, Tmpfs(self, cluster.folder + "/disk") as disk:
            job = Job(cluster, checkpoint__path=disk.path).submit()
            cluster.wait("a checkpoint is committed", job.checkpoints)
            disk.fill()
            cluster.note("the disk is full")
            cluster.wait("the alarm is shown", lambda: job.key("progress").get("alarm"))
            step = job.step()
            job.wait_step(step + 2 * 40)
            count = len(job.checkpoints())
            disk.make_room()
            cluster.note("there is room again")
            newest = job.checkpoints()[-1]["step"] if count else 0
            cluster.wait("checkpoints are committed again",
                         lambda: job.checkpoints()[-1]["step"] > newest)
            cluster.wait("the alarm is over", lambda: not job.key("progress").get("alarm"))
            cluster.wait("it is over on all nodes", lambda: all(
                alarms[-1].startswith("alarm over: ") for alarms in self.alarms(job).values()))
            for node, alarms in self.alarms(job).items():
                # A node that sits checkpoints out while others write its part is tried again, so that two
                # alarms may alternate; the same one twice in a row is no news.
                self.assertFalse([text for text, after in zip(alarms, alarms[1:]) if text == after],
                                 f"node {node} repeats itself: {alarms}")
                self.assertFalse([text for text in alarms if "No such file" in text], alarms)
                self.assertTrue(any("No space left on device; make room" in alarm for alarm in alarms), alarms)
            self.end(job)

    @staticmethod
    def alarms(job):
        """Of each node what it said, in order."""
        said = {}
        for event in job.events("alarm"):
            said.setdefault(event["node"], []).append(event["text"])
        return said

    def test_disk_is_unmounted(self):
        """Nothing is written below its mount point; when it is back checkpoints go on."""
        with Cluster(self.id(), flags=PIPELINE) as cluster, Bound(self, cluster.folder + "/disk") as disk:
            job = Job(cluster, checkpoint__path=disk.path).submit()
            cluster.wait("a checkpoint is committed", job.checkpoints)
            disk.unmount()
            cluster.note("the disk is gone")
            cluster.wait("the alarm is shown", lambda: "mount" in job.key("progress").get("alarm", ""))
            job.wait_step(job.step() + 2 * 40)
            self.assertEqual(os.listdir(disk.path), [])
            newest = job.checkpoints()[-1]["step"]
            disk.mount()
            cluster.wait("checkpoints are committed again", lambda: job.checkpoints()[-1]["step"] > newest)
            cluster.wait("the alarm is over", lambda: not job.key("progress").get("alarm"))
            self.end(job)

    def test_disk_is_full_at_the_end(self):
        with Cluster(self.id()) as cluster, Tmpfs(self, cluster.folder + "/disk") as disk:
            job = Job(cluster, train__steps=200, checkpoint__path=disk.path).submit()
            cluster.wait("a checkpoint is committed", job.checkpoints)
            disk.fill()
            job.wait_step(200)
            cluster.wait("the alarm is shown", lambda: job.key("progress").get("alarm"))
            self.assertNotEqual(job.state(), "completed")
            disk.make_room()
            job.wait_completed()
            self.assert_exact(job)

    def test_worker_dies_at_every_start(self):
        with Cluster(self.id(), nodes=2) as cluster:
            node = cluster.nodes["b"]
            node.kill_daemon()
            mortal = cluster.folder + "/mortal-worker"  # says what it computes with and speaks, and no more
            with open(mortal, "w", encoding="utf-8") as script:
                script.write(f'#!/bin/sh\ncase $1 in identity|protocol) exec {BIN}/firn-worker "$@"; esac\nexit 1\n')
            os.chmod(mortal, 0o755)
            node.flags = ("--worker", mortal)
            node.launch()
            cluster.wait_registered("b")
            job = Job(cluster).submit()

            def reasons():
                slots = cluster.etcd.get(f"/firn/v1/{cluster.name}/nodes/b")["slots"]
                return [slot.get("bad") for slot in slots]
            cluster.wait("both slots of b are out of service", lambda: all(reasons()))
            self.assertTrue(all("died 5 times at start" in reason for reason in reasons()))
            job.wait_running(2)
            job.wait_step(80)
            with open(mortal, "w", encoding="utf-8") as script:
                script.write(f'#!/bin/sh\nexec {BIN}/firn-worker "$@"\n')
            code, text = firnctl(cluster, "node", "resume", "b")  # which does not drain
            self.assertEqual(code, 0, text)
            cluster.wait("both slots are in service", lambda: not any(reasons()))
            job.wait_running(4)
            self.end(job)


if __name__ == "__main__":
    unittest.main(verbosity=2)
