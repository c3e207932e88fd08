#!/usr/bin/env python3
"""What faults and changes cost a running job: a real etcd, real daemons, real workers on this machine.

cluster.py [ROUNDS]: starts clusters with `firnctl local up`, runs a small endless job, and measures

  rendezvous   daemons that are up -> the first commit of a new job: workers started, links made
  re-layout    the longest silence between two commits around a planned change of scale, less a step
  worker kill  SIGKILL of one worker -> the next committed step
  node kill    SIGKILL of a daemon and its workers at once -> the next committed step; the leading
               node too, whose successor has to be elected first

Times are from the moment before the signal to the commit's own (unix_ns in the metrics). A killed
process closes its links at once; a cut cable is found by heartbeats within 1.5 s, and costs that more.
"""
import os
import signal
import sys
import time

from local_cluster import Cluster, Report, median, submit_probe


def list_of(times):
    return ", ".join(f"{time:.2f}" for time in times)


def kill_worker(cluster, turn):
    node = cluster.status()[turn % cluster.nodes]
    worker = node["workers"][turn // cluster.nodes % cluster.slots]
    began = time.time()
    os.kill(worker["pid"], signal.SIGKILL)
    return began


def kill_node(cluster, leading):
    """The daemon and its workers, as close together as one program can; starting it again is the caller's."""
    leader = cluster.leader()
    node = next(node for node in cluster.status() if (node["name"] == leader) == leading)
    pids = [node["firnd"]["pid"], *(worker["pid"] for worker in node["workers"])]
    began = time.time()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return began, node["name"]


def measure_rendezvous(report, nodes, slots):
    with Cluster(nodes, slots) as cluster:
        submitted = submit_probe(cluster)
        cluster.steady(cluster.workers)
        first = cluster.lines()[1]["unix_ns"] / 1e9 - submitted
        report.say(f"{nodes} nodes x {slots} slots: up and registered after {cluster.up_seconds:.2f} s, etcd "
                   f"included; job submitted -> first commit of {cluster.workers} workers {first:.2f} s",
                   **{f"nodes_{nodes}_up_seconds": cluster.up_seconds,
                      f"nodes_{nodes}_submit_to_first_commit_seconds": first})


def measure_scale(report, cluster, rounds):
    sizes = (cluster.workers, cluster.workers // 2)
    pauses = []
    for turn in range(2 * rounds):
        before = cluster.steady(sizes[turn % 2])
        last = max(cluster.lines())
        cluster.firnctl("job", "scale", cluster.job, "--devices", str(sizes[(turn + 1) % 2]))
        after = cluster.steady(sizes[(turn + 1) % 2])
        step = max(cluster.step_seconds(before), cluster.step_seconds(after))
        pauses.append(max(cluster.longest_silence(last) - step, 0.0))
    report.say(f"planned re-layout {sizes[0]} <-> {sizes[1]} workers: pause {median(pauses):.2f} s "
               f"({list_of(pauses)}); aim 0.3 s + bytes moved / bandwidth", relayout_pause_seconds=pauses)


def measure_faults(report, cluster, rounds):
    times = {"worker": [], "node": [], "leading node": []}
    steps = []
    for turn in range(rounds):
        generation = cluster.steady(cluster.workers)
        steps.append(cluster.step_seconds(generation))
        times["worker"].append(cluster.recovered(generation, kill_worker(cluster, turn)))
        for what in ("node", "leading node"):
            generation = cluster.steady(cluster.workers)
            began, name = kill_node(cluster, what == "leading node")
            times[what].append(cluster.recovered(generation, began))
            cluster.firnctl("local", "start", name, "--dir", cluster.folder)
    for what, aim in (("worker", 0.5), ("node", 3.0), ("leading node", 3.0)):
        report.say(f"SIGKILL of a {what}: next commit after {median(times[what]):.2f} s ({list_of(times[what])}); "
                   f"aim {aim} s + one step of {median(steps):.3f} s",
                   **{what.replace(" ", "_") + "_kill_seconds": times[what]})
    report.results["step_seconds"] = median(steps)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    report = Report("cluster", "rendezvous, planned changes and kills of a job on a local cluster")
    measure_rendezvous(report, 3, 2)
    measure_rendezvous(report, 8, 1)
    with Cluster(3, 2) as cluster:
        submit_probe(cluster)
        measure_scale(report, cluster, (rounds + 1) // 2)
        measure_faults(report, cluster, rounds)
    report.write()


main()
