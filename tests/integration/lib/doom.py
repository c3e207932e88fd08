"""Orders to firn-doomed-worker: where in its work a worker is to die (see doomed_worker.c)."""
import contextlib
import os
import signal

from lib.cluster import BIN

DOOMED = ("--worker", BIN.rstrip("/").removesuffix("/bin") + "/tests/firn-doomed-worker")

# In the order in which a worker comes by them.
STEP = ("computing", "reducing", "holding", "held", "committing", "committed", "applied")
SWITCH = ("linking", "linked", "handing-over", "receiving", "handed-over", "settling")
CHECKPOINT = ("saving", "saved", "recording")
ROOT_ONLY = ("committing", "saved", "recording")  # rank 0 comes by these, nobody else
ROOT_NEVER = ("held",)  # rank 0 is told by the others that they hold, and tells nobody


class Order:
    """That the worker on a slot is to get a signal when it comes by a place."""

    def __init__(self, job, node, slot, place, number=signal.SIGKILL, step=0):
        self.what = f"{number.name} for {node.name}/{slot}, {place}"
        self.path = f"{node.data}/jobs/{job.name}/doom-{slot}"
        job.cluster.note(f"ordered: {self.what}")
        with open(self.path + ".new", "w", encoding="ascii") as order:
            order.write(f"{place} {step} {number.value}\n")
        os.replace(self.path + ".new", self.path)

    def carried_out(self):
        return not os.path.exists(self.path)

    def withdraw(self):
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.path)


class Once:
    """Something that is to happen once, and whose order is removed then."""

    def __init__(self, job, node, what, file, line):
        self.path = f"{node.data}/jobs/{job.name}/{file}"
        job.cluster.note(f"ordered: {what} of node {node.name}")
        with open(self.path + ".new", "w", encoding="ascii") as order:
            order.write(f"{line}\n")
        os.replace(self.path + ".new", self.path)

    def carried_out(self):
        return not os.path.exists(self.path)

    def withdraw(self):
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.path)


class Flip(Once):
    """That one bit of a "gradient" or "parameter" is to be flipped in the worker on a slot, or some are to be set;
    with "wire" one of a tensor on its way from there to a peer."""

    def __init__(self, job, node, slot, where="gradient", bits=0):
        super().__init__(job, node, f"a flipped bit of a {where} in slot {slot}", f"{where}-{slot}", bits)


class ReceiptFault(Once):
    """That a node's keeper cannot write down whose shares it has copies of."""

    def __init__(self, job, node, number):
        super().__init__(job, node, f"a receipt that fails with {os.strerror(number)}", "receipt-fault", number)


@contextlib.contextmanager
def ill_disks(job, nodes, leaf, number):
    paths = [f"{node.data}/jobs/{job.name}/{leaf}" for node in nodes]
    for path in paths:
        with open(path + ".new", "w", encoding="ascii") as fault:
            fault.write(f"{number}\n")
        os.replace(path + ".new", path)
    try:
        yield
    finally:
        for path in paths:
            os.remove(path)
        job.cluster.note("disks are well again")


def disk_fault(job, nodes, number):
    """While it lasts, writing checkpoints fails on those nodes with that errno."""
    job.cluster.note(f"disks fail with {os.strerror(number)}")
    return ill_disks(job, nodes, "disk-fault", number)


def slow_disk(job, nodes, milliseconds):
    """While it lasts, each file of a checkpoint takes that long to become durable on those nodes."""
    job.cluster.note(f"disks of {' '.join(node.name for node in nodes)} take {milliseconds} ms to sync a file")
    return ill_disks(job, nodes, "slow-disk", milliseconds)
