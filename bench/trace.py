#!/usr/bin/env python3
"""A trace of a spot fleet against a real cluster on this machine: how much of what it had was put to use.

trace.py TRACE [--nodes N] [--gap S] [--events E] [--share P] [--micro-batches M] [--policy firn|restart|both]

TRACE is a .csv of `milliseconds,add|remove,node`, or a .json of {"metadata": {"gap_seconds": s}, "data":
[nodes available, ...]}. Its fleet is thinned out to N seats (whatever happens on every so many-th seat is
kept), the first E events are played, and time is compressed so that one comes every S seconds on average.
A node is one slot with P of a processor (a control group, so that devices are alike). Taking a node away is
SIGKILL of its daemon and worker at once, without a notice.

A lane has M micro-batches: about 0.2 s for each in a step of 8 nodes, so that with M = 100 an event comes in
every step. The play begins with a commit and ends with one: steps are counted whole, whatever they take.

Goodput: steps committed, of those that the slots would have committed at the speed that so many slots had
undisturbed in the same run: measured before and after the events, because a machine that does other things
as well is not as fast all the time; the means count, and both are told. Numbers of slots that are there for
less than RARE of the play are not measured, because a step on few slots takes long: they get their share of the
speed of the next larger number. Beside it, the policy "restart": at every event all workers are
killed and the job begins again from its newest checkpoint, as elastic launchers do. That costs less here than
there: a firn-worker starts in a fraction of a second.
"""
import argparse
import contextlib
import csv
import json
import os
import signal
import subprocess
import time

from cgroup import Share
from local_cluster import PROGRAMS, WAIT_SECONDS, Cluster, Report

CHECKPOINT_EVERY = 50  # micro-batches of every lane
MEASURE_SECONDS = 4
RARE = 0.02
SETTLED_SECONDS = 3  # in which no other generation begins
MICRO_BATCH_SECONDS, STEPS_AWAITED = 2, 2  # of all lanes on one slot: how long a step may take, and a wait be

JOB = """
name: spot
model: {{family: gpt2, layers: 6, width: 64, heads: 4, context: 64, vocab: 256, tied: true}}
data: {{format: bytes, path: /usr/include/linux, validation: 0.05}}
train: {{steps: 1000000, lanes: 48, micro_batch: 1, micro_batches_per_lane: {micro_batches}, seed: 1, optimizer: {{lr: 1e-3}}}}
elastic: {{devices: {{min: 1, max: 64}}, freeze: {{policy: none}}}}
checkpoint: {{every: {every}}}
"""


# ---- the trace ----

def read_fleet(path):
    """[(seconds, nodes present)], a pair a moment at which something changed."""
    moments = {}
    if path.endswith(".json"):
        with open(path, encoding="ascii") as file:
            trace = json.load(file)
        present = 0
        for index, count in enumerate(trace["data"]):
            if count != present:
                moments[index * trace["metadata"]["gap_seconds"]] = set(range(count))
            present = count
    else:
        present = set()
        with open(path, encoding="ascii") as file:
            for milliseconds, what, node in csv.reader(file):
                present = present | {node} if what == "add" else present - {node}
                moments[int(milliseconds) / 1000] = present
    return sorted(moments.items())


def seat(fleet):
    """The same with numbers of seats: whoever comes takes the lowest that is free, and keeps it."""
    seats, seated = {}, []
    for seconds, present in fleet:
        seats = {node: number for node, number in seats.items() if node in present}
        free = (number for number in range(len(present)) if number not in set(seats.values()))
        for node in sorted(present - seats.keys(), key=str):
            seats[node] = next(free)
        seated.append((seconds, set(seats.values())))
    return seated


def thin_out(seated, nodes):
    """Only every so many-th seat; moments at which nothing changes for these are left out."""
    most = max(max(seats, default=0) for _, seats in seated) + 1
    kept = {number * most // nodes: number for number in range(nodes)}
    thinned = []
    for seconds, seats in seated:
        left = {kept[number] for number in seats if number in kept}
        if left and (not thinned or thinned[-1][1] != left):  # a fleet of nobody has no speed to compare with
            thinned.append((seconds, left))
    return thinned


def compress(moments, gap, events):
    """The first so many events from 0 on, one every @gap seconds on average; the last pair ends the play."""
    played = moments[:events + 2]
    first, last = played[0][0], played[-1][0]
    factor = gap * (len(played) - 1) / (last - first)
    return [((seconds - first) * factor, seats) for seconds, seats in played], factor


# ---- the fleet ----

class Fleet(Cluster):
    """Nodes of one slot, some of them there."""

    def __init__(self, nodes, share):
        super().__init__(nodes, 1)
        self.shares = contextlib.ExitStack()
        self.groups = [self.shares.enter_context(Share(f"node{number}", share)) for number in range(nodes)]

    def __enter__(self):
        super().__enter__()
        self.names = [node["name"] for node in self.status()]
        for group, node in zip(self.groups, self.status()):
            group.add(node["firnd"]["pid"])
        self.present = set(range(self.nodes))
        return self

    def __exit__(self, kind, error, trace):
        super().__exit__(kind, error, trace)
        self.shares.close()

    def be(self, seats):
        """Exactly those nodes are there."""
        status = {node["name"]: node for node in self.status()}
        for number in self.present - seats:
            node = status[self.names[number]]
            for pid in (node["firnd"]["pid"], *(worker["pid"] for worker in node["workers"])):
                kill(pid)
        for number in seats - self.present:
            self.start(number)
        self.present = seats

    def start(self, number):
        """By a firnctl within the node's group, which its children inherit."""
        subprocess.run([f"{PROGRAMS}/firnctl", "local", "start", self.names[number], "--dir", self.folder], check=True,
                       env=self.environment, stdout=subprocess.DEVNULL, timeout=60,
                       preexec_fn=lambda: self.groups[number].add(os.getpid()))

    def kill_all_workers(self):
        for node in self.status():
            for worker in node["workers"]:
                kill(worker["pid"])

    def newest(self):
        return max(self.lines().values(), key=lambda line: line["step"])

    def settle(self):
        """Until one generation, of nobody who is not there, has trained for a while: steps that were not there before, since
        whoever restarts from a checkpoint first makes those again that it had. The line of its newest step."""
        nothing = {"generation": 0, "workers": 0, "step": 0}
        deadline = time.monotonic() + self.patience
        first = self.newest()["step"] if self.lines() else 0
        seen, since = None, time.monotonic()
        while time.monotonic() < deadline:
            line = self.newest() if self.lines() else nothing
            if line["generation"] != seen or line["step"] == first or not 0 < line["workers"] <= len(self.present):
                seen, since = line["generation"], time.monotonic()
            if time.monotonic() - since > SETTLED_SECONDS:
                return line
            wait_until(time.monotonic() + 0.1)
        raise SystemExit(f"no generation of {len(self.present)} nodes settles")

    def speed(self):
        """Steps a second of those who are there, undisturbed: whole steps, at least one."""
        first = self.settle()
        last = self.commit_after(seconds_of(first) + MEASURE_SECONDS)
        return (last["step"] - first["step"]) / (seconds_of(last) - seconds_of(first))

    def commit_after(self, unix_seconds):
        """The line of the first commit from that moment on."""
        return self.await_that("a step is committed", lambda: min(
            (line for line in self.lines().values() if seconds_of(line) >= unix_seconds), key=seconds_of, default=None))


def seconds_of(line):
    return line["unix_ns"] / 1e9


def kill(pid):
    with contextlib.suppress(ProcessLookupError, TypeError):
        os.kill(pid, signal.SIGKILL)


def wait_until(moment):
    while time.monotonic() < moment:
        time.sleep(min(0.05, max(moment - time.monotonic(), 0)))


# ---- the run ----

def frequent(moments):
    """The numbers of slots that are there for long enough to be measured, and the largest."""
    seconds = {}
    for (since, seats), (until, _) in zip(moments, moments[1:]):
        seconds[len(seats)] = seconds.get(len(seats), 0) + until - since
    return {count for count in seconds if seconds[count] >= RARE * sum(seconds.values()) or count == max(seconds)}


def complete(speeds, counts):
    """The same with the numbers of slots that were not measured, in proportion to the next larger one."""
    larger = {count: min(measured for measured in speeds if measured >= count) for count in counts}
    return {count: speeds[larger[count]] * count / larger[count] for count in counts}


def measure_speeds(fleet, counts):
    """Slots -> steps a second."""
    speeds = {}
    for count in sorted(counts, reverse=True):
        fleet.be(set(range(count)))
        speeds[count] = fleet.speed()
    return speeds


def play(fleet, moments, restart):
    """(steps committed, [(unix seconds, slots)]) as it really went, from a commit to a commit."""
    fleet.be(moments[0][1])
    fleet.settle()
    first = fleet.commit_after(time.time())
    began, went = time.monotonic(), [(seconds_of(first), len(moments[0][1]))]
    for seconds, seats in moments[1:-1]:
        wait_until(began + seconds)
        fleet.be(seats)
        if restart:
            fleet.kill_all_workers()
        went.append((time.time(), len(seats)))
    wait_until(began + moments[-1][0])
    last = fleet.commit_after(time.time())
    went.append((seconds_of(last), 0))
    return last["step"] - first["step"], went


def capacity(went, speeds):
    """Steps that the slots could have committed."""
    return sum(speeds[slots] * (until - since)
               for (since, slots), (until, _) in zip(went, went[1:]))


def run(report, policy, moments, arguments):
    counts = {len(seats) for _, seats in moments[:-1]}
    with Fleet(arguments.nodes, arguments.share) as fleet:
        path = fleet.folder + "/spot.yaml"
        with open(path, "w", encoding="ascii") as file:
            file.write(JOB.format(micro_batches=arguments.micro_batches,
                                  every=max(CHECKPOINT_EVERY // arguments.micro_batches, 1)))
        fleet.patience = WAIT_SECONDS + STEPS_AWAITED * arguments.micro_batches * MICRO_BATCH_SECONDS
        fleet.submit(path, "spot")
        before = measure_speeds(fleet, frequent(moments))
        steps, went = play(fleet, moments, policy == "restart")
        generations = len({line["generation"] for line in fleet.lines().values()})
        after = measure_speeds(fleet, frequent(moments))
    speeds = complete({slots: (before[slots] + after[slots]) / 2 for slots in before}, counts)
    could, seconds = capacity(went, speeds), went[-1][0] - went[0][0]
    told = ", ".join(f"{slots}: {before[slots]:.3g} {after[slots]:.3g}" for slots in sorted(before))
    report.say(f"{policy}: {steps} steps of {could:.3g} that the slots could have done in {seconds:.0f} s: "
               f"goodput {steps / could:.0%} ({generations} generations; load {os.getloadavg()[0]:.1f}; undisturbed "
               f"steps/s by slots, before and after: {told})",
               **{policy: {"steps": steps, "could": could, "goodput": steps / could, "before": before,
                           "after": after, "seconds": seconds}})


def main():
    parser = argparse.ArgumentParser(description="goodput under a spot trace")
    parser.add_argument("trace")
    parser.add_argument("--nodes", type=int, default=8, help="seats of one slot")
    parser.add_argument("--gap", type=float, default=15, help="seconds between two events, on average")
    parser.add_argument("--events", type=int, default=12, help="how many of the trace are played")
    parser.add_argument("--skip", type=int, default=0, help="events that are left out at the beginning")
    parser.add_argument("--share", type=float, default=0.12, help="of a processor for every node")
    parser.add_argument("--micro-batches", type=int, default=1, help="of a lane: how long a step takes")
    parser.add_argument("--policy", choices=("firn", "restart", "both"), default="both")
    arguments = parser.parse_args()
    moments = thin_out(seat(read_fleet(arguments.trace)), arguments.nodes)
    moments, factor = compress(moments[arguments.skip:], arguments.gap, arguments.events)
    slots = capacity([(seconds, len(seats)) for seconds, seats in moments],
                     range(arguments.nodes + 1)) / moments[-1][0]
    report = Report("trace", f"{os.path.basename(arguments.trace)}: {arguments.nodes} seats, {len(moments) - 2} "
                    f"events in {moments[-1][0]:.0f} s (time x {1 / factor:.0f}), {slots:.1f} slots on average")
    for policy in ("firn", "restart") if arguments.policy == "both" else (arguments.policy,):
        run(report, policy, moments, arguments)
    report.write()


main()
