"""A real cluster for tests: an etcd and some firnd, in a folder of its own.

Every wait is for a condition, with a deadline and a reason; what a test does is written to a timeline
that is shown when it fails, with the ends of the logs. Processes are ended by their ids, and only
those that name this cluster's folder, so several clusters and other people's can run beside it.
"""
import functools
import glob
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.request

from lib.etcd import Etcd
from lib.ports import Ports
from lib.processes import Heir, die_with_parent, kill, naming

REPOSITORY = os.path.abspath(os.path.dirname(__file__) + "/../../..")
BIN = os.environ.get("FIRN_BIN", REPOSITORY + "/build/bin")
SLOWNESS = float(os.environ.get("FIRN_SLOWNESS", "1"))  # of this build: 4 for one with sanitizers, say
CACHE = tempfile.TemporaryDirectory(prefix="firn-cache-")  # firnctl remembers clusters in the user's
os.environ["XDG_CACHE_HOME"] = CACHE.name
SUPPRESSIONS = os.path.dirname(os.path.abspath(__file__)) + "/tsan.suppressions"
FAILURE_TIMEOUT_MS = int(1500 * SLOWNESS)
PIPELINE = ("--slot-memory-mb", "1")  # less than a replica of job.SPEC needs: two stages at first
POLL_SECONDS = 0.02


class Timeout(AssertionError):
    """A condition did not come true in time."""


def pause():
    """Between two looks at a condition."""
    time.sleep(POLL_SECONDS)


def tail(path, lines=25):
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-lines:])
    except OSError as error:
        return f"{error}\n"


def make_secret(path, text):
    """A file that nobody else may read; returns its path."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(text + "\n")
    return path


def make_certificates(folder):
    """An authority of its own, and a certificate for nodes at 127.0.0.1; returns firnd's flags."""
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    for command in (["req", "-x509", *curve, "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem"],
                    ["req", "-x509", *curve, "-subj", "/CN=node", "-addext", "subjectAltName=IP:127.0.0.1",
                     "-addext", "basicConstraints=critical,CA:FALSE", "-CA", "ca.pem", "-CAkey", "ca.key",
                     "-keyout", "node.key", "-out", "node.pem"]):
        subprocess.run(["openssl", *command], cwd=folder, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return ("--http-certificate", folder + "/node.pem", "--http-key", folder + "/node.key",
            "--http-authorities", folder + "/ca.pem")


@functools.lru_cache(maxsize=None)
def usual_rates():
    """What a node keeps of its measured speed: a slow processor's, so that every machine gets the same layouts."""
    def answer(*command):
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    version = answer(BIN + "/firnd", "--version").split()[-1]
    return (f"{answer(BIN + '/firn-worker', 'identity', 'cpu')}, 1 thread; {models[0] if models else 'processor'}; firn {version}\n"
            "f32 3e+10 memory 1.2e+10\n")


class Node:
    """One firnd and the workers that it has started."""

    def __init__(self, cluster, name, slots, flags=()):
        self.cluster, self.name, self.slots, self.flags = cluster, name, slots, flags
        self.cable = cluster.network.add() if cluster.network else None  # its number
        self.address = cluster.network.address(self.cable) if cluster.network else "127.0.0.1"
        self.http = f"{self.address}:{cluster.ports.take(1)}"
        self.link_port = cluster.ports.take(slots)
        self.data, self.run = f"{cluster.folder}/{name}", f"{cluster.folder}/run-{name}"
        self.checkpoints = self.data + "/checkpoints" if cluster.own_disks else cluster.checkpoints
        self.wrapper = []  # a command that runs firnd
        self.measures = False  # how fast its slots are, in truth
        self.home = None  # where firnd and its workers are, when that matters
        self.log = f"{cluster.folder}/{name}.log"
        self.process = None

    def command(self):
        return [*self.wrapper, BIN + "/firnd", "--cluster", self.cluster.name, "--node", self.name, "--endpoints",
                self.cluster.etcd.url, "--address", self.address, "--link-port", str(self.link_port), "--http", self.http,
                "--data-dir", self.data, "--run-dir", self.run, "--checkpoint-dir",
                self.checkpoints, "--slots", str(self.slots), "--failure-timeout-ms",
                str(FAILURE_TIMEOUT_MS), "--log", "stderr", *self.flags]

    def launch(self):
        self.cluster.note(f"firnd {self.name} starts")
        if not self.measures and not os.path.exists(self.data + "/cpu-rates"):
            os.makedirs(self.data, exist_ok=True)
            with open(self.data + "/cpu-rates", "w", encoding="utf-8") as rates:
                rates.write(usual_rates())
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, **self.cluster.environment}, cwd=self.home,
                                            preexec_fn=self.settle)

    def settle(self):
        """In the child before exec."""
        if self.cable is not None:
            self.cluster.network.enter(self.cable)
        die_with_parent()

    def cut(self):
        self.cluster.note(f"the cable of node {self.name} is cut")
        self.cluster.network.cut(self.cable)

    def mend(self):
        self.cluster.note(f"the cable of node {self.name} is mended")
        self.cluster.network.mend(self.cable)

    def kill_daemon(self):
        self.cluster.note(f"firnd {self.name} is killed")
        self.process.kill()
        self.process.wait()
        self.process = None

    def kill(self):
        """The whole node at once, as near as signals come to pulling the plug."""
        workers = self.workers()
        self.cluster.note(f"node {self.name} is killed with workers {workers}")
        self.process.send_signal(signal.SIGSTOP)  # it must not speak of its workers' end
        for pid in workers:
            kill(pid)
        self.process.kill()
        self.process.wait()
        self.process = None

    def terminate(self):
        self.cluster.note(f"firnd {self.name} gets SIGTERM")
        self.process.terminate()

    def workers(self):
        """Ids of its living worker processes."""
        return naming(self.run + "/workers/")

    def ask(self, path):
        """What firnd says over HTTP; None when it does not."""
        try:
            scheme = "https" if self.cluster.tls else "http"
            request = urllib.request.Request(f"{scheme}://{self.http}{path}", headers=self.cluster.headers)
            with urllib.request.urlopen(request, timeout=2, context=self.cluster.tls) as answer:
                return answer.read().decode()
        except OSError:
            return None

    def read(self, path):
        """A file of its data folder; empty when there is none."""
        try:
            with open(f"{self.data}/{path}", encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def status(self):
        return json.loads(self.ask("/v1/node") or "{}")

    def job_workers(self, job):
        text = self.ask(f"/v1/jobs/{job}/workers")
        return json.loads(text)["workers"] if text else []


class Cluster:
    """with Cluster(self.id(), nodes=3, slots=2) as cluster: ...

    @members: of etcd; @network: a Network, else all nodes share 127.0.0.1; @clock: a Clock that all go by;
    @own_disks: each node has a folder of its own for checkpoints; @token: that nodes want to be shown over HTTP;
    @tls: which they speak over TLS, with certificates of an authority of this cluster
    """

    def __init__(self, purpose, nodes=3, slots=2, flags=(), members=1, network=None, clock=None, own_disks=False,
                 token=None, tls=False):
        self.purpose, self.began, self.timeline = purpose, time.monotonic(), []
        self.folder = tempfile.mkdtemp(prefix="firn-test-")
        self.checkpoints = self.folder + "/checkpoints"
        self.name = "t" + os.path.basename(self.folder).replace("_", "-").lower()
        self.heir = None
        self.headers, self.token_file = {}, self.folder + "/token"
        self.tls, self.authorities = None, self.folder + "/ca.pem"
        if tls:
            flags = [*flags, *make_certificates(self.folder)]
            self.tls = ssl.create_default_context(cafile=self.authorities)
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
            flags = [*flags, "--http-token", make_secret(self.token_file, token)]
        self.clock, self.network, self.own_disks, self.ports = clock, network, own_disks, Ports()
        self.environment = {**self.sanitizing(), **(clock.environment if clock else {})}
        self.etcd = Etcd(self.folder, self.ports, members, network.host if network else "127.0.0.1")
        self.nodes = {name: Node(self, name, slots, flags) for name in "abcdefgh"[:nodes]}

    def sanitizing(self):
        """The environment in which programs with sanitizers write reports where stop() leaves them."""
        reports = f"log_path={self.folder}/sanitizer"
        return {
            # Programs are not dumpable, for the sake of their keys, so LeakSanitizer may not trace them.
            "ASAN_OPTIONS": f"{reports}:detect_leaks=0", "UBSAN_OPTIONS": f"{reports}:print_stacktrace=1",
            "TSAN_OPTIONS": f"{reports}:suppressions={SUPPRESSIONS}:print_suppressions=0"}

    def reports(self):
        """What sanitizers have found in this cluster's programs."""
        return [f"{path}\n{tail(path, 200)}" for path in sorted(glob.glob(self.folder + "/sanitizer.*"))]

    def __enter__(self):
        self.heir = Heir(self.folder + "/run-")
        try:
            self.etcd.launch()
            self.wait("etcd is healthy", self.etcd.healthy)
            self.launch()
        except BaseException:
            self.stop()
            self.release()
            self.show()
            raise
        return self

    def __exit__(self, kind, error, trace):
        self.stop()
        self.release()
        reports = self.reports()
        if reports or (kind and not issubclass(kind, unittest.SkipTest)):
            self.show()
            if reports:
                raise AssertionError("a sanitizer has found:\n" + "\n".join(reports)) from error
        else:
            shutil.rmtree(self.folder)
            if os.environ.get("FIRN_TIMELINE"):
                print(f"\n==== {self.purpose}", *self.timeline, sep="\n")

    def launch(self):
        """Every node that does not run; returns when all are registered."""
        for node in self.nodes.values():
            if not node.process:
                node.launch()
        self.wait_registered(*self.nodes)

    def add(self, name, slots, flags=None):
        """Another node, which launch() starts."""
        flags = next(iter(self.nodes.values())).flags if flags is None else flags
        self.nodes[name] = Node(self, name, slots, flags)
        return self.nodes[name]

    def add_twin(self, name):
        """Another firnd that says it is that node, with folders and ports of its own."""
        twin = Node(self, name + "-twin", 2)
        twin.name = name
        self.nodes[name + "-twin"] = twin
        twin.launch()
        return twin

    def wait_registered(self, *names):
        self.wait(f"nodes {' '.join(names)} are registered", lambda: all(
            self.nodes[name].status().get("registered") for name in names))

    def stop(self):
        """Everything, by its process id; never fails."""
        for node in self.nodes.values():
            if node.process:
                node.process.kill()
                node.process.wait()
                node.process = None
        for node in self.nodes.values():
            for pid in node.workers():
                kill(pid)
        self.etcd.kill()

    def release(self):
        """What the cluster had of the machine."""
        self.heir.dismiss()
        self.ports.close()
        if self.network:
            self.network.close()

    def note(self, text):
        self.timeline.append(f"{time.monotonic() - self.began:7.2f} s  {text}")

    def show(self):
        """What a person needs to understand a failure; the folder stays."""
        print(f"\n==== {self.purpose}: {self.folder} stays for inspection")
        print("\n".join(self.timeline))
        for node in self.nodes.values():
            print(f"---- firnd {node.name}\n{tail(node.log)}", end="")
        for folder, _, files in sorted(os.walk(self.folder)):
            for name in sorted(files):
                if name.startswith("worker-") and name.endswith(".log"):
                    print(f"---- {folder}/{name}\n{tail(os.path.join(folder, name), 8)}", end="")

    def wait(self, what, condition, seconds=60):
        """Until condition() is true; returns its value."""
        self.note(f"waits until {what}")
        deadline = time.monotonic() + seconds * SLOWNESS
        while True:
            value = condition()
            if value:
                self.note(f"so it is: {what}")
                return value
            if time.monotonic() > deadline:
                raise Timeout(f"not within {seconds * SLOWNESS:.0f} s: {what}")
            pause()

    def leader(self):
        """The node that leads; None while there is none."""
        for node in self.nodes.values():
            if node.process and node.status().get("leads"):
                return node
        return None

    def wait_leader(self):
        return self.wait("somebody leads", self.leader)
