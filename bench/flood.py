#!/usr/bin/env python3
"""What a flood of connections to workers' link ports costs when a worker is killed.

flood.py [ROUNDS]: a cluster with `firnctl local up`, a small endless job; SIGKILL of one worker -> the next
committed step, first undisturbed, then while a program connects to every link port of the cluster: RATE
connections a second together, each sends half a frame, 900 of each port stay open until newer ones come.
Ends with 1 where the median is more than half a second longer under the flood.
"""
import collections
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import time

from local_cluster import Cluster, Report, median, submit_probe

RATE = int(os.environ.get("FIRN_FLOOD_RATE", 3000))
OPEN_MAX = 900
FILLS = 5000  # connections to a port before the first kill: more than a backlog holds
TICK_SECONDS = 0.01
MORE_MAX_SECONDS = 0.5


def link_ports(cluster):
    pids = {str(worker["pid"]) for node in cluster.status() for worker in node["workers"]}
    words = subprocess.run(["ss", "-Hltnp"], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = (re.search(r":(\d+) .*pid=(\d+)", line) for line in words.splitlines())
    return [int(match[1]) for match in found if match and match[2] in pids]


def flood(ports, total):
    """Until it is killed."""
    connections = {port: collections.deque() for port in ports}
    while True:
        began = time.monotonic()
        for turn in range(max(1, int(RATE * TICK_SECONDS))):
            port = ports[turn % len(ports)]
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
            try:
                client.send(b"nrif\x07\0\0\0")
            except OSError:
                pass
            connections[port].append(client)
            total.value += 1
            if len(connections[port]) > OPEN_MAX:
                connections[port].popleft().close()
        time.sleep(max(0.0, TICK_SECONDS - (time.monotonic() - began)))


def kills(cluster, rounds):
    times = []
    for turn in range(rounds):
        generation = cluster.steady(cluster.workers)
        worker = cluster.status()[turn % cluster.nodes]["workers"][0]
        began = time.time()
        os.kill(worker["pid"], signal.SIGKILL)
        times.append(cluster.recovered(generation, began))
    return times


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    report = Report("flood", "a worker is killed while strangers flood the workers' link ports")
    with Cluster(3, 2) as cluster:
        submit_probe(cluster)
        quiet = kills(cluster, rounds)
        cluster.steady(cluster.workers)
        total = multiprocessing.Value("q", 0)
        ports = link_ports(cluster)
        flooding = multiprocessing.Process(target=flood, args=(ports, total))
        flooding.start()
        began = time.monotonic()
        try:
            while total.value < FILLS * len(ports):
                time.sleep(0.1)
            flooded = kills(cluster, rounds)
        finally:
            rate = total.value / (time.monotonic() - began)
            flooding.kill()
            flooding.join()
    report.say(f"SIGKILL of a worker: next commit after {median(quiet):.2f} s, "
               f"under {rate:.0f} connections a second after {median(flooded):.2f} s "
               f"({', '.join(f'{seconds:.2f}' for seconds in flooded)})",
               quiet_seconds=quiet, flooded_seconds=flooded, connections_per_second=rate)
    report.write()
    return 0 if median(flooded) - median(quiet) <= MORE_MAX_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
