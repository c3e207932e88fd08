#!/usr/bin/env python3
"""Large training data: a node reads it once, another worker reads on for one that dies, and changes are noticed."""
import contextlib
import glob
import os
import unittest

from lib.cluster import Cluster, kill
from lib.job import ENDLESS, Job, make_spec

DATA_BYTES = 2 << 30  # a hole: more than is copied, takes no room, and a moment to read
TOKEN_BYTES = 2
READ_BYTES = 64 << 20  # of the file, before its reader dies
SHARE = 0.1
EVALUATE_EVERY = 10


def write_token(path, position, token):
    with open(path, "r+b") as file:
        file.seek(position * TOKEN_BYTES)
        file.write(token.to_bytes(TOKEN_BYTES, "little"))


def first_validation_token():
    """Of the last samples, which are held out."""
    context = make_spec()["model"]["context"]
    samples = (DATA_BYTES // TOKEN_BYTES - 1) // context
    return (samples - int(samples * SHARE)) * context


def bytes_read(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/io", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("rchar"))
    return 0


class DataStart(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(self.id(), nodes=1, slots=2)
        self.path = self.cluster.folder + "/tokens"
        with open(self.path, "wb") as file:
            file.truncate(DATA_BYTES)
        self.node = self.cluster.nodes["a"]

    def job(self, name, **changes):
        return Job(self.cluster, name=name, data__path=self.path, data__format="uint16", data__validation=SHARE,
                   evaluate__every=EVALUATE_EVERY, **{"train__steps": 30, **changes})

    def locks(self):
        """(readers, waiting workers) of this node's data."""
        inodes = set()
        for path in glob.glob(self.node.data + "/data-digests/*"):
            with contextlib.suppress(OSError):
                inodes.add(os.stat(path).st_ino)
        held, waiting = set(), set()
        with open("/proc/locks", encoding="ascii") as file:
            for words in map(str.split, file):
                blocked = words[1] == "->"
                kind, _, _, pid, place = words[1 + blocked:6 + blocked]
                if kind == "FLOCK" and int(place.split(":")[2]) in inodes:
                    (waiting if blocked else held).add(int(pid))
        return held, waiting

    def logs(self, name, words):
        """How often the workers of a job have said that."""
        found = 0
        for path in glob.glob(f"{self.node.data}/jobs/{name}/worker-*.log"):
            with open(path, encoding="utf-8") as file:
                found += file.read().count(words)
        return found

    def reads(self, name):
        return self.logs(name, "of the training data in")

    def one_reads(self):
        """The process that reads while the other one waits."""
        def look():
            held, waiting = self.locks()
            return (held, waiting) if len(held) == 1 and len(waiting) == 1 else None
        held, waiting = self.cluster.wait("one worker reads, and the other waits", look)
        return held.pop(), waiting.pop()

    def test_reader_dies_and_data_changes(self):
        with self.cluster as cluster:
            first = self.job("first").submit()
            reader, waiter = self.one_reads()
            cluster.wait("a part of the data is read", lambda: bytes_read(reader) > READ_BYTES)
            kill(reader)
            cluster.note(f"worker {reader} is killed")
            cluster.wait("the other worker reads", lambda: waiter in self.locks()[0])
            first.wait_completed()
            self.assertEqual(self.reads("first"), 2)
            self.assertEqual(len(os.listdir(self.node.data + "/data-digests")), 1)

            second = self.job("second").submit()
            second.wait_completed()
            self.assertEqual(self.reads("second"), 0)
            self.assertEqual(self.logs("second", "has not changed since a worker of this node read it"), 2)
            self.assertEqual(second.exact(), first.exact())

            write_token(self.path, 12345678, 300)
            third = self.job("third").submit()
            third.wait_state("failed")
            for words in (self.path, "token 300 at position 12345678 is outside the vocabulary (model.vocab 256)",
                          "are model.vocab and data.format those of"):
                self.assertIn(words, third.why())
            write_token(self.path, 12345678, 0)  # as it was, but at another time
            fourth = self.job("fourth").submit()
            fourth.wait_completed()
            self.assertEqual(self.reads("fourth"), 1)
            self.assertEqual(fourth.exact(), first.exact())

    def test_data_rots_while_it_is_trained_on(self):
        with self.cluster as cluster:
            job = self.job("job", train__steps=ENDLESS).submit()
            job.wait_step(EVALUATE_EVERY + 1)
            position = first_validation_token() + 5
            write_token(self.path, position, 65535)
            job.wait_state("failed")
            for words in (self.path, f"token 65535 at position {position}", "bring the file back as it was"):
                self.assertIn(words, job.why())
            self.assertFalse(os.listdir(self.node.data + "/data-digests"), "the digest that hid it is gone")
            cluster.wait("no worker is left", lambda: not self.node.workers())


if __name__ == "__main__":
    unittest.main()
