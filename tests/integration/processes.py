"""Processes of tests: alive or not, ended by their ids, gone when the test program is."""
import contextlib
import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def die_with_parent():
    """In a child before exec: a test program that is killed leaves no etcd and no firnd behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def is_alive(pid):
    """A zombie is dead: whoever waits for it is slow, that is all."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def kill(pid, number=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
