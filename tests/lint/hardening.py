#!/usr/bin/env python3
"""What an attacker who finds a mistake would miss: hardening.py BUILD looks for it in the programs by readelf."""
import os
import re
import subprocess
import sys

PROGRAMS = ("firnd", "firn-worker", "firnctl")


def readelf(flag, path):
    return subprocess.run(["readelf", "-W", flag, path], check=True, capture_output=True, text=True).stdout


def findings(path):
    dynamic, segments, symbols = readelf("-d", path), readelf("-l", path), readelf("-s", path)
    if "Type:                              DYN" not in readelf("-h", path):
        yield "is not position independent (-pie)"
    if "BIND_NOW" not in dynamic and not re.search(r"FLAGS_1.*\bNOW\b", dynamic):
        yield "binds its symbols late (-z now)"
    if "GNU_RELRO" not in segments:
        yield "keeps relocations writable (-z relro)"
    if re.search(r"GNU_STACK.*RWE", segments):
        yield "has a stack that can be executed (-z noexecstack)"
    if "__stack_chk_fail" not in symbols:
        yield "has no stack protector (-fstack-protector-strong)"
    if not re.search(r"__\w+_chk\b(?<!stack_chk)", symbols.replace("__stack_chk_fail", "")):
        yield "calls no checked function of the C library (-D_FORTIFY_SOURCE=2)"
    for paths in re.findall(r"(?:RUNPATH|RPATH).*\[(.*)\]", dynamic):
        if any(not entry.startswith(("/", "$ORIGIN")) for entry in paths.split(":")):
            yield f"looks for libraries where it is started (RUNPATH {paths})"


def main():
    build = sys.argv[1]
    if "FIRN_SANITIZE:STRING=\n" not in open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8").read():
        return 0
    found = [f"{name} {what}" for name in PROGRAMS for what in findings(os.path.join(build, "bin", name))]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
