"""An etcd for tests: one member or several that survive their own death, because their data stays."""
import base64
import json
import shutil
import signal
import subprocess
import urllib.error
import urllib.request

from lib.processes import die_with_parent

ETCD = shutil.which("etcd") or "/usr/bin/etcd"


def http_json(url, data=None, timeout=2):
    body = json.dumps(data).encode() if data is not None else None
    with urllib.request.urlopen(url, body, timeout) as answer:
        return json.load(answer)


def end_of(prefix):
    """The end of the range of all keys that begin with @prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def text64(text):
    return base64.b64encode(text.encode()).decode()


class Member:
    """One process of etcd."""

    def __init__(self, folder, name, host, ports):
        self.data, self.log, self.name = f"{folder}/etcd-{name}", f"{folder}/etcd-{name}.log", name
        self.url, self.peer = (f"http://{host}:{ports.take(1)}" for _ in range(2))
        self.process, self.hangs, self.quota_bytes = None, False, 0

    def launch(self, members):
        cluster = ",".join(f"{member.name}={member.peer}" for member in members)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [ETCD, "--name", self.name, "--data-dir", self.data, "--unsafe-no-fsync",
                 "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                 "--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer,
                 "--initial-cluster", cluster, "--heartbeat-interval", "50" if len(members) > 1 else "10",
                 "--election-timeout", "500" if len(members) > 1 else "100", "--log-level", "warn", "--quota-backend-bytes", str(self.quota_bytes)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process, self.hangs = None, False

    def hang(self):
        """It goes on to take connections, and answers nothing."""
        self.process.send_signal(signal.SIGSTOP)
        self.hangs = True

    def wake(self):
        self.process.send_signal(signal.SIGCONT)
        self.hangs = False

    def healthy(self):
        try:
            return http_json(self.url + "/health").get("health") == "true"
        except (OSError, ValueError):
            return False


class Etcd:
    """All of them; calls go to the first that answers."""

    def __init__(self, folder, ports, members=1, host="127.0.0.1"):
        self.members = [Member(folder, f"m{index}", host, ports) for index in range(members)]

    @property
    def url(self):
        """What firnd and firnctl take as --endpoints."""
        return ",".join(member.url for member in self.members)

    def launch(self):
        for member in self.members:
            if not member.process:
                member.launch(self.members)

    def kill(self):
        for member in self.members:
            member.kill()

    def lose_everything(self):
        """Killed, and its data gone; launch() then starts with nothing."""
        self.kill()
        for member in self.members:
            shutil.rmtree(member.data)

    def healthy(self):
        return all(member.healthy() for member in self.members if member.process)

    def call(self, what, request):
        error = OSError("no member of etcd runs")
        for member in self.members:
            if member.process and not member.hangs:
                try:
                    return http_json(f"{member.url}/v3/{what}", request)
                except OSError as refused:
                    error = refused
        raise error

    def put(self, key, value):
        self.call("kv/put", {"key": text64(key), "value": text64(json.dumps(value))})

    def delete(self, key):
        self.call("kv/deleterange", {"key": text64(key)})

    def delete_below(self, prefix):
        self.call("kv/deleterange", {"key": text64(prefix), "range_end": text64(end_of(prefix))})

    def compact(self):
        """Forgets every revision but the present one: who watches from an older one must start anew."""
        revision = self.call("kv/range", {"key": text64("/")})["header"]["revision"]
        self.call("kv/compaction", {"revision": revision, "physical": True})

    def fill(self):
        """Others write until etcd takes no more, as one that nobody compacts does after months."""
        value = "x" * (1 << 20)
        try:
            for _ in range(2 * self.members[0].quota_bytes // len(value)):
                self.put("/filling", value)
            raise AssertionError("etcd takes any number of bytes")
        except urllib.error.HTTPError as full:
            full.close()

    def mend(self):
        """What etcd's manual says about an etcd without space."""
        self.compact()
        for member in self.members:
            http_json(f"{member.url}/v3/maintenance/defragment", {}, 20)
        for alarm in self.call("maintenance/alarm", {"action": "GET"}).get("alarms", []):
            self.call("maintenance/alarm", {"action": "DEACTIVATE", **alarm})

    def range(self, prefix):
        answer = self.call("kv/range", {"key": text64(prefix), "range_end": text64(end_of(prefix))})
        return {base64.b64decode(entry["key"]).decode():
                json.loads(base64.b64decode(entry["value"])) for entry in answer.get("kvs", [])}

    def get(self, key):
        return self.range(key).get(key)
