"""A share of a processor for some processes: a control group of its own, version 1 or 2, gone at the end."""
import contextlib
import os

PERIOD_US = 10_000
VERSION_1, VERSION_2 = "/sys/fs/cgroup/cpu", "/sys/fs/cgroup"


class Share:
    """with Share("name", 0.25) as share: share.add(pid); raises OSError where groups cannot be made."""

    def __init__(self, name, processors):
        self.old = os.path.exists(VERSION_1 + "/cpu.cfs_quota_us")
        self.path = f"{VERSION_1 if self.old else VERSION_2}/firn-{os.getpid()}-{name}"
        try:
            if not self.old:
                with open(VERSION_2 + "/cgroup.subtree_control", "w", encoding="ascii") as control:
                    control.write("+cpu")
            os.mkdir(self.path)
            self.limit(processors)
        except OSError:
            self.remove()
            raise

    def write(self, leaf, text):
        with open(f"{self.path}/{leaf}", "w", encoding="ascii") as file:
            file.write(text)

    def limit(self, processors):
        quota = int(processors * PERIOD_US)
        if self.old:
            self.write("cpu.cfs_period_us", str(PERIOD_US))
            self.write("cpu.cfs_quota_us", str(quota))
        else:
            self.write("cpu.max", f"{quota} {PERIOD_US}")

    def add(self, pid):
        """With all its threads, and what it starts from now on."""
        with contextlib.suppress(ProcessLookupError):
            self.write("cgroup.procs", str(pid))

    def remove(self):
        """Whoever is still in it goes back to the group above."""
        with contextlib.suppress(OSError):
            with open(self.path + "/cgroup.procs", encoding="ascii") as members:
                pids = members.read().split()
            for pid in pids:
                with contextlib.suppress(OSError), \
                        open(os.path.dirname(self.path) + "/cgroup.procs", "w", encoding="ascii") as above:
                    above.write(pid)
            os.rmdir(self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()
