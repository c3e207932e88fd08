"""Random faults on a running job, some at a time; each heals what it broke, and none takes what another has."""
import contextlib
import errno
import http.client
import os
import random
import shutil
import signal
import sys
import time

from lib.cluster import FAILURE_TIMEOUT_MS, REPOSITORY, SLOWNESS, pause
from lib.crowds import crowd
from lib.doom import CHECKPOINT, STEP, SWITCH, Flip, Order, disk_fault, slow_disk
from lib.processes import kill

sys.path.append(REPOSITORY + "/bench")
from cgroup import Share  # pylint: disable=wrong-import-position

BLINKS = (0.2 * SLOWNESS, 2 * FAILURE_TIMEOUT_MS / 1000)  # seconds, below and above what is taken for death
LEASE = 13.0  # seconds, longer than any
DEVICES = 6
AT_ONCE = 2
POLL = 0.2
HEALED_SECONDS = 120  # until nothing that counts has a rotten block
ROTS = ("manifest.json", "metrics-", "model-frozen-", "model-0", "optimizer-")  # files of a checkpoint, by kind


def rest_until(when):
    while time.monotonic() < when:
        pause()


class Busy(Exception):
    """Nothing is left for a fault of this kind just now."""


class Chaos:
    """Faults by the numbers of @seed: what a cluster can suffer depends on what it has.

    A fault that lasts is a generator, which yields the seconds until it goes on. It claims what it
    breaks, so that the others leave that alone until it is over."""

    def __init__(self, cluster, job, seed, seconds, store=None):
        self.cluster, self.job, self.seed, self.store, self.count = cluster, job, seed, store, {}
        self.claimed, self.began = set(), 0
        self.rotten = {}  # kind of file -> bits flipped
        self.spans = BLINKS if seconds < 60 else BLINKS * 2 + (LEASE,)
        self.faults = [self.kill_worker, self.kill_worker, self.kill_two_workers, self.kill_in_a_place,
                       self.stop_worker, self.slow_worker, self.flip_bit, self.flip_wire, self.flip_file, self.crowd,
                       self.kill_node, self.stop_node,
                       self.kill_daemon, self.kill_leading_daemon, self.stop_daemon, self.reload_daemon,
                       self.hand_over, self.drain, self.kill_etcd, self.compact_etcd, self.scale, self.pause,
                       self.fail_disks, self.slow_disks, self.join_and_die]
        if cluster.network:
            self.faults += [self.cut_node, self.cut_leading_node, self.part_two_nodes, self.deafen_node,
                            self.slow_cable]
        if cluster.clock:
            self.faults += [self.step_clock]
        if len(cluster.etcd.members) > 1:
            self.faults += [self.kill_member, self.stop_member]
        if cluster.own_disks:
            self.faults += [self.lose_disk]
        if store:
            self.faults += [self.kill_store, self.stop_store]
        asked = os.environ.get("FIRN_CHAOS_FAULTS", "").split()
        self.faults = [fault for fault in self.faults if not asked or fault.__name__ in asked]

    # ---- when ----

    def disturb(self, seconds, faults_per_second):
        """For that long; the count of each fault is in @count."""
        until, lasting, pace = time.monotonic() + seconds, [], random.Random(self.seed)
        due = time.monotonic() + pace.expovariate(faults_per_second)
        while lasting or due < until:
            at, fault = min(lasting, key=lambda entry: entry[0], default=(until, None))
            if due < until and (due < at or not fault) and len(lasting) < AT_ONCE:
                rest_until(due)
                due += pace.expovariate(faults_per_second)
                fault = self.next_fault()
            else:
                rest_until(at)
                lasting = [entry for entry in lasting if entry[1] is not fault]
            with contextlib.suppress(StopIteration):
                lasting.append((time.monotonic() + next(fault), fault))

    def next_fault(self):
        """Counted, unless there is nothing for it. It has numbers of its own: how long others last changes none."""
        self.began += 1
        numbers = random.Random(f"{self.seed}/{self.began}")
        kind = numbers.choice(self.faults)
        with contextlib.suppress(Busy):
            for seconds in kind(numbers) or ():
                yield seconds
            self.count[kind.__name__] = self.count.get(kind.__name__, 0) + 1

    # ---- what ----

    @contextlib.contextmanager
    def claim(self, *things):
        if self.claimed & set(things):
            raise Busy
        self.claimed |= set(things)
        try:
            yield
        finally:
            self.claimed -= set(things)

    def hosts(self):
        """All nodes but the guest."""
        return [node for name, node in self.cluster.nodes.items() if name in "abc"]

    def nodes(self):
        """Those that nothing lasts on."""
        nodes = [node for node in self.hosts() if node not in self.claimed]
        for node in nodes:
            if node.process.poll() is not None:
                raise AssertionError(f"firnd {node.name} has ended by itself: {node.process.returncode}")
        return nodes

    def node(self, numbers):
        nodes = self.nodes()
        if not nodes:
            raise Busy
        return numbers.choice(nodes)

    def leader(self, numbers):
        """The node that leads now, any when nobody does."""
        leader = self.cluster.leader()
        return leader if leader in self.nodes() else self.node(numbers)

    def worker(self, numbers):
        """Any that lives."""
        alive = [(node, pid) for node in self.nodes() for pid in node.workers()]
        if not alive:
            raise Busy
        return numbers.choice(alive)

    # ---- workers ----

    def kill_worker(self, numbers):
        node, pid = self.worker(numbers)
        number = numbers.choice([signal.SIGKILL, signal.SIGSEGV])
        self.cluster.note(f"worker {pid} of {node.name} gets {number.name}")
        kill(pid, number)

    def kill_two_workers(self, numbers):
        self.kill_worker(numbers)
        self.kill_worker(numbers)

    def kill_in_a_place(self, numbers):
        """Whoever works on that slot, should it come by."""
        with self.claim("order"):
            order = Order(self.job, self.node(numbers), numbers.randrange(2),
                          numbers.choice(STEP + SWITCH + CHECKPOINT),
                          numbers.choice([signal.SIGKILL, signal.SIGSEGV]))
            yield numbers.uniform(0, 1)
            order.withdraw()

    def stop_worker(self, numbers):
        node, pid = self.worker(numbers)
        seconds = numbers.choice(self.spans)
        with self.claim(f"worker {pid}"):
            self.cluster.note(f"worker {pid} of {node.name} stops for {seconds} s")
            kill(pid, signal.SIGSTOP)
            yield seconds
            kill(pid, signal.SIGCONT)

    def slow_worker(self, numbers):
        node, pid = self.worker(numbers)
        try:
            share = Share(f"chaos-{self.began}", 0.1)
        except OSError as error:
            raise Busy from error
        with share, self.claim(f"pace of worker {pid}"):
            self.cluster.note(f"worker {pid} of {node.name} gets a tenth of a processor")
            share.add(pid)
            yield numbers.choice(self.spans)

    def flip_bit(self, numbers):
        """Where a replica computes the same. What else happens might leave a wrong one alone: nothing does."""
        if self.claimed:
            raise Busy
        node = self.node(numbers)
        with self.claim(*self.hosts(), "guest", "etcd"):
            flip = Flip(self.job, node, numbers.randrange(2))
            yield numbers.uniform(0, 1)
            flip.withdraw()
            yield 2 * SLOWNESS
            for host in self.hosts():
                record = self.record(host)
                if record and any(slot["bad"] for slot in record["slots"]):
                    yield from self.excuse(host)

    def flip_wire(self, numbers):
        """Of a tensor on its way to a peer: the link breaks, and nobody is accused."""
        with self.claim("wire"):
            flip = Flip(self.job, self.node(numbers), numbers.randrange(2), "wire")
            yield numbers.uniform(0, 1)
            flip.withdraw()

    def crowd(self, numbers):
        """Strangers and readers, and a worker that dies among them."""
        with self.claim("crowd"), crowd(self.hosts(), self.job.name):
            self.cluster.note("a crowd comes to the links and to HTTP")
            yield numbers.uniform(0.2, 1)
            self.kill_worker(numbers)
            yield numbers.uniform(1, 4)
            self.cluster.note("the crowd goes")

    # ---- files of checkpoints ----

    def files(self):
        """(path, inode) of what counts: files of recorded checkpoints that are not known to be damaged."""
        found = []
        for record in self.job.checkpoints():
            folders = self.job.folders(record["step"]).values() if self.cluster.own_disks else [record["path"]]
            for folder in folders if not record.get("damaged") else ():
                with contextlib.suppress(FileNotFoundError):  # it has had its day
                    found += [(entry.path, entry.inode()) for entry in os.scandir(folder)]
        return found

    def counts(self, inode, offset, byte):
        """Whether a checkpoint that counts has the rotten byte."""
        try:
            for path, other in self.files():
                if other == inode:
                    with open(path, "rb") as file:
                        file.seek(offset)
                        return file.read(1) == byte
        except FileNotFoundError:
            return True  # it goes just now
        except (OSError, http.client.HTTPException):
            return True  # etcd is away
        return False

    def flip_file(self, numbers):
        """One bit of a checkpoint, of every kind of file. No second one before nothing that counts has it."""
        with self.claim("disk", "rot"):
            try:
                kind = numbers.choice(ROTS)
                path, inode = numbers.choice([(path, inode) for path, inode in self.files()
                                              if os.path.basename(path).startswith(kind)])
                with open(path, "r+b") as file:
                    offset = numbers.randrange(os.fstat(file.fileno()).st_size)
                    file.seek(offset)
                    byte = bytes([file.read(1)[0] ^ 1 << numbers.randrange(8)])
                    file.seek(offset)
                    file.write(byte)
            except (IndexError, OSError, http.client.HTTPException) as error:
                raise Busy from error
            self.cluster.note(f"a bit of {path} is flipped")
            self.rotten[kind] = self.rotten.get(kind, 0) + 1
            deadline = time.monotonic() + HEALED_SECONDS * SLOWNESS
            while self.counts(inode, offset, byte):
                if time.monotonic() > deadline:
                    raise AssertionError(f"a checkpoint that counts still has the flipped bit of {path}")
                yield POLL
            self.cluster.note("nothing that counts has it any more")

    def record(self, node):
        """What it says of itself; None while it is not registered."""
        return self.cluster.etcd.get(f"/firn/v1/{self.cluster.name}/nodes/{node.name}")

    def excuse(self, node):
        """firnctl node drain, then resume: its slots are good again."""
        self.cluster.note(f"the slots of node {node.name} are put back into service")
        self.cluster.etcd.put(self.drains(node), {})
        while (self.record(node) or {}).get("state") != "draining":
            yield POLL
        self.cluster.etcd.delete(self.drains(node))

    def drains(self, node):
        return f"/firn/v1/{self.cluster.name}/drains/{node.name}"

    # ---- nodes and their daemons ----

    def kill_node(self, numbers):
        node = self.node(numbers)
        with self.claim(node):
            node.kill()
            yield numbers.uniform(0, 4)
            node.launch()

    def stop_node(self, numbers):
        """A machine that stands still, as while it is moved to another host."""
        node, seconds = self.node(numbers), numbers.choice(self.spans)
        with self.claim(node):
            pids = [node.process.pid, *node.workers()]
            self.cluster.note(f"node {node.name} stands still for {seconds} s")
            for pid in pids:
                kill(pid, signal.SIGSTOP)
            yield seconds
            for pid in pids:
                kill(pid, signal.SIGCONT)

    def restart_daemon(self, node, numbers):
        with self.claim(node):
            node.kill_daemon()
            yield numbers.choice([numbers.uniform(0, 4), *self.spans])
            node.launch()

    def kill_daemon(self, numbers):
        return self.restart_daemon(self.node(numbers), numbers)

    def kill_leading_daemon(self, numbers):
        return self.restart_daemon(self.leader(numbers), numbers)

    def stop_daemon(self, numbers):
        node, seconds = numbers.choice([self.node, self.leader])(numbers), numbers.choice(self.spans)
        with self.claim(node):
            self.cluster.note(f"firnd {node.name} stops for {seconds} s")
            kill(node.process.pid, signal.SIGSTOP)
            yield seconds
            kill(node.process.pid, signal.SIGCONT)

    def end_daemon(self, node, number):
        """And wait until it has gone by itself."""
        self.cluster.note(f"firnd {node.name} gets {number.name}")
        node.process.send_signal(number)
        deadline = time.monotonic() + 70 * SLOWNESS
        while node.process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"firnd {node.name} does not end by {number.name}")
            yield POLL
        node.process = None

    def reload_daemon(self, numbers):
        """As after an upgrade."""
        node = self.node(numbers)
        with self.claim(node):
            yield from self.end_daemon(node, signal.SIGUSR2)
            node.launch()

    def hand_over(self, numbers):
        """systemctl poweroff, and on again."""
        node = self.node(numbers)
        with self.claim(node):
            yield from self.end_daemon(node, signal.SIGTERM)
            yield numbers.uniform(0, 2)
            node.launch()

    def join_and_die(self, numbers):
        with self.claim("guest"):
            guest = self.cluster.nodes.get("d") or self.cluster.add("d", 2)
            guest.launch()
            yield numbers.uniform(0, 1)
            guest.kill()

    # ---- etcd ----

    def kill_etcd(self, numbers):
        with self.claim("etcd"):
            self.cluster.note("etcd is killed")
            self.cluster.etcd.kill()
            yield numbers.choice([numbers.uniform(0, 3), *self.spans])
            self.cluster.etcd.launch()
            yield from self.wait_etcd()

    def wait_etcd(self):
        deadline = time.monotonic() + 60
        while not self.cluster.etcd.healthy():
            if time.monotonic() > deadline:
                raise AssertionError("etcd is not healthy within 60 s")
            yield POLL

    def kill_member(self, numbers):
        """Or two, and with them the quorum."""
        with self.claim("etcd"):
            members = numbers.sample(self.cluster.etcd.members, numbers.choice([1, 2]))
            self.cluster.note(f"of etcd's members {' '.join(member.name for member in members)} are killed")
            for member in members:
                member.kill()
            yield numbers.choice(self.spans)
            self.cluster.etcd.launch()
            yield from self.wait_etcd()

    def stop_member(self, numbers):
        """It takes connections and says nothing."""
        with self.claim("etcd"):
            member = numbers.choice(self.cluster.etcd.members)
            self.cluster.note(f"etcd's member {member.name} stops")
            kill(member.process.pid, signal.SIGSTOP)
            yield numbers.choice(self.spans)
            kill(member.process.pid, signal.SIGCONT)
            yield from self.wait_etcd()

    def compact_etcd(self, _):
        with self.claim("etcd"):
            self.cluster.note("etcd is compacted")
            yield from self.said(self.cluster.etcd.compact)

    # ---- the object store ----

    def kill_store(self, numbers):
        with self.claim("store"):
            self.cluster.note("the object store is killed")
            self.store.kill()
            yield numbers.choice(self.spans)
            self.store.launch()
            deadline = time.monotonic() + 60 * SLOWNESS
            while not self.store.answers():
                if time.monotonic() > deadline:
                    raise AssertionError("the object store does not answer again")
                yield POLL

    def stop_store(self, numbers):
        """It takes connections and says nothing."""
        with self.claim("store"):
            self.cluster.note("the object store stops")
            self.store.signal(signal.SIGSTOP)
            yield numbers.choice(self.spans)
            self.store.signal(signal.SIGCONT)

    # ---- what people ask for ----

    @staticmethod
    def said(say, *words, **more):
        """As soon as etcd is there to hear it."""
        while True:
            try:
                say(*words, **more)
                return
            except (OSError, http.client.HTTPException):
                yield POLL

    def scale(self, numbers):
        """Never to fewer than what has to be."""
        least = max(2, self.job.wish["stages"])
        yield from self.said(self.job.ask, devices=numbers.randint(least, DEVICES))

    def pause(self, numbers):
        with self.claim("wish"):
            yield from self.said(self.job.ask, state="paused")
            yield numbers.uniform(0, 3)
            yield from self.said(self.job.ask, state="running")

    def drain(self, numbers):
        node = self.node(numbers)
        with self.claim(f"service of {node.name}"):
            self.cluster.note(f"node {node.name} is drained")
            yield from self.said(self.cluster.etcd.put, self.drains(node), {})
            yield numbers.uniform(0, 4)
            self.cluster.note(f"node {node.name} is back in service")
            yield from self.said(self.cluster.etcd.delete, self.drains(node))

    # ---- machines ----

    def fail_disks(self, numbers):
        node = self.node(numbers)
        with self.claim("disk"), disk_fault(self.job, [node], numbers.choice([errno.EIO, errno.ENOSPC])):
            yield numbers.uniform(0, 2)

    def slow_disks(self, numbers):
        with self.claim("disk"), slow_disk(self.job, self.hosts(), numbers.randrange(50, 2000)):
            yield numbers.uniform(0, 4)

    def lose_disk(self, numbers):
        """A machine that comes back empty; the others make copies again before another one goes."""
        node = self.node(numbers)
        with self.claim("disk"):
            with self.claim(node):
                node.kill()
                shutil.rmtree(node.checkpoints, ignore_errors=True)
                self.cluster.note(f"the checkpoints of node {node.name} are gone")
                yield numbers.uniform(0, 4)
                node.launch()
            yield 4 * SLOWNESS

    def step_clock(self, numbers):
        seconds = numbers.choice([-3600, -1, 0, 1, 3600])
        self.cluster.note(f"the clock is {seconds} s ahead now")
        self.cluster.clock.step(seconds)

    # ---- the network ----

    def blink(self, node, numbers):
        with self.claim(node):
            node.cut()
            yield numbers.choice(self.spans)
            node.mend()

    def cut_node(self, numbers):
        return self.blink(self.node(numbers), numbers)

    def cut_leading_node(self, numbers):
        return self.blink(self.leader(numbers), numbers)

    def part(self, numbers, ways, words):
        """Until they find each other."""
        nodes = self.nodes()
        if len(nodes) < 2:
            raise Busy
        one, other = numbers.sample(nodes, 2)
        with self.claim(f"cables {one.name}", f"cables {other.name}"):
            self.cluster.note(words.format(one.name, other.name))
            self.cluster.network.part(one.cable, other.cable, ways=ways)
            yield numbers.choice(self.spans)
            self.cluster.network.part(one.cable, other.cable, apart=False, ways=ways)
            self.cluster.note(f"nodes {one.name} and {other.name} find each other")

    def part_two_nodes(self, numbers):
        return self.part(numbers, 2, "nodes {} and {} lose each other")

    def deafen_node(self, numbers):
        return self.part(numbers, 1, "nothing that node {} sends comes to node {}")

    def slow_cable(self, numbers):
        node = self.node(numbers)
        with self.claim(f"pace of {node.name}"):
            self.cluster.note(f"the cable of node {node.name} carries little")
            self.cluster.network.slow(node.cable)
            yield numbers.choice(self.spans)
            self.cluster.network.slow(node.cable, slow=False)
            self.cluster.note(f"the cable of node {node.name} carries much")
