"""Strangers in numbers: connections to workers' links, and clients of firnd's HTTP that read all or finish nothing."""
import collections
import contextlib
import http.client
import itertools
import multiprocessing
import random
import socket
import threading

from lib.cluster import POLL_SECONDS, pause
from lib.processes import die_with_parent

CONNECTIONS_PER_SECOND = 400
OPEN_MAX = 600
READERS = 8
HALF_REQUESTS = 100
ELSEWHERE = "127.0.0.9"  # no address of a plan


def flood(targets):
    """Until it is killed: half a frame for each connection to the links, from the plan's address and from another."""
    die_with_parent()
    connections = collections.deque()
    while True:
        for turn in range(int(CONNECTIONS_PER_SECOND * POLL_SECONDS)):
            address, port = targets[turn % len(targets)]
            client = socket.socket()
            client.setblocking(False)
            with contextlib.suppress(OSError):
                if address.startswith("127.") and turn % 2:
                    client.bind((ELSEWHERE, 0))
                client.connect_ex((address, port))
                client.send(b"nrif\x07\0\0\0")
            connections.append(client)
            if len(connections) > OPEN_MAX:
                connections.popleft().close()
        pause()


def read_on(host, job, seed):
    numbers = random.Random(seed)
    while True:
        path = numbers.choice([f"/v1/jobs/{job}/metrics?from={numbers.randrange(1000)}", f"/v1/jobs/{job}/events",
                               "/metrics", "/v1/node"])
        connection = http.client.HTTPConnection(host, timeout=5)
        try:
            connection.request("GET", path)
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            pause()
        finally:
            connection.close()


def read(hosts, job):
    """Until it is killed: whole requests in READERS threads, beside half ones that stay open."""
    die_with_parent()
    for turn in range(READERS):
        threading.Thread(target=read_on, args=(hosts[turn % len(hosts)], job, turn), daemon=True).start()
    halves = collections.deque()
    for turn in itertools.count():
        name, _, port = hosts[turn % len(hosts)].rpartition(":")
        with contextlib.suppress(OSError):
            client = socket.create_connection((name, int(port)), 1)
            halves.append(client)
            if len(halves) > HALF_REQUESTS:
                halves.popleft().close()
            client.sendall(b"GET /v1/node HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        pause()


@contextlib.contextmanager
def crowd(nodes, job):
    """Both, for as long as the context lasts."""
    ports = [(node.address, node.link_port + slot) for node in nodes for slot in range(node.slots)]
    processes = [multiprocessing.Process(target=flood, args=(ports,), daemon=True),
                 multiprocessing.Process(target=read, args=([node.http for node in nodes], job), daemon=True)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()
