#!/usr/bin/env python3
"""The promise: one job has one result, however its layout changes and whatever is stopped."""
import json
import unittest

from lib.cluster import PIPELINE, Cluster, kill
from lib.job import Job, JobTest
from test_checkpoints import firnctl


RUNNING = 'firn_job_state{{job="{}",state="running"}} 1'


class Exact(JobTest):
    def test_shrinks_and_forks(self):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster, train__steps=400).submit()
            job.wait_completed()
            shapes = job.generations()
            first, last = shapes[min(shapes)], shapes[max(shapes)]
            self.assertGreater(first[0], last[0], "stages did not become fewer")
            self.assertLess(first[1], last[1], "replicas did not become more")
            self.assertEqual(job.events("stuck"), [], "the end was taken for a failure")
            self.assert_exact(job)

    def test_kills_and_scales(self):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster).submit()
            job.wait_step(50)
            node, pid = job.rank_of(2)
            cluster.note(f"the worker of rank 2 on node {node.name} is killed")
            kill(pid)
            job.wait_step(job.step() + 40)
            job.wait_running(6)
            victim = cluster.nodes["b"]
            victim.kill()
            job.wait_step(job.step() + 40)
            victim.launch()
            job.wait_running(6)
            job.ask(devices=4)
            job.wait_running(4)
            job.wait_step(job.step() + 20)
            job.ask(devices=6)
            job.wait_running(6)
            self.assert_plan_tells_of_the_switch(job)
            self.end(job)

    def assert_plan_tells_of_the_switch(self, job):
        path = job.cluster.folder + "/job.yaml"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job.spec, file)
        job.cluster.wait("the pause is known", lambda: job.key("progress").get("generation") == job.plan()["generation"])
        code, text = firnctl(job.cluster, "plan", path)
        self.assertEqual((code, "The last planned switch of layouts paused job job for " in text), (0, True), text)
        code, text = firnctl(job.cluster, "plan", path, "--json")
        self.assertEqual((code, 0 < json.loads(text)["switch_seconds"] < 60), (0, True), text)

    def test_stops_entirely_and_resumes_on_another_layout(self):
        with Cluster(self.id(), flags=PIPELINE) as cluster:
            job = Job(cluster, train__steps=280).submit()
            job.wait_step(90)
            job.ask(state="paused")
            job.wait_state("paused")
            paused_at = job.step()
            self.assertEqual(job.checkpoints()[-1]["step"], paused_at)
            self.assertNotIn("kept_until_unix_ns", job.key("state"))
            cluster.stop()
            cluster.etcd.launch()
            cluster.wait("etcd is healthy again", cluster.etcd.healthy)
            cluster.launch()
            self.assertEqual(job.step(), paused_at)
            job.ask(state="running", stages=3, replicas=1)
            job.wait_completed()
            self.assertEqual(job.generations()[max(job.generations())], (3, 1))
            state = job.key("state")  # which is over, and stays listed for a week
            self.assertEqual(state["kept_until_unix_ns"] - state["unix_ns"], 7 * 86400 * 10 ** 9)
            self.assert_exact(job)

    def test_pipelines_that_defer_weights_and_that_do_not(self):
        with Cluster(self.id(), nodes=1, slots=4) as cluster:
            for name, order, deferred in (("zb", "auto", 3), ("plain", "1f1b", None)):
                job = Job(cluster, name=name, elastic__pipeline=order, train__steps=60).submit(stages=4, replicas=1)
                job.wait_running(4)
                self.assertEqual(job.key("generation").get("deferred"), deferred)
                kill(job.rank_of(2)[1])
                job.wait_completed()
                self.assert_exact(job)

    def assert_same(self, job, undisturbed):
        """As (lines, digests) of the run alone; the finished model is among what is compared."""
        lines, digests = undisturbed
        self.assertEqual(job.exact(), lines)
        shared = job.digests().keys() & digests.keys()
        self.assertIn(len(lines), shared)
        for step in shared:
            self.assertEqual(job.digests()[step], digests[step])

    def test_layers_frozen_from_the_start(self):
        """Two of four layers never train, whatever happens; the others freeze from step 100 on."""
        freezes = {"policy": "schedule", "alpha": 0.5, "every": 50, "after": 100, "from_start": 2}
        wishes = {"train__steps": 300, "elastic__freeze": freezes}
        with Cluster(self.id(), nodes=1, slots=1) as cluster:
            alone = Job(cluster, **wishes).submit()
            alone.wait_completed()
            undisturbed = alone.exact(), alone.digests()
            frozen = [int(line.split()[-1]) for line in undisturbed[0]]
            self.assertEqual(frozen[0], 2)
            # The first loss is that of a job that trains all: the head that is no longer tied begins equal.
            self.reference.need(1, set())
            self.assertEqual(undisturbed[0][0].split()[1], self.reference.lines[0].split()[1])
            self.assertEqual(frozen, sorted(frozen))
            self.assertEqual({step + 1 for step in range(1, 300) if frozen[step] > frozen[step - 1]}, {200})
        with Cluster(self.id(), nodes=2, slots=2, flags=PIPELINE) as cluster:
            job = Job(cluster, **wishes).submit()
            job.wait_running(4)
            job.wait_step(20)
            kill(job.rank_of(1)[1])
            job.wait_step(job.step() + 20)
            job.ask(stages=2, replicas=1)
            job.wait_running(2)
            job.wait_completed()
            self.assert_same(job, undisturbed)

    def kill_and_pause(self, steps, undisturbed, **wishes):
        """The same job on four slots: a worker dies after so many steps, and after as many again the job is paused."""
        with Cluster(self.id(), nodes=2, slots=2, flags=PIPELINE) as cluster:
            job = Job(cluster, **wishes).submit()
            job.wait_running(4)
            job.wait_step(steps)
            kill(job.rank_of(1)[1])
            job.wait_step(job.step() + steps)
            job.ask(state="paused")
            job.wait_state("paused")
            job.ask(state="running", stages=3, replicas=1)
            job.wait_completed()
            self.assert_same(job, undisturbed)

    def test_layers_that_thaw(self):
        """The loss of a high learning rate rises now and then: layers freeze and thaw on, whatever happens."""
        freezes = {"policy": "schedule", "alpha": 0.5, "every": 10, "thaw": 0.01}
        wishes = {"train__steps": 300, "elastic__freeze": freezes, "evaluate": {"every": 5, "batches": 2},
                  "train__optimizer": {"lr": 0.01, "warmup": 20, "schedule": "constant"}, "model__tied": False}
        with Cluster(self.id(), nodes=1, slots=1) as cluster:
            alone = Job(cluster, **wishes).submit()
            alone.wait_completed()
            undisturbed = alone.exact(), alone.digests()
            frozen = [int(line.split()[3]) for line in undisturbed[0]]
            self.assertGreater(sum(now < before for before, now in zip(frozen, frozen[1:])), 1, frozen)
            self.assertTrue(any(" again from step " in event["text"] for event in alone.events("training")))
        self.kill_and_pause(30, undisturbed, **wishes)

    def test_layers_that_have_calmed_down(self):
        """One after another, by measurements that no kill and no layout changes."""
        freezes = {"policy": "plasticity", "every": 10, "tolerance": 0.8, "patience": 1}
        wishes = {"train__steps": 300, "elastic__freeze": freezes, "evaluate": {"every": 5, "batches": 2}}
        with Cluster(self.id(), nodes=1, slots=1) as cluster:
            alone = Job(cluster, **wishes).submit()
            alone.wait_completed()
            undisturbed = alone.exact(), alone.digests()
            self.assertEqual(int(undisturbed[0][-1].split()[3]), 3)
            measured = [line["plasticity"] for _, line in alone.lines() if "plasticity" in line]
            self.assertGreaterEqual(len(measured), 6)  # of each layer at least two, after one that compares nothing
            self.assertTrue(all(value > 0 for value in measured), measured)
        self.kill_and_pause(15, undisturbed, **wishes)

    def test_two_jobs_share_a_cluster(self):
        with Cluster(self.id()) as cluster:
            first = Job(cluster, name="first").submit(devices=3)
            second = Job(cluster, name="second").submit(devices=3)
            first.wait_running(3)
            second.wait_running(3)
            used = [(worker["node"], worker["slot"]) for job in (first, second)
                    for worker in job.plan()["workers"]]
            self.assertEqual(len(set(used)), 6)
            for job in (first, second):
                job.wait_step(5)
            cluster.wait("the leader says that both jobs run", lambda: all(
                self.samples(cluster, RUNNING.format(name)) for name in ("first", "second")))
            self.assert_scraped(cluster)
            for job in (first, second):
                job.wait_step(100)
                self.end(job)

    @staticmethod
    def pages(cluster):
        return [node.ask("/metrics").splitlines() for node in cluster.nodes.values()]

    def samples(self, cluster, begin):
        return [line for page in self.pages(cluster) for line in page if line.startswith(begin)]

    def assert_scraped(self, cluster):
        """Prometheus hears each job's numbers from one node, and every job's state from the leader."""
        for name in ("first", "second"):
            for begin in (f'firn_job_loss{{job="{name}"}} ', RUNNING.format(name)):
                told = self.samples(cluster, begin)
                self.assertEqual(len(told), 1, f"{begin}: {told}")
        pages = self.pages(cluster)
        self.assertEqual(sum(page.count("firn_node_leads 1") for page in pages), 1)
        self.assertEqual([page.count('firn_slots{state="busy"} 2') for page in pages], [1, 1, 1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
