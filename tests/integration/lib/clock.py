"""A wall clock that can be stepped under a whole cluster, see stepped_clock.c."""
import mmap
import struct
import tempfile

from lib.cluster import BIN


class Clock:
    """cluster = Cluster(..., clock=clock); clock.step(3600)"""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile(prefix="firn-clock-")  # pylint: disable=consider-using-with
        self.file.write(bytes(8))
        self.file.flush()
        self.memory = mmap.mmap(self.file.fileno(), 8)
        self.environment = {"FIRN_CLOCK_STEP": self.file.name, "LD_PRELOAD":
                            BIN.rstrip("/").removesuffix("/bin") + "/tests/libstepped-clock.so"}

    def step(self, seconds):
        """From the machine's own time, ahead or back."""
        self.memory[:] = struct.pack("=q", seconds)

    def close(self):
        self.memory.close()
        self.file.close()
