"""Ports for clusters that run beside each other, and beside everything else on the machine.

Ports come in blocks below the range of outgoing connections, so that none is taken by one meanwhile. A
block belongs to the process that holds the lock of its file, as long as it lives (worker_crew.c takes
blocks in the same way); what programs other than tests listen on is found by trying to.
"""
import contextlib
import fcntl
import os
import random
import socket
import tempfile

BLOCK = 64
FIRST, LAST = 10240, 16000  # below those that firnctl local takes


def blocks():
    """The first port of every block."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as text:
        lowest = int(text.read().split()[0])
    return range(FIRST, min(lowest, LAST) - BLOCK if lowest > FIRST + BLOCK else LAST - BLOCK, BLOCK)


def is_free(port):
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Ports:
    """Hands out ports; with ports: ... or close() gives them all back."""

    def __init__(self):
        self.held, self.left = contextlib.ExitStack(), []

    def close(self):
        self.held.close()
        self.left = []

    def lock(self, first):
        folder = f"{tempfile.gettempdir()}/firn-ports-{os.getuid()}"
        os.makedirs(folder, mode=0o700, exist_ok=True)
        file = open(f"{folder}/{first}", "wb")  # pylint: disable=consider-using-with
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return False
        if not all(map(is_free, range(first, first + BLOCK))):
            file.close()
            return False
        self.held.enter_context(file)
        return True

    def take(self, count):
        """The first of so many adjacent ports that nobody else uses."""
        if len(self.left) < count:
            first = next((first for first in random.sample(blocks(), len(blocks())) if self.lock(first)), None)
            if first is None:
                raise OSError("every block of ports is in use")
            self.left = list(range(first, first + BLOCK))
        taken, self.left = self.left[:count], self.left[count:]
        return taken[0]
