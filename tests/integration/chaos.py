"""Random faults on a running job, one after the other; each heals what it broke before the next comes."""
import errno
import signal
import time

from doom import CHECKPOINT, STEP, SWITCH, Order, disk_fault
from processes import kill

BLINKS = (0.2, 3.0)  # seconds, below and above what is taken for death
DEVICES = 6


class Chaos:
    """Faults by the numbers of @random; those of the network only where the cluster has one of its own."""

    def __init__(self, cluster, job, random):
        self.cluster, self.job, self.random, self.count = cluster, job, random, {}
        self.faults = [self.kill_worker, self.kill_worker, self.kill_two_workers, self.kill_in_a_place,
                       self.stop_worker, self.kill_node, self.kill_daemon, self.kill_leading_daemon, self.stop_daemon,
                       self.kill_etcd, self.scale, self.fail_disks, self.join_and_die]
        if cluster.network:
            self.faults += [self.cut_node, self.cut_leading_node, self.part_two_nodes]

    def disturb(self, seconds, faults_per_second):
        """For that long; the count of each fault is in @count."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.rest(self.random.expovariate(faults_per_second))
            fault = self.random.choice(self.faults)
            self.count[fault.__name__] = self.count.get(fault.__name__, 0) + 1
            fault()

    def rest(self, seconds):
        until = time.monotonic() + seconds
        self.cluster.wait(f"{seconds:.1f} s are over", lambda: time.monotonic() > until, seconds + 60)

    def node(self):
        return self.random.choice([node for name, node in self.cluster.nodes.items() if name != "d"])

    def leader(self):
        """The node that leads now, any when nobody does."""
        return self.cluster.leader() or self.node()

    def worker(self):
        """Any that lives, on any node; (None, None) when there is none."""
        alive = [(node, pid) for node in self.cluster.nodes.values() for pid in node.workers()]
        return self.random.choice(alive) if alive else (None, None)

    def kill_worker(self):
        node, pid = self.worker()
        if pid:
            number = self.random.choice([signal.SIGKILL, signal.SIGSEGV])
            self.cluster.note(f"worker {pid} of {node.name} gets {number.name}")
            kill(pid, number)

    def kill_two_workers(self):
        self.kill_worker()
        self.kill_worker()

    def kill_in_a_place(self):
        """Whoever works on that slot, should it come by."""
        order = Order(self.job, self.node(), self.random.randrange(2),
                      self.random.choice(STEP + SWITCH + CHECKPOINT),
                      self.random.choice([signal.SIGKILL, signal.SIGSEGV]))
        self.rest(self.random.uniform(0, 1))
        order.withdraw()

    def stop_worker(self):
        node, pid = self.worker()
        if pid:
            seconds = self.random.choice(BLINKS)
            self.cluster.note(f"worker {pid} of {node.name} stops for {seconds} s")
            kill(pid, signal.SIGSTOP)
            self.rest(seconds)
            kill(pid, signal.SIGCONT)

    def kill_node(self):
        node = self.node()
        node.kill()
        self.rest(self.random.uniform(0, 4))
        node.launch()

    def restart_daemon(self, node):
        node.kill_daemon()
        self.rest(self.random.uniform(0, 4))
        node.launch()

    def kill_daemon(self):
        self.restart_daemon(self.node())

    def kill_leading_daemon(self):
        self.restart_daemon(self.leader())

    def stop_daemon(self):
        node, seconds = self.random.choice([self.node(), self.leader()]), self.random.choice(BLINKS)
        self.cluster.note(f"firnd {node.name} stops for {seconds} s")
        kill(node.process.pid, signal.SIGSTOP)
        self.rest(seconds)
        kill(node.process.pid, signal.SIGCONT)

    def kill_etcd(self):
        self.cluster.note("etcd is killed")
        self.cluster.etcd.kill()
        self.rest(self.random.uniform(0, 3))
        self.cluster.etcd.launch()
        self.cluster.wait("etcd is healthy again", self.cluster.etcd.healthy)

    def scale(self):
        self.job.ask(devices=self.random.randint(2, DEVICES))

    def fail_disks(self):
        with disk_fault(self.job, [self.node()], self.random.choice([errno.EIO, errno.ENOSPC])):
            self.rest(self.random.uniform(0, 2))

    def join_and_die(self):
        guest = self.cluster.nodes.get("d") or self.cluster.add("d", 2)
        guest.launch()
        self.rest(self.random.uniform(0, 1))
        guest.kill()

    def blink(self, node):
        node.cut()
        self.rest(self.random.choice(BLINKS))
        node.mend()

    def cut_node(self):
        self.blink(self.node())

    def cut_leading_node(self):
        self.blink(self.leader())

    def part_two_nodes(self):
        one, other = self.random.sample("abc", 2)
        one, other = self.cluster.nodes[one], self.cluster.nodes[other]
        self.cluster.note(f"nodes {one.name} and {other.name} lose each other")
        self.cluster.network.part(one.cable, other.cable)
        self.rest(self.random.choice(BLINKS))
        self.cluster.network.part(one.cable, other.cable, apart=False)
        self.cluster.note("and find each other")
