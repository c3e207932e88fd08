#!/usr/bin/env python3
"""bench-control-plane while its etcd gets a share of one processor only: what a cluster does that etcd is too slow for.

    bench/slow_etcd.py BENCH-CONTROL-PLANE SHARE [its options]      bench/slow_etcd.py build/bin/bench-control-plane 0.06 --nodes 300
"""
import subprocess
import sys
import time

from cgroup import Share


def etcd_of(bench):
    """Its child, as soon as that has become etcd."""
    while bench.poll() is None:
        with open(f"/proc/{bench.pid}/task/{bench.pid}/children", encoding="ascii") as children:
            for pid in children.read().split():
                with open(f"/proc/{pid}/comm", encoding="ascii") as name:
                    if name.read() == "etcd\n":
                        return int(pid)
        time.sleep(0.002)
    sys.exit("bench-control-plane ended before its etcd began")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    with Share("slow-etcd", float(sys.argv[2])) as share:
        bench = subprocess.Popen([sys.argv[1], *sys.argv[3:]])
        share.add(etcd_of(bench))
        sys.exit(bench.wait())


if __name__ == "__main__":
    main()
