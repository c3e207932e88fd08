"""A local cluster of one node whose slots have an equal share of a processor each."""
import contextlib
import glob
import threading

from cgroup import Share
from local_cluster import Cluster


class LimitedSlots(Cluster):
    """One node whose workers are put into the control group of their slot as they start."""

    def __init__(self, slots, share, *flags):
        super().__init__(1, slots, *flags)
        self.shares = contextlib.ExitStack()
        self.groups = [self.shares.enter_context(Share(f"slot{number}", share)) for number in range(slots)]
        self.ends = threading.Event()
        self.watcher = threading.Thread(target=self.watch)

    def watch(self):
        known = set()
        while not self.ends.wait(0.05):
            for path in glob.glob("/proc/[0-9]*/cmdline"):
                pid = path.split("/")[2]
                with contextlib.suppress(OSError), open(path, "rb") as file:
                    words = file.read().decode(errors="replace").split("\0")
                    if pid not in known and words[0].endswith("firn-worker") and self.folder in " ".join(words):
                        known.add(pid)
                        self.groups[int(words[words.index("--slot") + 1])].add(pid)

    def __enter__(self):
        super().__enter__()
        self.watcher.start()
        return self

    def __exit__(self, kind, error, trace):
        self.ends.set()
        self.watcher.join()
        super().__exit__(kind, error, trace)
        self.shares.close()
