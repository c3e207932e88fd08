"""A cluster of `firnctl local` for benchmarks, the job on it, and the report that a benchmark writes."""
import contextlib
import glob
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAMS = os.environ.get("FIRN_BIN", "build/bin")
OUTPUT = os.environ.get("FIRN_BENCH_OUT", "build/bench")
WAIT_SECONDS = 60
POLL_SECONDS = 0.02
STEADY_STEPS = 20  # that a layout must have committed before it is disturbed


def median(values):
    return statistics.median(values) if values else float("nan")


PROBE = """
name: probe
model: {family: gpt2, layers: 6, width: 64, heads: 4, context: 64, vocab: 256, tied: true}
data: {format: bytes, path: /usr/include/linux, validation: 0.05}
train: {steps: 1000000, lanes: 12, micro_batch: 1, seed: 1, optimizer: {lr: 1e-3}}
elastic: {devices: {min: 1, max: 16}, freeze: {policy: none}}
"""


class Cluster:
    """A local cluster in a folder of its own, stopped and removed at the end, with one job on it."""

    def __init__(self, nodes, slots, *flags, programs=PROGRAMS):
        self.programs = programs
        self.folder = tempfile.mkdtemp(prefix="firn-bench-")
        self.job, self.patience = None, WAIT_SECONDS
        self.nodes, self.slots, self.workers = nodes, slots, nodes * slots
        self.flags = flags
        self.environment = dict(os.environ)

    def __enter__(self):
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # the cluster goes with the benchmark
        began = time.monotonic()
        self.firnctl("local", "up", "--dir", self.folder, "--nodes", str(self.nodes), "--slots",
                     str(self.slots), *self.flags)
        self.up_seconds = time.monotonic() - began
        for line in self.firnctl("local", "env", "--dir", self.folder).splitlines():
            name, _, value = line.removeprefix("export ").partition("=")
            self.environment[name] = value.strip("'\"")
        return self

    def __exit__(self, kind, error, trace):
        with contextlib.suppress(subprocess.SubprocessError):
            self.firnctl("local", "down", "--dir", self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    def firnctl(self, *arguments, seconds=WAIT_SECONDS):
        return subprocess.run([f"{self.programs}/firnctl", *arguments], check=True, timeout=seconds, text=True, errors="replace",
                              stdout=subprocess.PIPE, env=self.environment).stdout

    def submit(self, file, job, *flags):
        """Unix seconds before the job was handed over."""
        self.job = job
        began = time.time()
        self.firnctl("job", "submit", file, "--name", job, *flags)
        return began

    def lines(self):
        """The metrics of all nodes by step."""
        return {line["step"]: line for line in self.read("metrics.jsonl")}

    def read(self, name):
        for path in glob.glob(f"{self.folder}/nodes/*/jobs/{self.job}/{name}"):
            with open(path, encoding="utf-8") as file:
                for text in file:
                    if not text.endswith("\n"):
                        break  # it is being written: its end would be read as another line
                    yield json.loads(text)

    def await_that(self, what, condition):
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(POLL_SECONDS)
        raise SystemExit(f"{self.job}: not within {self.patience} s: {what}")

    def steady(self, workers):
        """The generation of a layout of that many workers that has committed for a while."""
        def look():
            lines = sorted(self.lines().values(), key=lambda line: line["step"])[-STEADY_STEPS:]
            if len(lines) == STEADY_STEPS and len({line["generation"] for line in lines}) == 1 and \
                    lines[-1]["workers"] == workers:
                return lines[-1]["generation"]
            return None
        return self.await_that(f"{workers} workers commit steps", look)

    def recovered(self, generation, since):
        """Seconds from @since to the first commit of a generation after @generation."""
        line = self.await_that("a step is committed after a fault", lambda: min(
            (line for line in self.lines().values() if line["generation"] > generation),
            key=lambda line: line["step"], default=None))
        return line["unix_ns"] / 1e9 - since

    def step_seconds(self, generation):
        return median([line["step_ms"] / 1e3 for line in self.lines().values() if line["generation"] == generation])

    def longest_silence(self, step):
        """Seconds between two commits, at most, from that step on."""
        times = sorted(line["unix_ns"] / 1e9 for line in self.lines().values() if line["step"] >= step)
        return max(later - earlier for earlier, later in zip(times, times[1:]))

    def status(self):
        return json.loads(self.firnctl("local", "status", "--dir", self.folder, "--json"))["nodes"]

    def leader(self):
        """The node whose daemon leads; waits for one."""
        def look():
            nodes = json.loads(self.firnctl("node", "list", "--json"))["nodes"]
            return next((node["name"] for node in nodes if node["leads"]), None)
        return self.await_that("a daemon leads", look)


def submit_probe(cluster):
    """A small endless job."""
    path = cluster.folder + "/probe.yaml"
    with open(path, "w", encoding="ascii") as file:
        file.write(PROBE)
    return cluster.submit(path, "probe")


class Report:
    """What was measured, on the terminal and in <FIRN_BENCH_OUT, else build/bench>/<name>.json."""

    def __init__(self, name, what):
        self.name, self.results = name, {}
        self.head = {"benchmark": name, "what": what, "command": " ".join(sys.argv),
                     "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                     "processor": first_value("/proc/cpuinfo", "model name"),
                     "load_at_start": " ".join(f"{load:.2f}" for load in os.getloadavg())}
        self.say(f"== {name}: {what}\n   {self.head['command']} (load {self.head['load_at_start']})")

    def say(self, text, **results):
        print(text, flush=True)
        self.results |= results

    def write(self):
        os.makedirs(OUTPUT, exist_ok=True)
        with open(f"{OUTPUT}/{self.name}.json", "w", encoding="ascii") as file:
            json.dump({**self.head, "results": self.results}, file, indent=2)


def first_value(path, key):
    with open(path, encoding="ascii") as file:
        return next((line.split(": ")[1].strip() for line in file if line.startswith(key)), "unknown")
