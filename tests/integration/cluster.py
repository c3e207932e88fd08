"""A real cluster for tests: an etcd and some firnd on 127.0.0.1, in a folder of its own.

Every wait is for a condition, with a deadline and a reason; what a test does is written to a timeline
that is shown when it fails, with the ends of the logs. Processes are ended by their ids, and only
those that name this cluster's folder, so several clusters and other people's can run beside it.
"""
import base64
import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("FIRN_BIN", REPOSITORY + "/build/bin")
ETCD = shutil.which("etcd") or "/usr/bin/etcd"
PR_SET_PDEATHSIG = 1
FAILURE_TIMEOUT_MS = 1500
PIPELINE = ("--slot-memory-mb", "1")  # less than a replica of job.SPEC needs: three stages at first
POLL_SECONDS = 0.02


class Timeout(AssertionError):
    """A condition did not come true in time."""


def pause():
    """Between two looks at a condition."""
    time.sleep(POLL_SECONDS)


def die_with_parent():
    """In a child before exec: a test program that is killed leaves no etcd and no firnd behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_ports(count):
    """Adjacent free ports below the range of outgoing connections, so none is taken meanwhile."""
    while True:
        first = random.randrange(16000, 31000)
        with contextlib.ExitStack() as sockets:
            try:
                for port in range(first, first + count):
                    sockets.enter_context(socket.socket()).bind(("127.0.0.1", port))
                return first
            except OSError:
                continue


def is_alive(pid):
    """A zombie is dead: whoever waits for it is slow, that is all."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def kill(pid, number=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def http_json(url, data=None, timeout=2):
    body = json.dumps(data).encode() if data is not None else None
    with urllib.request.urlopen(url, body, timeout) as answer:
        return json.load(answer)


def tail(path, lines=25):
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-lines:])
    except OSError as error:
        return f"{error}\n"


class Etcd:
    """One member that survives its own death: the data stays."""

    def __init__(self, folder):
        self.folder, self.process = folder, None
        self.client, self.peer = free_ports(1), free_ports(1)
        self.url = f"http://127.0.0.1:{self.client}"

    def launch(self):
        peer = f"http://127.0.0.1:{self.peer}"
        with open(self.folder + "/etcd.log", "ab") as log:
            self.process = subprocess.Popen(
                [ETCD, "--name", "m", "--data-dir", self.folder + "/etcd", "--unsafe-no-fsync",
                 "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                 "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                 "--initial-cluster", "m=" + peer, "--heartbeat-interval", "10",
                 "--election-timeout", "100", "--log-level", "warn"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def healthy(self):
        try:
            return http_json(self.url + "/health").get("health") == "true"
        except (OSError, ValueError):
            return False

    def call(self, what, request):
        return http_json(f"{self.url}/v3/kv/{what}", request)

    def put(self, key, value):
        text = base64.b64encode(json.dumps(value).encode()).decode()
        self.call("put", {"key": base64.b64encode(key.encode()).decode(), "value": text})

    def delete(self, key):
        self.call("deleterange", {"key": base64.b64encode(key.encode()).decode()})

    def range(self, prefix):
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        answer = self.call("range", {"key": base64.b64encode(prefix.encode()).decode(),
                                     "range_end": base64.b64encode(end.encode()).decode()})
        return {base64.b64decode(entry["key"]).decode():
                json.loads(base64.b64decode(entry["value"])) for entry in answer.get("kvs", [])}

    def get(self, key):
        return self.range(key).get(key)


class Node:
    """One firnd and the workers that it has started."""

    def __init__(self, cluster, name, slots, flags=()):
        self.cluster, self.name, self.slots, self.flags = cluster, name, slots, flags
        self.http = f"127.0.0.1:{free_ports(1)}"
        self.link_port = free_ports(slots)
        self.data, self.run = f"{cluster.folder}/{name}", f"{cluster.folder}/run-{name}"
        self.log = f"{cluster.folder}/{name}.log"
        self.process = None

    def command(self):
        return [BIN + "/firnd", "--cluster", self.cluster.name, "--node", self.name, "--endpoints",
                self.cluster.etcd.url, "--link-port", str(self.link_port), "--http", self.http,
                "--data-dir", self.data, "--run-dir", self.run, "--checkpoint-dir",
                self.cluster.checkpoints, "--slots", str(self.slots), "--failure-timeout-ms",
                str(FAILURE_TIMEOUT_MS), "--log", "stderr", *self.flags]

    def launch(self):
        self.cluster.note(f"firnd {self.name} starts")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, preexec_fn=die_with_parent)

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
        mark, found = self.run.encode() + b"/workers/", []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as line:
                if mark in line.read() and is_alive(pid):
                    found.append(int(pid))
        return sorted(found)

    def ask(self, path):
        """What firnd says over HTTP; None when it does not."""
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=2) as answer:
                return answer.read().decode()
        except OSError:
            return None

    def status(self):
        return json.loads(self.ask("/v1/node") or "{}")

    def job_workers(self, job):
        text = self.ask(f"/v1/jobs/{job}/workers")
        return json.loads(text)["workers"] if text else []


class Cluster:
    """with Cluster(self.id(), nodes=3, slots=2) as cluster: ..."""

    def __init__(self, purpose, nodes=3, slots=2, flags=()):
        self.purpose, self.began, self.timeline = purpose, time.monotonic(), []
        self.folder = tempfile.mkdtemp(prefix="firn-test-")
        self.checkpoints = self.folder + "/checkpoints"
        self.name = "t" + os.path.basename(self.folder).replace("_", "-").lower()
        self.etcd = Etcd(self.folder)
        self.nodes = {name: Node(self, name, slots, flags) for name in "abcdefgh"[:nodes]}

    def __enter__(self):
        try:
            self.etcd.launch()
            self.wait("etcd is healthy", self.etcd.healthy)
            self.launch()
        except BaseException:
            self.stop()
            self.show()
            raise
        return self

    def __exit__(self, kind, error, trace):
        self.stop()
        if kind and not issubclass(kind, unittest.SkipTest):
            self.show()
        else:
            shutil.rmtree(self.folder)

    def launch(self):
        """Every node that does not run; returns when all are registered."""
        for node in self.nodes.values():
            if not node.process:
                node.launch()
        self.wait_registered(*self.nodes)

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
        deadline = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                self.note(f"so it is: {what}")
                return value
            if time.monotonic() > deadline:
                raise Timeout(f"not within {seconds} s: {what}")
            pause()

    def leader(self):
        """The node that leads; None while there is none."""
        for node in self.nodes.values():
            if node.process and node.status().get("leads"):
                return node
        return None

    def wait_leader(self):
        return self.wait("somebody leads", self.leader)
