#!/usr/bin/env python3
"""What hostile and greedy HTTP clients do to a leading firnd: half requests that are never finished, and many
clients that read a metrics file of a gigabyte. Prints how many whole requests were answered meanwhile, the longest
turn of firnd's loop, and whether the leader kept its key; ends with 1 where it did not, or where a turn took firnd more
than 50 ms of a processor. FIRN_HOSTILE_BYTES, FIRN_HOSTILE_CLIENTS, FIRN_HOSTILE_SECONDS change the load."""
import base64
import concurrent.futures
import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
import time

from local_cluster import Cluster

BYTES = int(os.environ.get("FIRN_HOSTILE_BYTES", 1 << 30))
CLIENTS = int(os.environ.get("FIRN_HOSTILE_CLIENTS", 256))
SECONDS = float(os.environ.get("FIRN_HOSTILE_SECONDS", 15))
HALF_REQUESTS = 300
TURN_MAX_MS = 50


def address(cluster, node):
    for entry in json.loads(cluster.firnctl("node", "list", "--json"))["nodes"]:
        if entry["name"] == node:
            return entry["http"]
    raise SystemExit(f"no node {node}")


def get(host, path, seconds=5.0):
    connection = http.client.HTTPConnection(host, timeout=seconds)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise OSError(f"{path}: {answer.status}: {body[:200]}")
        return body
    finally:
        connection.close()


def leader_key(cluster):
    """The revision that the leader's key was created at: another one is another term."""
    words = subprocess.run(["etcdctl", "--endpoints", cluster.environment["FIRN_ENDPOINTS"], "get", "--prefix",
                            "/firn/v1/", "-w", "json"], check=True, stdout=subprocess.PIPE,
                           env=dict(os.environ, ETCDCTL_API="3")).stdout
    for pair in json.loads(words)["kvs"]:
        if base64.b64decode(pair["key"]).decode().endswith("/leader"):
            return pair["create_revision"]
    return None


def longest_turns_ms(host):
    """By the clock, and of the processor's time; NaN: firnd does not answer, or does not say."""
    try:
        page = get(host, "/metrics", 30).decode()
    except OSError:
        page = ""
    found = [re.search(rf"^firn_loop_longest_{name}_seconds (\S+)$", page, re.M) for name in ("turn", "busy_turn")]
    return [float(one[1]) * 1000 if one else float("nan") for one in found]


def answered(host, seconds):
    """Of whole requests, one after the other: how many were answered, of how many, and the slowest in ms."""
    end, good, times = time.monotonic() + seconds, 0, []
    while time.monotonic() < end:
        began = time.monotonic()
        try:
            good += len(get(host, "/v1/node", 1.0)) > 0
        except (OSError, http.client.HTTPException):
            pass
        times.append((time.monotonic() - began) * 1000)
        time.sleep(0.02)
    return good, len(times), max(times)


def half_requests(host, seconds):
    name, _, port = host.rpartition(":")
    clients = []
    for _ in range(HALF_REQUESTS):
        client = socket.create_connection((name, int(port)), 5)
        client.sendall(b"GET /v1/node HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        clients.append(client)
    result = answered(host, seconds)
    for client in clients:
        client.close()
    return result


def make_metrics(folder):
    os.makedirs(folder, exist_ok=True)
    step = 0
    with open(f"{folder}/metrics.jsonl", "w", encoding="utf-8") as file:
        written = 0
        while written < BYTES:
            block = "".join(f'{{"step":{step + i},"filler":"{"x" * 300}"}}\n' for i in range(10000))
            written += file.write(block)
            step += 10000
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # readers come to a cold disk
    return step


def read_all(host, steps, seconds):
    def client(seed):
        chance, end, sizes, failed = random.Random(seed), time.monotonic() + seconds, [], 0
        while time.monotonic() < end:
            try:
                sizes.append(len(get(host, f"/v1/jobs/big/metrics?from={chance.randrange(steps)}", 30)))
            except (OSError, http.client.HTTPException):
                failed += 1
        return len(sizes), sum(sizes), failed
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        parts = list(pool.map(client, range(CLIENTS)))
    return [sum(column) for column in zip(*parts)]


def main():
    with Cluster(3, 1) as cluster:
        nodes = json.loads(cluster.firnctl("node", "list", "--json"))["nodes"]
        leader = json.loads(get(nodes[0]["http"], "/v1/node"))["leader"]
        host, term = address(cluster, leader), leader_key(cluster)
        good, of, slowest = half_requests(host, SECONDS)
        print(f"{HALF_REQUESTS} half requests: {good} of {of} whole requests answered, the slowest in {slowest:.0f} ms")
        steps = make_metrics(f"{cluster.folder}/nodes/{leader}/jobs/big")
        answers, size, failed = read_all(host, steps, SECONDS)
        turn, busy = longest_turns_ms(host)
        print(f"{CLIENTS} clients on {BYTES >> 20} MiB: {answers} answers, {size / SECONDS / 1e6:.0f} MB/s, "
              f"{failed} failed; longest turn of the loop {turn:.1f} ms, of its own time {busy:.1f} ms")
        kept = leader_key(cluster) == term
        print("the leader " + ("kept its key" if kept else "lost its key"))
        return 0 if kept and busy <= TURN_MAX_MS and good == of else 1


if __name__ == "__main__":
    sys.exit(main())
