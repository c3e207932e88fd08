"""A booted machine for tests of what is installed: systemd in a container over this machine's own files.

The container sees this machine's root as it is, so that programs find the libraries that they were
built with; what it writes goes to memory (an overlay over a tmpfs) and is gone with it. It has
its own network, processes and journal. It boots to basic.target: nothing runs but what a test starts.
"""
import contextlib
import ctypes
import os
import shutil
import subprocess
import tempfile
import time
import unittest

from lib.cluster import BIN, Timeout, pause
from lib.processes import die_with_parent, kill

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000
NEEDED = ("systemd-nspawn", "nsenter", "mount", "cmake")


def own_mounts():
    """What this program mounts is seen by its children alone, and ends with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None):
        raise unittest.SkipTest(f"mounts are not allowed here: {os.strerror(ctypes.get_errno())}")


def mount(kind, options, target):
    os.makedirs(target, exist_ok=True)
    done = subprocess.run(["mount", "-t", kind, "-o", options, kind, target], text=True,
                          capture_output=True, check=False)
    if done.returncode:
        raise unittest.SkipTest(f"{kind} cannot be mounted here: {done.stderr.strip()}")


class Container:
    """with Container() as machine: machine.run("systemctl", "start", "firnd")"""

    def __init__(self):
        missing = [program for program in NEEDED if not shutil.which(program)]
        if missing or os.getuid():
            raise unittest.SkipTest(f"a container needs root and {', '.join(missing or NEEDED)}")
        self.folder = tempfile.mkdtemp(prefix="firn-machine-")
        self.root, self.log = self.folder + "/root", self.folder + "/console.log"
        self.nspawn = self.init = None

    def __enter__(self):
        try:
            own_mounts()
            mount("tmpfs", "mode=755", self.folder)
            for layer in ("/above", "/work"):
                os.mkdir(self.folder + layer)
            mount("overlay", f"lowerdir=/,upperdir={self.folder}/above,workdir={self.folder}/work", self.root)
            self.boot()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind, error, trace):
        if kind and not issubclass(kind, unittest.SkipTest):
            self.show()
        self.stop()

    def boot(self):
        with open(self.log, "wb") as log:
            self.nspawn = subprocess.Popen(
                ["systemd-nspawn", "--quiet", "--directory", self.root, "--boot", "--register=no",
                 "--keep-unit", "--link-journal=no", "--private-network", "--console=pipe",
                 "systemd.unit=basic.target"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)
        try:
            self.wait("the machine has booted", self.booted, 60)
        except (Timeout, OSError) as error:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                raise unittest.SkipTest(f"systemd does not boot in a container here ({error}): {log.read()[-500:]}")

    def booted(self):
        if self.nspawn.poll() is not None:
            raise OSError("systemd-nspawn has ended")
        children = f"/proc/{self.nspawn.pid}/task/{self.nspawn.pid}/children"
        with open(children, encoding="ascii") as text, contextlib.suppress(OSError):
            for child in text.read().split():
                with open(f"/proc/{child}/status", encoding="ascii") as status:
                    numbers = next(line for line in status if line.startswith("NSpid:")).split()
                if numbers[-1] == "1":
                    self.init = int(child)
        return self.init and self.ask("systemctl", "is-active", "basic.target") == "active"

    def stop(self):
        """Every process of it goes with its first one; never fails."""
        if self.init:
            kill(self.init)
        if self.nspawn:
            self.nspawn.kill()
            self.nspawn.wait()
        for target in (self.root, self.folder):
            subprocess.run(["umount", "--lazy", target], capture_output=True, check=False)
        with contextlib.suppress(OSError):
            os.rmdir(self.folder)

    def show(self):
        """What a person needs to understand a failure."""
        print(self.ask("journalctl", "--no-pager", "-o", "short-monotonic", "-u", "firnd*", "-n", "60"))
        print(self.ask("systemctl", "status", "--no-pager", "-n", "0", "firnd"))

    def install(self):
        """What `make install` does, and what README says to do after it."""
        subprocess.run(["cmake", "--install", os.path.dirname(BIN)], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "DESTDIR": self.root})
        for words in (["systemd-sysusers"], ["systemd-tmpfiles", "--create", "firn.conf"], ["systemctl", "daemon-reload"]):
            self.run(*words)

    def write(self, path, text):
        self.write_bytes(path, text.encode())

    def write_bytes(self, path, data):
        os.makedirs(os.path.dirname(self.root + path), exist_ok=True)
        with open(self.root + path, "wb") as file:
            file.write(data)

    def call(self, *words, timeout=120):
        return subprocess.run(["nsenter", "--target", str(self.init), "--all", "--", *words], text=True,
                              capture_output=True, check=False, timeout=timeout, stdin=subprocess.DEVNULL)

    def run(self, *words):
        """What it says inside the machine; it must succeed."""
        done = self.call(*words)
        if done.returncode:
            raise AssertionError(f"{' '.join(words)}: exit status {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout.strip()

    def ask(self, *words):
        """What it says, whether it succeeds or not."""
        return self.call(*words).stdout.strip()

    def wait(self, what, condition, seconds=60):
        """Until condition() is true; returns its value."""
        deadline = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise Timeout(f"not within {seconds} s: {what}")
            pause()
