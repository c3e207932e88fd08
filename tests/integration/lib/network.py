"""A network of its own for every node of a test: namespaces, joined by cables that can be cut.

The test program moves into a namespace with a bridge (and its own 127.0.0.1), where etcd runs; a node lives
in another one and reaches the rest over a veth pair. A cable that is cut takes every packet with it and
answers nothing: no FIN, no RST, as when a machine loses its power. Nothing has a name outside, so
nothing is left behind when the program ends.
"""
import ctypes
import os
import shutil
import subprocess
import unittest

CLONE_NEWNET = 0x40000000
BRIDGE = "firn0"
NOWHERE = "02:00:00:00:00:01"  # no such station on the bridge
SLOW = ("rate", "8mbit", "burst", "16kb", "latency", "200ms")  # what queues for longer is lost

LIBC = ctypes.CDLL(None, use_errno=True)


def run(*words):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, timeout=30)


def ip(*words):
    run("ip", *words)


def new_namespace():
    """A descriptor of the one that this program is in from now on."""
    if LIBC.unshare(CLONE_NEWNET):
        raise unittest.SkipTest(f"network namespaces are not allowed here: {os.strerror(ctypes.get_errno())}")
    ip("link", "set", "lo", "up")
    return os.open("/proc/self/ns/net", os.O_RDONLY)


def enter(namespace):
    if LIBC.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Network:
    """Nodes are numbered from 0; 10.77.0.1 is the test's own address, node n has 10.77.0.(10 + n)."""

    host = "10.77.0.1"

    def __init__(self):
        if not shutil.which("ip"):
            raise unittest.SkipTest("iproute2 is not installed")
        self.home, self.nodes = new_namespace(), []
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("addr", "add", self.host + "/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")

    @staticmethod
    def address(number):
        return f"10.77.0.{10 + number}"

    def add(self):
        """Another node's namespace, with its cable plugged in; its number."""
        number = len(self.nodes)
        self.nodes.append(new_namespace())
        enter(self.home)
        ip("link", "add", f"cable{number}", "type", "veth", "peer", "name", "eth0", "netns",
           f"/proc/{os.getpid()}/fd/{self.nodes[number]}")
        ip("link", "set", f"cable{number}", "master", BRIDGE, "up")
        self.inside(number, "addr", "add", self.address(number) + "/24", "dev", "eth0")
        self.inside(number, "link", "set", "eth0", "up")
        return number

    def inside(self, number, *words):
        enter(self.nodes[number])
        try:
            ip(*words)
        finally:
            enter(self.home)

    def enter(self, number):
        """In a child before exec."""
        enter(self.nodes[number])

    def cut(self, number):
        ip("link", "set", f"cable{number}", "down")

    def mend(self, number):
        ip("link", "set", f"cable{number}", "up")

    def part(self, one, other, apart=True, ways=2):
        """Two nodes lose each other, and reach everybody else as before; @ways 1: what @one sends is lost."""
        for here, there in ((one, other), (other, one))[:ways]:
            words = ("replace", self.address(there), "lladdr", NOWHERE, "nud", "permanent") if apart else \
                ("del", self.address(there))
            self.inside(here, "neigh", *words, "dev", "eth0")

    def slow(self, number, slow=True):
        """Whatever this node sends, to whomever, shares a narrow cable."""
        words = ("add", "dev", "eth0", "root", "tbf", *SLOW) if slow else ("del", "dev", "eth0", "root")
        enter(self.nodes[number])
        try:
            run("tc", "qdisc", *words)
        finally:
            enter(self.home)

    def close(self):
        for namespace in self.nodes:
            os.close(namespace)
        self.nodes = []
        ip("link", "del", BRIDGE)
