#!/usr/bin/env python3
"""Who may read what nodes tell over HTTP: those who show the token, over TLS where nodes have
certificates; and the cluster goes on with both."""
import json
import os
import shutil
import subprocess
import time
import unittest
import urllib.error
import urllib.request

from lib.cluster import BIN, Cluster, kill, make_secret
from lib.job import JobTest
from test_copies import SpreadJob, lose

TOKEN = "a-token.that_is~long/enough+for=all"
READING = (("metrics", "job"), ("report", "job"), ("top", "--once"), ("job", "events", "job"), ("job", "logs", "job"))


def firnctl(cluster, *words, **environment):
    """(exit status, standard output, standard error)"""
    known = {key: value for key, value in os.environ.items() if not key.startswith("FIRN_")}
    done = subprocess.run([BIN + "/firnctl", *words, "--endpoints", cluster.etcd.url, "--cluster", cluster.name],
                          env={**known, **environment}, stdin=subprocess.DEVNULL, capture_output=True,
                          encoding="utf-8", timeout=60, check=False)
    cluster.note(f"firnctl {' '.join(words)}: {done.returncode} {done.stderr}")
    return done.returncode, done.stdout, done.stderr


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


class Access(JobTest):
    def assert_refused(self, cluster, words, *more, **environment):
        for command in READING:
            code, _, text = firnctl(cluster, *command, *more, **environment)
            self.assertEqual(code, 1, (command, text))
            self.assertIn(words, text)

    def assert_told(self, cluster, *more, **environment):
        for command in READING:
            code, text, problem = firnctl(cluster, *command, *more, **environment)
            self.assertEqual((code, bool(text)), (0, True), (command, problem))
        code, text, _ = firnctl(cluster, "top", "--json", *more, **environment)
        self.assertEqual(len(json.loads(text)["workers"]), 2)

    def survive(self, cluster, job):
        """A killed worker, a lost disk whose files come from the other node, and etcd away from a job on one node."""
        job.wait_step(50)
        node, pid = job.rank_of(1)
        cluster.note(f"the worker of rank 1 on node {node.name} is killed")
        kill(pid)
        job.wait_step(job.step() + 40)
        record = job.wait_copies(2, job.step())
        lose(cluster, "b")
        cluster.nodes["b"].launch()
        job.wait_running(2)
        job.wait_step(record["step"] + 40)
        job.wait_copies(2, record["step"])
        job.ask(devices=1, stages=0, replicas=0)
        job.wait_running(1)
        cluster.note("etcd is killed")
        cluster.etcd.kill()
        gone = time.monotonic()
        cluster.wait("12 s are over", lambda: time.monotonic() - gone > 12)
        job.wait_step(job.step() + 50)  # the neighbours told each other that etcd is away for both
        self.assertEqual(job.events("fencing"), [])
        cluster.etcd.launch()
        cluster.wait("etcd is healthy again", cluster.etcd.healthy)
        cluster.wait_registered(*cluster.nodes)
        self.end(job)


    def assert_distrust(self, cluster, flag, path, words):
        """One node gets that @path for its @flag; as soon as they have to ask each other the log says @words."""
        node = cluster.nodes["b"]
        node.kill_daemon()
        node.flags = list(node.flags)
        node.flags[node.flags.index(flag) + 1] = path
        cluster.note(f"node b gets {flag} {path}")
        node.launch()
        cluster.wait("b is back", lambda: read(node.log).count("is registered in cluster") == 2)
        job = SpreadJob(cluster).submit(devices=1)
        job.wait_running(1)
        self.assertFalse(any(words in read(other.log) for other in cluster.nodes.values()))
        cluster.note("etcd is killed")
        cluster.etcd.kill()
        cluster.wait("the log says so", lambda: any(words in read(other.log) for other in cluster.nodes.values()))


class Token(Access):
    def test_nodes_of_different_tokens_say_so(self):
        with Cluster(self.id(), nodes=2, slots=1, token=TOKEN) as cluster:
            other = make_secret(cluster.folder + "/other", TOKEN[::-1])
            self.assert_distrust(cluster, "--http-token", other, "http_token must name the same token")

    def test_readers_show_it_and_nodes_each_other(self):
        with Cluster(self.id(), nodes=2, slots=1, own_disks=True, token=TOKEN) as cluster:
            job = SpreadJob(cluster, checkpoint__copies=2).submit(stages=2, replicas=1)
            job.wait_running(2)
            job.wait_copies(2)
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"http://{cluster.nodes['a'].http}/metrics", timeout=10)
            self.assertEqual(refused.exception.code, 401)
            refused.exception.close()
            self.assertIn("firn_", cluster.nodes["a"].ask("/metrics"))
            self.assert_refused(cluster, "--token-file or FIRN_TOKEN_FILE")
            other = make_secret(cluster.folder + "/other", TOKEN[::-1])
            self.assert_refused(cluster, f"refuses the token of {other}", "--token-file", other)
            self.assert_refused(cluster, "FIRN_TOKEN_FILE: ", FIRN_TOKEN_FILE="/nowhere/token")
            code, text, problem = firnctl(cluster, "job", "show", "job")  # etcd knows the most of it
            self.assertEqual((code, "running" in text), (0, True))
            self.assertIn("FIRN_TOKEN_FILE", problem)
            self.assert_told(cluster, "--token-file", cluster.token_file)
            self.assert_told(cluster, FIRN_TOKEN_FILE=cluster.token_file)
            self.survive(cluster, job)


@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed, so there are no certificates")
class Tls(Access):
    def test_nodes_are_reached_over_tls_and_checked(self):
        with Cluster(self.id(), nodes=2, slots=1, own_disks=True, token=TOKEN, tls=True) as cluster:
            shown = {"FIRN_TOKEN_FILE": cluster.token_file}
            trusted = {**shown, "FIRN_AUTHORITIES": cluster.authorities}
            job = SpreadJob(cluster, checkpoint__copies=2).submit(stages=2, replicas=1)
            job.wait_running(2)
            job.wait_copies(2)
            code, text, _ = firnctl(cluster, "node", "list")
            self.assertEqual((code, text.count("https://127.0.0.1:")), (0, 2), text)
            with self.assertRaises(OSError):  # in plain nothing is told
                urllib.request.urlopen(f"http://{cluster.nodes['a'].http}/metrics", timeout=10)
            self.assert_refused(cluster, "of no authority that we trust", **shown)
            self.assert_refused(cluster, "--authorities or FIRN_AUTHORITIES names the file", **shown)
            self.assert_refused(cluster, "--token-file or FIRN_TOKEN_FILE", FIRN_AUTHORITIES=cluster.authorities)
            self.assert_refused(cluster, "--authorities: /nowhere/ca.pem", "--authorities", "/nowhere/ca.pem")
            self.assert_told(cluster, **trusted)
            self.assert_told(cluster, "--token-file", cluster.token_file, "--authorities", cluster.authorities)
            code, text, problem = firnctl(cluster, "checkpoint", "export", "job", cluster.folder + "/kept",
                                          "--authorities", cluster.authorities)
            self.assertEqual(code, 0, text + problem)
            self.survive(cluster, job)


if __name__ == "__main__":
    unittest.main()
