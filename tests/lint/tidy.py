#!/usr/bin/env python3
"""Runs clang-tidy over every C file that the build compiles: tidy.py ROOT BUILD [JOBS]

The build is gcc's; clang reads the same commands. A file compiled several times (once for each
level of vector instructions) is read once. Compiler warnings are left to the compiler: here only
checks of .clang-tidy count, and code that clang cannot read at all.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = "clang-tidy-14"
# Commands of a gcc build name warnings that clang treats otherwise; -w keeps only real errors.
PLACE = re.compile(r"(?:\S+:\d+:\d+: )?(note|warning|error): ")
OPTIONS = ["--quiet", "--extra-arg=-w", "--extra-arg=-Wno-error"]


def own_commands(root, build):
    """One compile command for each C file inside the tree, build folders left out."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as commands:
        chosen = {}
        for command in json.load(commands):
            path = os.path.relpath(os.path.join(command["directory"], command["file"]), root)
            if path.endswith(".c") and not path.startswith(("..", "build" + os.sep)):
                chosen.setdefault(path, command)
    return chosen


def without_notes(output):
    """The findings themselves; the analyzer's way to one may be a hundred lines long."""
    kept, keeping = [], True
    for line in output.splitlines(keepends=True):
        place = PLACE.match(line)
        if place:
            keeping = place.group(1) != "note"
        if keeping:
            kept.append(line)
    return "".join(kept)


def check(root, folder, path):
    """What clang-tidy says about one file; empty when it is content."""
    result = subprocess.run([PROGRAM, "-p", folder, *OPTIONS, path], cwd=root, text=True,
                            capture_output=True, check=False)
    if result.returncode == 0:
        return ""
    return without_notes(result.stdout) or result.stderr


def main(arguments):
    root, build = (os.path.abspath(argument) for argument in arguments[1:3])
    jobs = int(arguments[3]) if len(arguments) > 3 else os.cpu_count()
    commands = own_commands(root, build)
    if not commands:
        sys.exit(f"tidy: {build} compiles no C file of {root}")
    failures = 0
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as chosen:
            json.dump(list(commands.values()), chosen)
        # The longest first, so that no processor is left with one at the end.
        paths = sorted(commands, key=lambda path: -os.path.getsize(os.path.join(root, path)))
        for output in pool.map(lambda path: check(root, folder, path), paths):
            if output:
                failures += 1
                print(output.replace(root + os.sep, ""), flush=True)
    if failures:
        sys.exit(f"tidy: {failures} of {len(commands)} files have findings; "
                 f"{PROGRAM} -p BUILD FILE tells the analyzer's way to one")


if __name__ == "__main__":
    main(sys.argv)
