#!/usr/bin/env python3
"""The rules of the tree that no compiler knows: rules.py [ROOT]

Each rule is a generator over one file that yields (line number, what is wrong). A tree is every
text file under ROOT except build folders and hidden ones, so a file is held to the rules before
it is added to git. Exit status 1 when anything was found.
"""
import functools
import os
import re
import subprocess
import sys

FORMATTER = "clang-format-14"
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 800
STRUCT_MEMBERS_MAX = 24

# Structs that are not split by concern yet, with the members that each may have at most. None joins them.
MAY_HAVE_MEMBERS = {
    ("kernels/kernel.h", "kernel"): 59,  # a table of functions, one for each operation
    ("daemon/config/config.h", "config"): 33,
    ("tests/sim/sim.h", "sim"): 36,
    ("tests/sim/check/sim_check.h", "sim_check"): 36,
    ("tests/sim/worker/sim_worker.h", "sim_worker"): 61,
}

# A room may include itself, the rooms named before it in its folder, and the folders below; the
# files beside the rooms may include them all. MAY_INCLUDE names folders, or a room where the rest of its
# folder stays hidden. Tests may include anything, and nobody includes tests.
ROOMS = {
    "model": ("net", "data"),
    "comm": ("lanes", "mesh", "carrier", "reduce"),
    "checkpoint": ("io", "format", "remote", "read", "write", "replicate", "object"),
    "membership": ("transport", "kv", "etcd"),
    "elastic": ("job", "step", "plan", "planner", "copies", "messages", "recovery", "leader", "agent"),
    "worker": ("trace", "device", "state", "cache", "step", "metrics", "checkpoint", "session"),
    "daemon": ("config", "core", "node", "jobs", "checkpoint", "leader", "http"),
    "ctl": ("command", "view", "cluster", "local", "report", "checkpoint", "job"),
}
MAY_INCLUDE = {
    "base": (),
    "kernels": ("base",),
    "model": ("kernels", "base"),
    "comm": ("base",),
    "checkpoint": ("base",),
    "membership": ("base",),
    "elastic": ("base",),
    "protocol": ("comm/lanes", "elastic", "base"),
    "worker": ("protocol", "model", "kernels", "comm", "checkpoint", "elastic", "base"),
    "daemon": ("membership", "checkpoint", "elastic", "base"),
    "ctl": ("membership", "elastic", "checkpoint", "base"),
    "bench": ("base", "kernels", "model", "comm", "checkpoint", "membership", "elastic", "protocol",
              "worker", "daemon", "ctl"),
}
ROOM_CONCEPTS_MAX = 25

# Where time may pass without a condition, and why. Everything else waits for what it needs.
MAY_SLEEP = {
    "model/data/data_digests.c": "waits until the last change of a file is old enough to be trusted",
    "daemon/http/http_server.c": "a pause between two attempts to listen where another process has the port",
    "checkpoint/replicate/receive.c": "paces a copy: rests for as long as a chunk took",
    "checkpoint/read/scrub.c": "paces reading back: spreads it over its time",
    "checkpoint/remote/remote.c": "a pause between two requests to a firnd that has not heard of a plan yet",
    "worker/checkpoint/replication.c": "a pause between two looks at files of other nodes",
    "tests/integration/lib/cluster.py": "a pause between two looks at a condition",
    "tests/lint/test_rules.py": "plants sleeping files",
    "tests/unit/checkpoint/write/test_writer.c": "a pause between two polls of the condition",
    "tests/unit/comm/mesh/test_mesh_fault.c": "a peer that sends heartbeats at their pace",
    "tests/unit/kernels/test_team.c": "lets the members fall asleep, to see them woken",
}

# What computes numbers that must be the same on every machine, and what there may ask libm anyway.
EXACT_FOLDERS = ("base", "kernels/cpu", "model", "elastic", "protocol", "worker", "comm")
MAY_ASK_LIBM = {
    "model/net/generate.c": "draws what is sampled: no part of a run",
}

C_FILES = (".c", ".h", ".cu", ".cuh")
FORMATTED_FILES = (".c", ".h")
COUNTED_FILES = C_FILES + (".py", ".sh", ".cmake")
TIMEOUT_TABLE = "base/timeouts.h"
SKIPPED_FOLDERS = {"build", "__pycache__"}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
# Written in two halves, so that this file does not find itself.
MARKS = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|farm|root)/")
SLEEP_IN_CODE = re.compile(r"\b(?:sleep|usleep|nanosleep|clock_nanosleep|thrd_sleep)\s*\(")
SLEEP_IN_SHELL = re.compile(r"(?:^|[;&|]|\b(?:do|then|else)\b)\s*sleep\s")
STRUCT = re.compile(r"\bstruct\s+(\w+)\s*\{")
INNER_HEAD = re.compile(r"\b(?:struct|union)\s*(?:\w+\s*)?\{")
INNER_END = re.compile(r"\}\s*\w*\s*(?:\[[^\]]*\])?\s*;")
NO_HEAD = re.compile(r"$|.*;$|[#/}]| \*")  # a line that no function's head goes across
# Square roots and roundings are exact; the last place of these belongs to the library.
NAMED_FILE = re.compile(r"(?<![\w./-])((?:base|kernels|model|comm|checkpoint|membership|elastic|protocol|worker|daemon|ctl)"
                        r"/[\w/]+\.(?:cuh|cu|c|h))\b")
NAMED_TEST = re.compile(r"(?<![\w./-])(?:tests/[\w/]+/)?(test_\w+\.(?:c|py))\b")
LIBM = re.compile(r"\b((?:exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|sincos|tan|asin|acos|atan|atan2"
                  r"|sinh|cosh|tanh|erf|erfc|cbrt|hypot|tgamma|lgamma)[fl]?)\s*\(")
# A timeout beside a number, or the failure timeout beside a constant that is not of the one table.
CMOCKA_TEST = re.compile(r"static void (\w+)\(void \*\*\w*\)$")
OWN_TIMEOUT = re.compile(r"\b(?:failure_)?timeout_ns\s*(?:[*/]|<<|>>)\s*\(?[\d.]"
                         r"|(?<!\w)[\d.]+[uUlLfF]*\s*[*/]\s*\(?(?:\w+(?:->|\.))*(?:failure_)?timeout_ns\b"
                         r"|\bfailure_timeout_ns\s*[*/]\s*\(?(?!TIMEOUT|NS_PER_)[A-Z]\w+"
                         r"|\b(?!TIMEOUT|NS_PER_)[A-Z]\w+\s*[*/]\s*\(?(?:\w+(?:->|\.))*failure_timeout_ns\b")
ENDS_PROCESS = re.compile(r"\b(?:exit|abort|quick_exit)\s*\(")


class File:
    """One text file: its path from the root, its lines, and for C its code without comments."""

    def __init__(self, root, path):
        self.root, self.path = root, path
        with open(os.path.join(root, path), "rb") as content:
            self.text = content.read().decode("utf-8", "replace")
        self.lines = self.text.splitlines()
        self.folder = path.split("/")[0]
        self.extension = os.path.splitext(path)[1]

    def is_c(self):
        return self.extension in C_FILES

    def code_lines(self):
        """The lines with comments and texts blanked; numbers stay what they are."""
        blank = re.sub(COMMENT_OR_TEXT, lambda hit: re.sub(r"[^\n]", " ", hit.group()), self.text)
        return blank.splitlines()

    def includes(self):
        for number, line in enumerate(self.lines, 1):
            hit = INCLUDE.match(line)
            if hit:
                yield number, hit.group(1)


def dependency(file):
    """The arrows of the folders go one way."""
    if not file.is_c() or file.folder == "tests":
        return
    for number, included in file.includes():
        target = included.split("/")[0]
        if "/" not in included or not os.path.exists(os.path.join(file.root, included)):
            yield number, f'"{included}" is not a path from the root of the tree'
        elif target == "tests":
            yield number, "nothing outside tests/ includes tests/"
        elif target != file.folder and not {target, os.path.dirname(included)} & set(MAY_INCLUDE.get(file.folder, ())):
            yield number, f"{file.folder}/ does not include {os.path.dirname(included)}/"
        elif target == file.folder and not may_see_room(file.path, included):
            yield number, f"{os.path.dirname(file.path)}/ does not include {os.path.dirname(included)}/"


def named_file(file):
    """A file that a comment or a document names exists: readers follow these paths."""
    if not (file.is_c() or file.extension == ".md"):
        return
    for number, line in enumerate(file.lines, 1):
        for name in NAMED_FILE.findall(line) if not INCLUDE.match(line) else ():
            if not os.path.exists(os.path.join(file.root, name)):
                yield number, f"{name} does not exist"


@functools.cache
def names_of_tests(root):
    """The names of all files below tests/."""
    return {name for _, _, names in os.walk(os.path.join(root, "tests")) for name in names}


def named_test(file):
    """A test that a document names exists."""
    if file.extension != ".md":
        return
    for number, line in enumerate(file.lines, 1):
        for name in NAMED_TEST.findall(line):
            if name not in names_of_tests(file.root):
                yield number, f"{name} is no test"


VERSIONS = (("comm/mesh/frame.h", "FRAME_VERSION", "link protocol"),
            ("elastic/plan/versions.h", "VERSIONS_CONTROL", "control protocol"))


def changes(file):
    """The newest section of the changes has the numbers of the protocols that the programs speak."""
    if file.path != "CHANGELOG.md":
        return
    newest = re.split(r"^## ", file.text, flags=re.M)[1]
    for path, name, words in VERSIONS:
        with open(os.path.join(file.root, path), encoding="utf-8") as header:
            version = re.search(rf"#define {name}\s+(\d+)", header.read()).group(1)
        if f"| {words} | {version} |" not in newest:
            yield 1, f"the newest version has no line '| {words} | {version} |', as {path} has it"


def may_see_room(path, included):
    """Rooms of one folder see those before them in ROOMS; files beside the rooms see all."""
    rooms = ROOMS.get(path.split("/", maxsplit=1)[0], ())
    room, other = path.split("/")[1], included.split("/")[1]
    if room == other or room not in rooms:
        return True
    return other in rooms and rooms.index(other) < rooms.index(room)


def crowded_room(file):
    """A room shows its design while a reader can keep its concepts in mind."""
    folder = os.path.dirname(file.path)
    names = os.listdir(os.path.join(file.root, folder))
    stems = sorted({os.path.splitext(name)[0] for name in names if name.endswith(C_FILES)})
    if not file.is_c() or file.folder not in ROOMS or stems[0] != os.path.splitext(os.path.basename(file.path))[0]:
        return
    if len(stems) > ROOM_CONCEPTS_MAX:
        yield 1, f"{folder}/ has {len(stems)} concepts; {ROOM_CONCEPTS_MAX} are the most"


def own_header_first(file):
    """A header that its own file includes first can stand alone."""
    header = os.path.splitext(file.path)[0] + ".h"
    if file.extension != ".c" or not os.path.exists(os.path.join(file.root, header)):
        return
    first = next((included for _, included in file.includes()), "")
    systems = [number for number, line in enumerate(file.lines, 1)
               if re.match(r"\s*#\s*include\s+<", line)]
    number = next((number for number, _ in file.includes()), 1)
    # Tests are also found from tests/, so a tail of the path is its name too.
    if not header.endswith(first) or first == "" or (systems and systems[0] < number):
        yield number, f'"{header}" must be the first include'


def pragma_once(file):
    """Headers guard themselves; only comments stand before the guard."""
    if file.extension not in (".h", ".cuh"):
        return
    code = [line.strip() for line in file.code_lines() if line.strip()]
    if not code or code[0] != "#pragma once":
        yield 1, "a header begins with #pragma once, after its comment"


def file_length(file):
    if file.extension in COUNTED_FILES and len(file.lines) > FILE_LINES_MAX:
        yield FILE_LINES_MAX + 1, f"{len(file.lines)} lines; {FILE_LINES_MAX} are the most"


def function_length(file):
    """From the first line of the head to the closing brace, both in column 0 as formatted."""
    if not file.is_c():
        return
    head, opened = None, False
    for number, line in enumerate(file.lines, 1):
        if opened and line.startswith("}"):
            if number - head + 1 > FUNCTION_LINES_MAX:
                yield head, (f"a function of {number - head + 1} lines; "
                             f"{FUNCTION_LINES_MAX} are the most")
            head, opened = None, False
        elif opened:
            continue
        elif line.startswith("{"):
            head, opened = head or number, True
        elif re.match(r"[A-Za-z_]", line):
            head = head or number
        if not opened and NO_HEAD.match(line):
            head = None


def struct_body(text, start):
    """The text from @start, behind an opening brace, to the brace that closes it."""
    depth = 1
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[start:end]
    return text[start:]


def member_count(body):
    """The members of a struct with this body; those of structs inside it count, too."""
    body = INNER_END.sub(" ", INNER_HEAD.sub("", body))
    count, depth = 0, 0
    for character in body:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(character, 0)
        count += depth == 0 and character in ";,"
    return count


def crowded_struct(file):
    """A struct holds one concern; many members are several concerns."""
    if not file.is_c():
        return
    code = "\n".join(file.code_lines())
    for hit in STRUCT.finditer(code):
        count = member_count(struct_body(code, hit.end()))
        most = MAY_HAVE_MEMBERS.get((file.path, hit.group(1)), STRUCT_MEMBERS_MAX)
        if count > most:
            yield (code.count("\n", 0, hit.start()) + 1,
                   f"struct {hit.group(1)} has {count} members; {most} are the most")


def marks(file):
    for number, line in enumerate(file.lines, 1):
        hit = MARKS.search(line)
        if hit:
            yield number, f"{hit.group()}: finish it, or say it in the documentation"


def machine_path(file):
    for number, line in enumerate(file.lines, 1):
        hit = MACHINE_PATH.search(line)
        if hit:
            yield number, f"{hit.group()} is a path of one machine"


def sleeping(file):
    """Tests and programs wait for conditions; time that merely passes hides a race."""
    if file.path in MAY_SLEEP:
        return
    if file.is_c():
        lines, pattern = file.code_lines(), SLEEP_IN_CODE
    elif file.folder == "tests" and file.extension == ".py":
        lines, pattern = file.lines, SLEEP_IN_CODE
    elif file.folder == "tests" and file.extension == ".sh":
        lines, pattern = file.lines, SLEEP_IN_SHELL
    else:
        return
    for number, line in enumerate(lines, 1):
        if pattern.search(line):
            yield number, "sleeps; wait for the condition instead"


def ending(file):
    """Below main a failure is a return code."""
    if file.extension != ".c" or file.folder in ("tests", "bench") or file.path.endswith("/main.c"):
        return
    for number, line in enumerate(file.code_lines(), 1):
        if ENDS_PROCESS.search(line):
            yield number, "ends the process; return an error to main instead"


def dialect(file):
    """One spelling each: `!p` for a pointer that is not set, `status` for what a call returned."""
    if not file.is_c() or file.extension not in FORMATTED_FILES:
        return
    for number, line in enumerate(file.code_lines(), 1):
        if "== NULL" in line:
            yield number, "!p, not p == NULL"
        if re.search(r"\bint r\b", line):
            yield number, "int status, not int r"


def libm(file):
    """A number of the contract has the same bits whatever the C library and the processor."""
    if not file.is_c() or file.path in MAY_ASK_LIBM or not file.path.startswith(
            tuple(folder + "/" for folder in EXACT_FOLDERS)):
        return
    for number, line in enumerate(file.code_lines(), 1):
        hit = LIBM.search(line)
        if hit:
            yield number, (f"{hit.group(1)}() rounds as the C library does; numbers here must have the "
                           "same bits everywhere (base/logarithm.h)")


def own_timeout(file):
    """What is a multiple or a part of failure_timeout stands in one table, where limits are compared."""
    if not file.is_c() or file.folder in ("tests", "bench") or file.path == TIMEOUT_TABLE:
        return
    for number, line in enumerate(file.code_lines(), 1):
        if OWN_TIMEOUT.search(line):
            yield number, f"a timeout times or by a number of its own; name it in {TIMEOUT_TABLE}"


def test_name(file):
    """What cmocka runs is found by its name."""
    if file.folder != "tests" or file.extension != ".c":
        return
    for number, line in enumerate(file.code_lines(), 1):
        hit = CMOCKA_TEST.match(line)
        if hit and not hit.group(1).startswith("test_"):
            yield number, f"{hit.group(1)}() is a test; its name begins with test_"


RULES = (dependency, crowded_room, own_header_first, pragma_once, file_length, function_length,
         crowded_struct, marks, machine_path, sleeping, ending, dialect, libm, own_timeout,
         named_file, named_test, changes, test_name)


def tree(root):
    """Paths of the text files under @root, sorted."""
    paths = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders
                      if name not in SKIPPED_FOLDERS and (name == ".ci" or name[0] != ".")]
        for name in names:
            path = os.path.join(folder, name)
            if name == ".git" or not os.path.isfile(path) or os.path.islink(path):
                continue  # a linked work tree has a file where others have a folder
            with open(path, "rb") as content:
                if b"\0" not in content.read(8192):
                    paths.append(os.path.relpath(path, root))
    return sorted(paths)


def unformatted(root, paths):
    """(path, line, what) of every C file that the formatter would change."""
    paths = [path for path in paths if path.endswith(FORMATTED_FILES)]
    if not paths:
        return
    result = subprocess.run([FORMATTER, "--style=file", "--dry-run", "-Werror", *paths], cwd=root,
                            text=True, capture_output=True, check=False)
    seen = set()
    for path, line in re.findall(r"^(.+?):(\d+):\d+: error:", result.stderr, re.M):
        if path not in seen:  # one line a file is enough: `make format` mends the rest
            seen.add(path)
            yield path, int(line), "not as clang-format writes it (make format)"
    if result.returncode != 0 and not seen:
        yield FORMATTER, 0, result.stderr.strip()


# Rooms in which files still call each other in a circle. None joins them.
MAY_CIRCLE = ("checkpoint/read", "elastic/planner", "membership/etcd")
DEFINITION = re.compile(r"^(?!static|typedef|#)[a-z][\w \*]*?\b(\w+)\([^;{]*\)\s*\n\{", re.M)


def calls_of_room(folder, names):
    """{file: files of the room whose functions it names}"""
    texts = {}
    for name in names:
        with open(os.path.join(folder, name), encoding="utf-8") as content:
            texts[name] = re.sub(COMMENT_OR_TEXT, "", content.read())
    home = {function: name for name, text in texts.items() for function in DEFINITION.findall(text)}
    return {name: {home[word] for word in set(re.findall(r"\w+", text)) if home.get(word, name) != name}
            for name, text in texts.items()}


def circles(root, paths):
    """(path, line, what) of every room whose files call each other in a circle: the file that orchestrates
    calls, the others are called."""
    rooms = {}
    for path in paths:
        if path.endswith(".c") and path.split("/")[0] in MAY_INCLUDE and os.path.dirname(path) not in MAY_CIRCLE:
            rooms.setdefault(os.path.dirname(path), []).append(os.path.basename(path))
    for room, names in sorted(rooms.items()):
        calls = calls_of_room(os.path.join(root, room), names)
        free = True
        while free:  # without the files that call no other, or that no other calls, circles are left
            used = set().union(*calls.values())
            free = [name for name, called in calls.items() if not called & set(calls) or name not in used]
            for name in free:
                del calls[name]
        if calls:
            first = sorted(calls)[0]
            yield f"{room}/{first}", 1, f"files of {room}/ call each other in a circle: {' '.join(sorted(calls))}"


# Clauses that open with these leave the subject of a sentence without a name.
NAMELESS = re.compile(r"\b(?:what|who|whom|whoever|whatever|whichever)\b", re.I)
NAMELESS_MAX = 2  # in a thousand words of the comments of one folder
C_COMMENT = re.compile(r'(/\*.*?\*/|//[^\n]*)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def nameless(root, paths):
    """(path, line, what) of every folder whose comments have too many sentences without a named subject."""
    words, found, worst = {}, {}, {}
    for path in paths:
        file = File(root, path)
        if not file.is_c():
            continue
        text = " ".join(hit.group(1) for hit in C_COMMENT.finditer(file.text) if hit.group(1))
        count = len(NAMELESS.findall(text))
        words[file.folder] = words.get(file.folder, 0) + len(re.findall(r"[A-Za-z']+", text))
        found[file.folder] = found.get(file.folder, 0) + count
        worst[file.folder] = max(worst.get(file.folder, (0, "")), (count, path))
    for folder, count in sorted(found.items()):
        if count > NAMELESS_MAX and 1000 * count > NAMELESS_MAX * words[folder]:
            yield (worst[folder][1], 1, f"{count} clauses of comments in {folder}/ open with what or who, in "
                   f"{words[folder]} words; name the subject")


def findings(root):
    paths = tree(root)
    for path in paths:
        file = File(root, path)
        for rule in RULES:
            for number, what in rule(file):
                yield path, number, what
    yield from nameless(root, paths)
    yield from circles(root, paths)
    yield from unformatted(root, paths)


def main(arguments):
    root = arguments[1] if len(arguments) > 1 else "."
    count = 0
    for path, number, what in findings(root):
        print(f"{path}:{number}: {what}")
        count += 1
    if count:
        sys.exit(f"rules: {count} findings")


if __name__ == "__main__":
    main(sys.argv)
