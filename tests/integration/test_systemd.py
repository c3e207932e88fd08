#!/usr/bin/env python3
"""firnd as `make install` leaves it, under a systemd that has booted: its unit's promises."""
import glob
import json
import os
import unittest

from lib.cluster import REPOSITORY
from lib.container import Container
from lib.job import JobTest, make_spec

SECOND_NODE = ("--node", "b", "--slots", "2", "--data-dir", "/var/lib/firn/b", "--run-dir", "/run/firn/b",
               "--http", "127.0.0.1:7581", "--link-port", "7610", "--checkpoint-dir", "/var/lib/firn/checkpoints")


class Machine(Container):
    """A node of its own cluster, with etcd's own unit; firnctl is used as an operator would.

    @package: of Debian, to be installed instead of what `make install` does
    """

    def __init__(self, package=None):
        super().__init__()
        self.package = package

    def __enter__(self):
        super().__enter__()
        try:
            if self.package:
                self.install_package()
            else:
                self.install()
            self.write("/etc/firn/firnd.yaml", "node: a\nslots: 2\n")
        except BaseException:
            self.__exit__(AssertionError, None, None)
            raise
        return self

    def install_package(self):
        with open(self.package, "rb") as package:
            self.write_bytes("/var/cache/firn.deb", package.read())
        # What it needs is here, though perhaps not every package that stands for others (libopenblas0).
        self.run("dpkg", "--force-depends", "--install", "/var/cache/firn.deb")

    def unit(self, name, unit="firnd"):
        return self.ask("systemctl", "show", "--value", "-p", name, unit)

    def firnctl(self, *words):
        return self.run("firnctl", *words)

    def start(self):
        self.run("systemctl", "start", "etcd")
        self.run("systemctl", "start", "firnd")

    def submit(self):
        self.write("/etc/firn/job.yaml", json.dumps(make_spec()))
        self.firnctl("job", "submit", "/etc/firn/job.yaml")
        self.wait_steps(20)

    def step(self):
        shown = json.loads(self.firnctl("job", "show", "job", "--json"))
        return (shown.get("progress") or {}).get("step", 0)

    def wait_steps(self, count):
        """So many more of them."""
        first = self.step()
        self.wait(f"{count} steps after step {first}", lambda: self.step() >= first + count)

    def workers(self):
        return self.ask("pgrep", "-x", "firn-worker").split()

    def exact(self):
        """Pauses the job where it is: every exact line of its metrics."""
        self.firnctl("job", "pause", "job")
        self.wait("the job is paused", lambda: not self.workers())
        return self.firnctl("metrics", "job", "--exact").splitlines()

    def journal(self):
        """Every message of firnd, with its fields."""
        return [json.loads(line) for line in self.run("journalctl", "-u", "firnd", "-o", "json", "-t", "firnd").splitlines()]


class Slow(JobTest):
    def test_start_waits_for_etcd_and_says_so(self):
        with Machine() as machine:
            machine.run("systemctl", "start", "--no-block", "firnd")
            machine.wait("it says what it waits for", lambda: "not registered" in machine.unit("StatusText"))
            self.assertEqual(machine.unit("ActiveState"), "activating")
            machine.run("systemctl", "start", "etcd")
            machine.wait("the start is over", lambda: machine.unit("ActiveState") == "active")
            self.assertIn("registered in cluster default, 2 slots", machine.run("systemctl", "status", "firnd"))
            self.assertEqual(machine.unit("NRestarts"), "0")

    def test_workers_train_on_without_firnd(self):
        """SIGKILL, and an upgrade by reload: another firnd takes the same processes over."""
        with Machine() as machine:
            machine.start()
            machine.submit()
            workers = machine.workers()
            self.assertEqual(len(workers), 2)
            for words in (("kill", "-s", "KILL", "--kill-who=main", "firnd"), ("reload", "firnd")):
                before = machine.unit("MainPID")
                machine.run("systemctl", *words)
                machine.wait("there is another firnd", lambda: machine.unit("ActiveState") == "active"
                             and machine.unit("MainPID") not in ("0", before))
                machine.wait_steps(20)
                self.assertEqual(machine.workers(), workers)
            self.assert_equal_bits(machine.exact())
            events = [message for message in machine.journal() if "FIRN_JOB" in message]
            self.assertTrue(events, "no message names its job")
            self.assertEqual({message["FIRN_JOB"] for message in events}, {"job"})
            self.assertEqual({message["_SYSTEMD_UNIT"] for message in events}, {"firnd.service"})

    def test_stop_hands_over(self):
        with Machine() as machine:
            machine.start()
            machine.run("systemd-run", "--unit", "firnd-b", "-p", "User=firn", "-p", "KillMode=process",
                        "/usr/local/bin/firnd", *SECOND_NODE)
            machine.wait("both nodes are there", lambda: len(json.loads(machine.firnctl("node", "list", "--json"))["nodes"]) == 2)
            machine.submit()
            machine.wait("four workers train", lambda: len(machine.workers()) == 4)
            machine.run("systemctl", "stop", "firnd")
            self.assertEqual(machine.unit("Result"), "success")
            self.assertEqual(machine.unit("ActiveState"), "inactive")
            self.assertEqual(len(machine.workers()), 2)
            machine.wait_steps(20)
            machine.run("systemctl", "start", "firnd")
            machine.wait("four workers train again", lambda: len(machine.workers()) == 4)
            machine.wait_steps(20)
            self.assert_equal_bits(machine.exact())

    def test_debian_package(self):
        """Workers train on through an upgrade; a node from which it is removed hands over and stops."""
        packages = glob.glob(REPOSITORY + "/build/deb/firn_*.deb")
        if not packages:
            self.skipTest("there is no package: make deb")
        with Machine(max(packages, key=os.path.getmtime)) as machine:
            machine.start()
            machine.submit()
            workers, before = machine.workers(), machine.unit("MainPID")
            machine.install_package()
            machine.wait("there is another firnd", lambda: machine.unit("ActiveState") == "active"
                         and machine.unit("MainPID") not in ("0", before))
            machine.wait_steps(20)
            self.assertEqual(machine.workers(), workers)
            self.assert_equal_bits(machine.exact())
            machine.run("dpkg", "--remove", "firn")
            self.assertNotEqual(machine.unit("ActiveState"), "active")
            self.assertEqual(machine.workers(), [])
            self.assertIn("handover complete", machine.run("journalctl", "-u", "firnd"))

    def assert_equal_bits(self, lines):
        self.reference.need(len(lines), ())
        self.assertEqual(lines, self.reference.lines[:len(lines)])


if __name__ == "__main__":
    unittest.main()
