"""A small job on a cluster of cluster.py: what it is told, what it says, and its undisturbed run."""
import contextlib
import copy
import glob
import hashlib
import json
import os
import unittest

from lib import checkpoint_format
from lib.cluster import BIN, SLOWNESS, Cluster

STEPS_LEAST = int(1200 / SLOWNESS)  # of the undisturbed run
RUNS_MOST = 4  # of it, to see the checkpoints that are compared
ENDLESS = 10 ** 6  # steps of a job that goes on until its test has seen enough
CHECKPOINT_EVERY = 40
FREEZE_EVERY = 160
OVER = ("completed", "cancelled", "failed")

# Thirteen units, so that three stages of four layers and every number of replicas up to 12 fit. The
# learning rate is constant and nothing but the number of steps depends on the number of steps, so a
# longer job begins as a shorter one.
SPEC = {
    "name": "job",
    "model": {"family": "gpt2", "layers": 4, "width": 32, "heads": 2, "context": 32, "vocab": 256,
              "tied": True},
    "data": {"format": "bytes", "path": "/usr/include/linux",
             "validation": 0.1},
    "train": {"steps": ENDLESS, "lanes": 12, "micro_batch": 1, "micro_batches_per_lane": 1, "seed": 7,
              "optimizer": {"lr": 0.003, "warmup": 20, "schedule": "constant"}},
    "elastic": {"freeze": {"policy": "gradient", "every": FREEZE_EVERY, "keep_active": 2}},
    "checkpoint": {"every": CHECKPOINT_EVERY, "keep": 3},
    "evaluate": {"every": 100, "batches": 4},
}


def make_spec(**changes):
    """SPEC with changes: make_spec(name="b", train__steps=10)."""
    spec = copy.deepcopy(SPEC)
    for path, value in changes.items():
        *sections, key = path.split("__")
        at = spec
        for section in sections:
            at = at[section]
        at[key] = value
    return spec


def unpack_word(before, word):
    """Two letters for what it shares with the one @before at its begin and end, then the rest."""
    begin, end = (ord(letter) - ord("a") for letter in word[:2])
    return before[:begin] + word[2:] + before[len(before) - end:]


def unpack_workers(text):
    """The packed workers of a plan, as elastic/plan/plan_workers.h says, one by one."""
    workers, node, address = [], "", ""
    for worker in text.split(",") if text else []:
        node_word, slot, address_word, instance = worker.split(" ")
        node = unpack_word(node, node_word)
        address = unpack_word(address, address_word)
        workers.append({"node": node, "slot": int(slot), "address": address,
                        "instance": f"{int(instance, 16):016x}"})
    return workers


class Job:
    """A job by its keys in etcd and its files; firnctl is tested elsewhere."""

    def __init__(self, cluster, **changes):
        self.cluster, self.spec = cluster, make_spec(**changes)
        self.name, self.steps = self.spec["name"], self.spec["train"]["steps"]
        self.wish = {"state": "running", "devices": 0, "stages": 0, "replicas": 0}
        self.root = f"/firn/v1/{cluster.name}/jobs/{self.name}/"
        self.said = f"/firn/v1/{cluster.name}/said/{self.name}/"
        self.read = {}  # of metrics, by path

    def submit(self, **wishes):
        self.ask(**wishes)
        self.cluster.note(f"job {self.name} is submitted")
        self.cluster.etcd.put(self.root + "spec", self.spec)
        return self

    def ask(self, **wishes):
        """state, devices, stages, replicas: what firnctl job scale, pause, resume, cancel write."""
        self.wish.update(wishes)
        self.cluster.note(f"job {self.name}: asked for {wishes}")
        self.cluster.etcd.put(self.root + "desired", self.wish)

    def key(self, leaf):
        try:
            root = self.said if leaf in ("progress", "state") else self.root
            return self.cluster.etcd.get(root + leaf) or {}
        except OSError:
            return {}

    def state(self):
        return self.key("state").get("state", "")

    def why(self):
        return self.key("state").get("text", "")

    def plan(self):
        plan = self.key("generation")
        if plan:
            plan["workers"] = unpack_workers(plan["workers"])
        return plan

    def team(self):
        """Who trains by the plan in force: without those who only hand over what they hold."""
        plan = self.plan()
        return plan.get("workers", [])[:plan.get("stages", 0) * plan.get("replicas", 0)]

    def checkpoints(self):
        """Records, oldest first."""
        records = self.cluster.etcd.range(self.root + "checkpoints/")
        return [records[key] for key in sorted(records)]

    def objects(self):
        """Records of the object store, oldest first."""
        records = self.cluster.etcd.range(self.root + "objects/")
        return [records[key] for key in sorted(records)]

    def lines(self):
        """Every whole line of metrics that any node has, with the file that it is from."""
        for path in glob.glob(f"{self.cluster.folder}/?/jobs/{self.name}/metrics.jsonl"):
            with contextlib.ExitStack() as closing:
                try:
                    file = closing.enter_context(open(path, "rb"))
                except FileNotFoundError:  # just put aside, for a job of that name that begins anew
                    continue
                file_id = os.fstat(file.fileno()).st_ino  # another one when a history has been put before it
                known = self.read.setdefault((path, file_id), [0, [], b""])  # bytes, lines in them, the last of these
                file.seek(known[0] - len(known[2]))
                if file.read(len(known[2])) != known[2]:  # a history put before it, twice: of the first one's number
                    known[:] = [0, [], b""]
                    file.seek(0)
                whole = file.read().rpartition(b"\n")
            if whole[1]:
                texts = whole[0].split(b"\n")
                known[0] += len(whole[0]) + 1
                known[1] += [json.loads(text) for text in texts]
                known[2] = texts[-1] + b"\n"
            for line in known[1]:
                yield path, line

    def metrics(self):
        """step -> its exact line, of all nodes together; nodes must not contradict each other."""
        steps = {}
        for path, line in self.lines():
            exact = " ".join(str(line[key]) for key in
                             ("step", "loss_bits", "grad_norm_bits", "frozen_layers"))
            if steps.setdefault(line["step"], exact) != exact:
                raise AssertionError(f"{path}: {exact}, elsewhere {steps[line['step']]}")
        return steps

    def newest(self, count):
        """The lines of the last so many steps."""
        steps = {line["step"]: line for _, line in self.lines()}
        return [steps[step] for step in sorted(steps)[-count:]]

    def exact(self):
        steps = self.metrics()
        return [steps[step] for step in sorted(steps)]

    def step(self):
        return max((line["step"] for _, line in self.lines()), default=0)

    def events(self, kind=None):
        """Every event that any node has written, in order of time."""
        lines = []
        for path in glob.glob(f"{self.cluster.folder}/?/jobs/{self.name}/events.jsonl"):
            with open(path, encoding="utf-8") as file:
                lines += [json.loads(line) for line in file if line.endswith("\n")]
        lines.sort(key=lambda line: line["unix_ns"])
        return [line for line in lines if kind in (None, line["kind"])]

    def generations(self):
        """(stages, replicas) of each generation that committed a step."""
        return {line["generation"]: (line["stages"], line["replicas"]) for _, line in self.lines()}

    def wait_step(self, step, seconds=60):
        return self.cluster.wait(f"job {self.name} is past step {step}",
                                 lambda: self.step() >= step, seconds)

    def wait_running(self, workers, seconds=60):
        """Every worker of a plan of so many says that it runs in it."""
        def running():
            plan = self.plan()
            if plan.get("stages", 0) * plan.get("replicas", 0) != workers:
                return None
            reports = self.cluster.etcd.range(f"{self.said}reports/{plan['generation']}/")
            phases = [worker["phase"] for report in reports.values() for worker in report["workers"]
                      if worker.get("generation") == plan["generation"]]
            return plan if phases.count("running") == workers else None
        return self.cluster.wait(f"{workers} workers run job {self.name}", running, seconds)

    def wait_state(self, *states, seconds=60):
        def reached():
            state = self.state()
            if state in OVER and state not in states:
                raise AssertionError(f"job {self.name} is {state}: {self.why()}")
            return state if state in states else None
        return self.cluster.wait(f"job {self.name} is {' or '.join(states)}", reached, seconds)

    def wait_completed(self, seconds=120):
        self.wait_state("completed", seconds=seconds)
        self.cluster.wait("its workers are gone", lambda: not any(
            node.workers() for node in self.cluster.nodes.values()), 20)

    def digests(self):
        """step -> state_digest of the committed checkpoints."""
        digests = {}
        for record in self.checkpoints():
            if record.get("damaged"):
                continue
            with open(record["path"] + "/manifest.json", encoding="ascii") as manifest:
                digests[record["step"]] = json.load(manifest)["state_digest"]
        return digests

    def whole(self, record):
        """The folder of a checkpoint, with all of its files."""
        return record["path"]

    def rank_of(self, rank):
        """(node, process id) of the worker with that rank in the plan in force."""
        worker = self.plan()["workers"][rank]
        node = self.cluster.nodes[worker["node"]]
        for running in node.job_workers(self.name):
            if running["slot"] == worker["slot"]:
                return node, running["pid"]
        return node, None


class Reference:
    """The undisturbed run of SPEC on one worker: every exact line, and digests of checkpoints."""

    def __init__(self):
        key = hashlib.sha256(json.dumps(SPEC).encode())
        with open(BIN + "/firn-worker", "rb") as program:
            key.update(program.read())
        self.path = f"{BIN}/undisturbed-{key.hexdigest()[:16]}.json"  # between test programs
        self.lines, self.digests = [], {}
        with contextlib.suppress(FileNotFoundError), open(self.path, encoding="ascii") as file:
            self.take(**json.load(file))

    def take(self, lines, digests):
        self.lines, self.digests = lines, {int(step): digest for step, digest in digests.items()}

    def need(self, steps, boundaries):
        """At least so many steps, and the digest of one of these boundaries.

        A run that is too short is run again; so is one that passed them all without a checkpoint, because
        the one before was still being written. What several runs have seen is put together."""
        for _ in range(RUNS_MOST):
            if len(self.lines) >= steps and (not boundaries or self.digests.keys() & boundaries):
                return
            self.run(max(steps, len(self.lines)))

    def run(self, steps):
        steps = (max(steps, STEPS_LEAST) + CHECKPOINT_EVERY - 1) // CHECKPOINT_EVERY * CHECKPOINT_EVERY
        with Cluster("the undisturbed run", nodes=1, slots=1) as cluster:
            job = Job(cluster, train__steps=steps, checkpoint__keep=1000).submit()
            job.wait_completed(seconds=300 + steps / 20)
            lines, digests = job.exact(), job.digests()
        if len(lines) != steps or lines[:len(self.lines)] != self.lines or not digests:
            raise AssertionError(f"not a run to compare with: {len(lines)} steps, checkpoints of {sorted(digests)}")
        self.take(lines, {**self.digests, **digests})
        for old in glob.glob(f"{BIN}/undisturbed-*"):
            os.remove(old)
        with open(self.path + ".new", "w", encoding="ascii") as file:
            json.dump({"lines": self.lines, "digests": self.digests}, file)
        os.replace(self.path + ".new", self.path)


class JobTest(unittest.TestCase):
    """Tests of jobs whose results must be those of the undisturbed run."""

    reference = Reference()

    @classmethod
    def setUpClass(cls):
        # Two processors everywhere, so that a job lasts about as long as its faults need.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])

    def assert_exact(self, job):
        """As far as the job has come, every step is there and all is equal to the bit."""
        lines, digests = job.exact(), job.digests()
        if job.steps != ENDLESS:
            self.assertEqual(len(lines), job.steps)
            self.assertIn(job.steps, digests)
        self.reference.need(len(lines), digests.keys())
        for line, expected in zip(lines, self.reference.lines):
            self.assertEqual(line, expected)
        shared = sorted(digests.keys() & self.reference.digests.keys())
        self.assertTrue(shared, f"no checkpoint to compare: {digests.keys()}")
        for step in shared:
            self.assertEqual(digests[step], self.reference.digests[step], f"checkpoint of {step}")

    def end(self, job):
        """Of an endless job: save it where it is, and look whether that is right."""
        job.cluster.wait("it has a checkpoint that the undisturbed run has, too", lambda: job.state() != "running" or [
            record for record in job.checkpoints()[-2:] if record["step"] % CHECKPOINT_EVERY == 0])
        job.ask(state="paused")
        job.wait_state("paused")
        self.assertIn(len(job.exact()), job.digests(), "no checkpoint of where it was paused")
        job.cluster.wait("its progress is that of its last checkpoint", lambda: [
            job.key("progress").get(key) for key in ("step", "checkpoint_step")] == 2 * [len(job.exact())])
        checkpoint_format.check(job.whole(job.checkpoints()[-1]))
        self.assert_exact(job)
