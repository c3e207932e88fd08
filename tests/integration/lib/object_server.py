"""An S3 server on loopback for tests: OpenStack Swift with s3api (Debian: python3-swift) or moto (PyPI:
moto[server]), whichever this Python, or for Swift the system's own, can import.

Swift is a real store: it checks every signature and keeps objects on disk, so it can be stopped and
started again. moto knows the protocol and forgets everything when it ends; tests that stop the store
need Swift. All Swift needs lies in one folder: no root, no service, no file below /etc.
"""
import contextlib
import datetime
import functools
import hashlib
import hmac
import http.client
import os
import re
import subprocess
import sys
import urllib.parse

from lib.processes import die_with_parent

# Of this file as a program of its own.
ENVIRONMENT = {**os.environ, "PYTHONWARNINGS": "ignore",
               "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}

REGION = "us-east-1"
SWIFT_SERVERS = ("account", "container", "object", "proxy")


@functools.cache
def python_with(*modules):
    """An interpreter that can import all of them; None."""
    code = "import importlib.util as u, sys; sys.exit(not all(u.find_spec(name) for name in sys.argv[1:]))"
    for python in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(OSError):
            if subprocess.run([python, "-W", "ignore", "-c", code, *modules], stdin=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False).returncode == 0:
                return python
    return None


def installed():
    """"swift", "moto" or None."""
    if python_with("swift.common.middleware.s3api"):
        return "swift"
    return "moto" if python_with("moto.server", "flask") else None


# ---- Swift, as a program of its own: object_server.py FOLDER account|container|object|proxy ----

SERVER = """[DEFAULT]
swift_dir = {folder}
devices = {folder}/devices
mount_check = false
bind_ip = {host}
bind_port = {port}
workers = 0
user = {user}
log_level = WARNING
fallocate_reserve = 0
"""
# A server that has not come up yet, or again, is asked again at once instead of after a minute; one that a busy
# machine keeps from answering is waited for, and not answered for with an error.
PROXY_PIPELINE = """[pipeline:main]
pipeline = catch_errors cache listing_formats s3api tempauth slo proxy-server
[app:proxy-server]
use = egg:swift#proxy
allow_account_management = true
account_autocreate = true
error_suppression_interval = 0
error_suppression_limit = 1000000
conn_timeout = 10
node_timeout = 30
recoverable_node_timeout = 30
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:1
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:slo]
use = egg:swift#slo
"""
PIPELINE = """[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""


def point_swift_at(folder):
    """Its own /etc/swift/swift.conf is a constant; nothing of it may be read before this."""
    from swift.common import utils  # pylint: disable=import-outside-toplevel,import-error
    utils.SWIFT_CONF_FILE = folder + "/swift.conf"
    from swift.common import storage_policy  # pylint: disable=import-outside-toplevel,import-error
    storage_policy.SWIFT_CONF_FILE = utils.SWIFT_CONF_FILE
    storage_policy.reload_storage_policies()


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def prepare_swift(folder, host, first_port):
    """Configuration and rings: one device, one copy."""
    os.makedirs(folder + "/devices/disk", exist_ok=True)
    write(folder + "/swift.conf", "[swift-hash]\nswift_hash_path_prefix = a\nswift_hash_path_suffix = b\n"
                                  "[storage-policy:0]\nname = one\ndefault = yes\n")
    point_swift_at(folder)
    from swift.common.ring import RingBuilder  # pylint: disable=import-outside-toplevel,import-error
    import pwd  # pylint: disable=import-outside-toplevel
    user = pwd.getpwuid(os.getuid()).pw_name
    for index, kind in enumerate(SWIFT_SERVERS):
        port = first_port + index
        text = SERVER.format(folder=folder, host=host, port=port, user=user)
        write(f"{folder}/{kind}.conf", text + (PROXY_PIPELINE if kind == "proxy" else PIPELINE.format(kind=kind)))
        if kind == "proxy":
            continue
        ring = RingBuilder(2, 1, 1)
        ring.add_dev({"id": 0, "region": 1, "zone": 1, "ip": host, "port": port, "device": "disk",
                      "weight": 1, "replication_ip": host, "replication_port": port})
        ring.rebalance()
        ring.get_ring().save(f"{folder}/{kind}.ring.gz")


def run_swift(folder, kind):
    point_swift_at(folder)
    from swift.common.wsgi import run_wsgi  # pylint: disable=import-outside-toplevel,import-error
    return run_wsgi(f"{folder}/{kind}.conf", kind + "-server")


# ---- for tests ----

class ObjectServer:
    """launch(), kill(), and the little of S3 that a test needs to look inside and to do damage."""

    def __init__(self, folder, ports, host="127.0.0.1"):
        self.kind, self.folder, self.host = installed(), folder + "/store", host
        self.first_port = ports.take(len(SWIFT_SERVERS))
        self.port = self.first_port + (SWIFT_SERVERS.index("proxy") if self.kind == "swift" else 0)
        self.url = f"http://{host}:{self.port}"
        self.access, self.secret = ("test:tester", "testing") if self.kind == "swift" else ("key", "secret")
        self.processes = []
        os.makedirs(self.folder)

    def settings(self, path, **more):
        """The file that firnd and firnctl read."""
        lines = {"endpoint": self.url, "region": REGION, "access_key": self.access, "secret_key": self.secret, **more}
        with open(path, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.writelines(f"{key} = {value}\n" for key, value in lines.items())
        return path

    def start(self, command):
        with open(self.folder + "/log", "ab") as log:
            self.processes.append(subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent,
                env=ENVIRONMENT))

    def launch(self):
        if self.kind == "swift":
            python = python_with("swift.common.middleware.s3api")
            subprocess.run([python, __file__, self.folder, "prepare", self.host, str(self.first_port)], check=True,
                           stdin=subprocess.DEVNULL, env=ENVIRONMENT)
            for kind in SWIFT_SERVERS:
                self.start([python, __file__, self.folder, kind])
        else:
            self.start([python_with("moto.server", "flask"), "-m", "moto.server", "-H", self.host, "-p",
                        str(self.port)])

    def kill(self):
        for process in reversed(self.processes):  # who answers first: none speaks of the others' end
            process.kill()
            process.wait()
        self.processes = []

    def signal(self, number):
        """To the one that firn talks to."""
        self.processes[-1].send_signal(number)

    def answers(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ask("GET", "/")[0] == 200
        return False

    def sign(self, method, path, query, body):
        """AWS Signature Version 4, by the book."""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        headers = {"host": f"{self.host}:{self.port}", "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
                   "x-amz-date": now}
        names = ";".join(sorted(headers))
        request = "\n".join([method, path, query, *(f"{name}:{headers[name]}" for name in sorted(headers)), "", names,
                             headers["x-amz-content-sha256"]])
        scope = f"{now[:8]}/{REGION}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(request.encode()).hexdigest()])
        key = ("AWS4" + self.secret).encode()
        for part in scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={self.access}/{scope}, SignedHeaders={names}, "
                                    f"Signature={signature}")
        return headers

    def ask(self, method, path, query="", body=b""):
        """(code, body)"""
        path = urllib.parse.quote(path)
        connection = http.client.HTTPConnection(self.host, self.port, timeout=40)
        try:
            connection.request(method, path + ("?" + query if query else ""), body or None,
                               self.sign(method, path, query, body))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def check_alive(self):
        """One that has ended will never answer: what it said is more than a test that waits for it can say."""
        for process in self.processes:
            if process.poll() is not None:
                with open(self.folder + "/log", encoding="utf-8", errors="replace") as log:
                    raise AssertionError(f"{process.args} has ended with {process.returncode}:\n{log.read()[-2000:]}")

    def make_bucket(self, bucket):
        """Whether it is there: a server that is coming up refuses at first."""
        self.check_alive()
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ask("PUT", "/" + bucket)[0] in (200, 409)
        return False

    def keys(self, bucket):
        code, text = self.ask("GET", "/" + bucket, "list-type=2")
        assert code == 200, text
        return sorted(re.findall(r"<Key>([^<]*)</Key>", text.decode()))

    def flip(self, bucket, key, at):
        """One bit of an object, as a disk would: its name and length stay."""
        _, content = self.ask("GET", f"/{bucket}/{key}")
        damaged = bytearray(content)
        damaged[at] ^= 0x10
        code, text = self.ask("PUT", f"/{bucket}/{key}", body=bytes(damaged))
        assert code == 200, text


def main():
    folder, what = sys.argv[1:3]
    if what == "prepare":
        prepare_swift(folder, sys.argv[3], int(sys.argv[4]))
        return 0
    return run_swift(folder, what)


if __name__ == "__main__":
    sys.exit(main())
