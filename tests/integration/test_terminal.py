#!/usr/bin/env python3
"""firnctl as a person at a terminal has it: `local`, pictures of 80 columns, q, and nodes that answer without etcd."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

from lib.cluster import BIN, SLOWNESS, pause
from lib.processes import Heir, kill, naming

COLUMNS = 80
JOB = """name: job
model: {layers: 2, width: 32, heads: 2, context: 32}
data: {path: /usr/include/linux/*.h}
train: {steps: 1000000, lanes: 4, micro_batch: 1}
checkpoint: {every: 100000}
"""


class Screen:
    """A command on a terminal of COLUMNS columns."""

    def __init__(self, command, environment):
        self.bytes, self.status = b"", None
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
            os.execvpe(command[0], command, {**environment, "TERM": "xterm"})

    def read(self):
        """What came within a moment; the end of the command sets its status."""
        if select.select([self.terminal], [], [], 0.05)[0]:
            try:
                piece = os.read(self.terminal, 65536)
            except OSError:  # the other side is closed
                piece = b""
            self.bytes += piece
            if not piece and self.status is None:
                self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.text()

    def text(self):
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.bytes.decode("utf-8", "replace"))

    def press(self, key):
        os.write(self.terminal, key.encode())

    def close(self):
        if self.status is None:
            kill(self.pid)
            os.waitpid(self.pid, 0)
        os.close(self.terminal)


class Terminal(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="firn-terminal-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.cluster = self.folder + "/cluster"
        self.heir = Heir(self.cluster)
        self.addCleanup(self.heir.dismiss)
        self.addCleanup(self.down)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("FIRN_")}
        self.environment.update(PATH=f"{BIN}:{os.environ['PATH']}", XDG_CACHE_HOME=self.folder + "/cache")
        self.up()

    def up(self):
        status, text = self.firnctl("local", "up", "--dir", self.cluster, "--nodes", "2", "--slots", "1")
        self.assertEqual(status, 0, text)
        for line in self.firnctl("local", "env", "--dir", self.cluster)[1].splitlines():
            key, value = line.removeprefix("export ").split("=", 1)
            self.environment[key] = value.strip("'\"")

    def down(self):
        self.firnctl("local", "down", "--dir", self.cluster)
        for pid in naming(self.cluster):  # nothing is left, unless the test has failed
            kill(pid)

    def firnctl(self, *words, given=None):
        done = subprocess.run(["firnctl", *words], env=self.environment, input=given or "", encoding="utf-8",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60 * SLOWNESS, check=False)
        return done.returncode, done.stdout

    def wait(self, what, condition):
        deadline = time.monotonic() + 60 * SLOWNESS
        while not (value := condition()):
            self.assertLess(time.monotonic(), deadline, what)
            pause()
        return value

    def step(self):
        shown = json.loads(self.firnctl("job", "show", "job", "--json")[1])
        return (shown.get("progress") or {}).get("step", 0)

    def submit(self):
        status, text = self.firnctl("job", "submit", "-", given=JOB)
        self.assertEqual(status, 0, text)
        self.wait("the job trains", lambda: self.step() > 0)

    def test_a_folder_that_has_been_up(self):
        self.submit()
        for when in ("running", "down"):
            status, text = self.firnctl("local", "up", "--nodes", "3")  # FIRN_DIR says where
            self.assertEqual(status, 1, when)
            self.assertIn("has 2 nodes of 1 slot (1 thread)", text)
            if when == "running":
                self.assertEqual(self.firnctl("local", "down")[0], 0)
                self.assertEqual(naming(self.cluster), [])
        status, text = self.firnctl("local", "up")
        self.assertEqual(status, 0, text)
        self.assertIn("2 nodes of 1 slot ready", text)
        before = self.step()
        self.wait("the job goes on", lambda: self.step() > before)

    def test_called_wrongly(self):
        self.submit()
        for words in (("plan", "-", "--stages", "7"), ("plan", "-", "--replicas", "5"),
                      ("plan", "-", "--stages", "2", "--replicas", "2", "--devices", "3"),
                      ("job", "submit", "-", "--stages", "7"), ("job", "scale", "job", "--stages", "7")):
            status, text = self.firnctl(*words, given=JOB.replace("name: job", "name: other"))
            self.assertEqual(status, 2, f"{words}: {text}")
        rows = self.firnctl("job", "list")[1].splitlines()
        self.assertEqual(rows[1].count("1 stage x "), 1, rows[1])

    def test_pictures_fit_and_q_leaves(self):
        self.submit()
        for words, sign in ((("top",), "COMPUTE"), (("watch", "job"), "generation 1")):
            screen = Screen(["firnctl", *words], self.environment)
            try:
                self.wait(f"{words[0]} shows the job", lambda: sign in screen.read())
                screen.press("x")
                self.wait(f"{words[0]} goes on", lambda: screen.text().count(sign) < screen.read().count(sign))
                screen.press("q")
                self.wait(f"{words[0]} leaves", lambda: screen.read() and screen.status is not None)
            finally:
                screen.close()
            self.assertEqual(screen.status, 1 if words[0] == "watch" else 0)  # the job has not completed
            # What happened is printed as it is; a picture is redrawn, so its lines must not wrap.
            lines = [line for line in re.split(r"[\r\n]+", screen.text()) if not re.match(r"\d\d:\d\d:\d\d ", line)]
            self.assertLessEqual(max(map(len, lines)), COLUMNS, max(lines, key=len))
        # On a busy machine a change of layout may be under way.
        self.assertIn(json.loads(self.firnctl("job", "show", "job", "--json")[1])["state"], ("running", "preparing"))

    def test_nodes_answer_while_etcd_is_away(self):
        self.submit()
        self.assertEqual(self.firnctl("watch", "job", "--timeout", "1", "--json")[0], 2)  # no such flag
        followed = subprocess.Popen(["firnctl", "metrics", "job", "--follow", "--timeout", "1"], env=self.environment,
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8")
        try:
            self.assertIn("STEP", followed.stdout.readline())
            os.kill(json.loads(self.firnctl("local", "status", "--json")[1])["etcd"]["pid"], signal.SIGKILL)
            self.assertIn("trying for up to 3 s", self.firnctl("top", "--once")[1])
            for words, sign in ((("top", "--once"), "a/0"), (("metrics", "job"), "STEP"), (("job", "logs", "job"), "worker"),
                                (("job", "events", "job"), "plan of generation 1")):
                status, text = self.firnctl(*words, "--timeout", "1")
                self.assertEqual(status, 0, text)
                self.assertIn("asking the nodes", text)
                self.assertIn(sign, text)
            step = int(followed.stdout.readline().split()[0])
            self.wait("what follows goes on", lambda: int(followed.stdout.readline().split()[0]) > step + 1000)
            screen = Screen(["firnctl", "watch", "job", "--timeout", "1"], self.environment)
            try:
                self.wait("watch shows the job", lambda: "loss" in screen.read())
                screen.press("q")
                self.wait("watch leaves", lambda: screen.read() and screen.status is not None)
            finally:
                screen.close()
            status, text = self.firnctl("job", "pause", "job", "--timeout", "1")
            self.assertEqual(status, 1)
            self.assertIn("etcd does not answer", text)
        finally:
            followed.kill()
            followed.wait()
            followed.stdout.close()
        self.assertEqual(self.firnctl("local", "up")[0], 0)
        self.assertEqual(self.firnctl("job", "cancel", "job")[0], 0)


if __name__ == "__main__":
    unittest.main()
