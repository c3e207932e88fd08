#!/usr/bin/env python3
"""What etcd does to a job: nothing, as long as somebody still has its data."""
import glob
import json
import signal
import subprocess
import time
import unittest

from lib.cluster import BIN, PIPELINE, Cluster, kill
from lib.job import FREEZE_EVERY, Job, JobTest


def firnctl(cluster, *command):
    return subprocess.run([BIN + "/firnctl", *command, "--endpoints", cluster.etcd.url, "--cluster", cluster.name],
                          timeout=60, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


class Outage(JobTest):
    """etcd does not answer for a while."""

    def train_through(self, cluster, seconds):
        """Training goes on meanwhile, for that long at least."""
        job, gone = cluster.job, time.monotonic()
        job.wait_step(job.step() + 100)
        cluster.wait(f"{seconds} s are over", lambda: time.monotonic() - gone > seconds, seconds + 60)
        job.wait_step(job.step() + 50)
        # As soon as etcd is back what has waited for it may change the layout.
        self.assertEqual(len({line["generation"] for line in job.newest(50)}), 1)

    def away(self, seconds):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            cluster.job = job = Job(cluster).submit()
            job.wait_step(50)
            cluster.note("etcd is killed")
            cluster.etcd.kill()
            self.train_through(cluster, seconds)
            cluster.etcd.launch()
            cluster.wait("etcd is healthy again", cluster.etcd.healthy)
            cluster.wait_registered("a", "b", "c")
            self.assertEqual(job.events("stuck"), [])
            job.ask(devices=4)  # decisions are made again
            job.wait_running(4)
            self.end(job)


class Quick(Outage):
    def test_away_for_longer_than_every_lease(self):
        self.away(12)

    def test_quorum_is_lost_and_found(self):
        with Cluster(self.id(), flags=PIPELINE, members=3) as cluster:
            cluster.job = job = Job(cluster).submit()
            job.wait_step(50)
            first, second, _ = cluster.etcd.members
            cluster.note("one member of etcd hangs: it takes connections and answers nothing")
            first.hang()
            job.ask(devices=4)  # the layout for five goes by how many layers are frozen by then
            job.wait_running(4)
            began = time.monotonic()
            listed = subprocess.run([BIN + "/firnctl", "job", "list", "--endpoints", cluster.etcd.url, "--cluster",
                                     cluster.name, "--timeout", "5"], timeout=60, check=False,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            self.assertEqual(listed.returncode, 0)
            self.assertLess(time.monotonic() - began, 5)
            first.wake()
            cluster.note("one member of etcd is killed")
            first.kill()
            cluster.wait("the other two go on", cluster.etcd.healthy)
            job.ask(devices=6)
            job.wait_running(6)
            cluster.note("another one is killed: no quorum")
            second.kill()
            self.train_through(cluster, 5)
            cluster.etcd.launch()
            cluster.wait("etcd is healthy again", cluster.etcd.healthy)
            cluster.wait_registered("a", "b", "c")
            self.assertEqual(job.events("stuck"), [])
            job.ask(devices=4)
            job.wait_running(4)
            self.end(job)

    def test_has_no_space(self):
        """Training goes on without it; when somebody has made room what has waited is written."""
        cluster = Cluster(self.id(), flags=PIPELINE)
        cluster.etcd.members[0].quota_bytes = 16 << 20
        with cluster:
            cluster.job = job = Job(cluster).submit()
            # The only freeze is over, and so is the change that follows it: were etcd full before its workers
            # have reported, the leader would take the previous generation as running, and wait.
            job.wait_step(FREEZE_EVERY + 100)
            cluster.wait("nothing changes", lambda: job.key("state")["state"] == "running")
            cluster.etcd.fill()
            cluster.note("etcd has no space left")
            self.train_through(cluster, 12)
            shown = firnctl(cluster, "job", "show", job.name)
            self.assertIn("etcd has received no newer progress", shown.stdout)
            self.assertIn("alarm disarm", firnctl(cluster, "job", "scale", job.name, "--devices", "4").stderr)
            # The node of rank 0 says how far the job is; the others may have nothing to write.
            refused = [node for node in cluster.nodes.values()
                       if not json.loads(node.ask("/v1/node"))["etcd_writable"]]
            self.assertTrue(refused)
            for node in refused:
                self.assertIn("etcd refuses writes", read(node.log))
            leader = cluster.leader()
            lost = next(node for node in cluster.nodes.values() if node is not leader)
            lost.kill()
            cluster.wait("a plan without it is refused", lambda: "deciding again" in read(leader.log))
            died = time.monotonic()
            cluster.wait("a second is over", lambda: time.monotonic() - died > 1)
            self.assertEqual(read(leader.log).count("deciding again"), 1)
            cluster.etcd.mend()
            cluster.wait("etcd is healthy again", cluster.etcd.healthy)
            lost.launch()
            cluster.wait_registered("a", "b", "c")
            kept = job.step()
            job.ask(devices=4)
            job.wait_running(4)
            cluster.wait("a checkpoint is recorded", lambda: job.checkpoints()[-1]["step"] >= kept)
            self.end(job)

    def test_a_firnd_stops_that_has_not_heard_of_its_workers(self):
        """They hand over as soon as etcd answers, or end at the deadline: none trains on alone."""
        with Cluster(self.id(), slots=1) as cluster:
            job = Job(cluster).submit()
            job.wait_running(3)
            job.wait_step(50)
            stops, ends = cluster.nodes["a"], cluster.nodes["b"]
            for node in (stops, ends):
                node.kill_daemon()
            cluster.etcd.kill()
            ends.flags = ("--drain-timeout-s", "1")
            for node in (stops, ends):
                node.launch()
                cluster.wait("it has begun", lambda: read(node.log).count(" starts: node ") == 2)
                node.terminate()
                cluster.wait("it waits for its worker",
                             lambda: "cannot hand over its work before etcd answers" in read(node.log))
            self.assertEqual(ends.process.wait(60), 1)
            cluster.wait("the worker of node b is ended", lambda: not ends.workers())
            self.assertTrue(stops.workers())
            cluster.etcd.launch()
            self.assertEqual(stops.process.wait(60), 0)
            self.assertFalse(stops.workers())
            self.assertIn("handover complete", read(stops.log))
            stops.process = ends.process = None
            job.wait_running(1)
            self.end(job)

    def test_compacted_under_a_watch(self):
        """Nobody could watch while etcd came to a revision from which nothing older can be had."""
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_running(6)
            job.wait_step(50)
            cluster.note("every firnd stops")
            for node in cluster.nodes.values():
                kill(node.process.pid, signal.SIGSTOP)
            cluster.etcd.kill()
            cluster.etcd.launch()
            cluster.wait("etcd is healthy again", cluster.etcd.healthy)
            for devices in (5, 3, 4):
                job.ask(devices=devices)
            cluster.etcd.compact()
            cluster.note("etcd is compacted, and every firnd continues")
            for node in cluster.nodes.values():
                kill(node.process.pid, signal.SIGCONT)
            job.wait_running(4)
            job.ask(devices=6)
            job.wait_running(6)
            cluster.note("the leading firnd is killed, and comes back when all that it saw is compacted")
            leader = cluster.wait_leader()
            leader.kill_daemon()
            job.ask(devices=6)
            cluster.etcd.compact()
            leader.launch()
            cluster.wait_registered(*cluster.nodes)
            job.ask(devices=4)
            job.wait_running(4)
            self.assertEqual(job.events("stuck"), [])
            self.end(job)

    def test_everything_is_lost(self):
        """The job is unknown then, and begins again from its newest checkpoint by the path of that."""
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_step(200)
            cluster.wait("a checkpoint is committed", job.checkpoints)
            cluster.note("etcd is killed and loses everything")
            cluster.etcd.lose_everything()
            job.wait_step(job.step() + 50)
            cluster.etcd.launch()
            cluster.wait("etcd is healthy again", cluster.etcd.healthy)
            cluster.wait("no worker is left", lambda: not any(
                node.workers() for node in cluster.nodes.values()))
            cluster.wait_registered("a", "b", "c")
            for node in cluster.nodes.values():
                with open(node.log, encoding="utf-8") as log:
                    self.assertIn("etcd no longer has job job", log.read())
            before = job.exact()
            newest = max(int(path.rpartition("-")[2]) for path in glob.glob(f"{cluster.checkpoints}/job/step-*[0-9]"))
            file = cluster.folder + "/job.yaml"
            with open(file, "w", encoding="ascii") as spec:
                json.dump(job.spec, spec)
            submit = subprocess.run(
                [BIN + "/firnctl", "job", "submit", file, "--from", f"{cluster.checkpoints}/job", "--endpoints",
                 cluster.etcd.url, "--cluster", cluster.name], encoding="utf-8", timeout=60, check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(submit.returncode, 0, submit.stdout)
            job.wait_step(len(before) + 100)
            plans = [event["text"] for event in job.events("plan")]
            self.assertTrue(any(f"from the checkpoint of step {newest}" in plan for plan in plans), plans)
            self.end(job)


class Slow(Outage):
    def test_away_for_a_minute(self):
        self.away(60)


if __name__ == "__main__":
    unittest.main(verbosity=2)
