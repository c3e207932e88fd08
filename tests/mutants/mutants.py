#!/usr/bin/env python3
"""Says which places of the code could be wrong without a unit test noticing.

    tests/mutants/mutants.py FILE.c... [--also FOLDER] [--seconds N] [--longest N] [--jobs N]

In a copy of the tree each of the files is instrumented: at every place that is easily wrong (PLACES) stands a question, "is
it this one?", so one build in build/mutants holds all mutants, and an environment variable chooses one (mutant.h). The unit
tests of the files' folders (for elastic/ the scenes of tests/sim/scene as well) run once as they are, which shows who reaches which place; then each mutant is given to the tests
that reach it, the quickest first, until one fails, hangs, leaks or is stopped by a sanitizer. What none notices is printed
with its line: a test that is missing, code that is not needed, or a change that makes no difference. What does not compile
is no mutant.

Exit code: 0 (all were tried, whatever came out), 1 (it does not build, or a test fails without a mutant), 2 (called wrongly).
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, "build", "mutants")
TREE = os.path.join(BUILD, "tree")

PLACES = """
an operand of && or ||                left out
the condition of an if, while or for  always true (if), always false
< <= > >=                             the same with or without equality
== !=                                 the other one
+ -                                   the other one
MIN MAX                               the other one
a number, true, false                 one more, the other one
a call, an assignment, a jump         left out
"""

TOKEN = re.compile(r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
  | (?P<name>[A-Za-z_]\w*)
  | (?P<number>\d[\w.]*(?:(?<=[eEpP])[+-]\d+)?)
  | (?P<sign>->|\+\+|--|<<=|>>=|\.\.\.|[-+*/%&|^=!<>]=|&&|\|\||<<|>>|.)
""", re.VERBOSE | re.DOTALL | re.MULTILINE)

Token = collections.namedtuple("Token", "kind text begin end")
Mutant = collections.namedtuple("Mutant", "number file line text change")

RELATED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
# Where an operand ends, by what it is an operand of.
ENDS_LOGIC = {"&&", "||", "?", ":", ",", ";", "{", "}", "return"} | ASSIGNMENTS
ENDS_RELATION = ENDS_LOGIC | set(RELATED) | {"&", "|", "^"}
HEADERS = {"if", "while", "for", "switch"}
NO_STATEMENTS = HEADERS | {"return", "case", "default", "else", "do", "goto", "assert", "va_start", "va_end"}
DECLARES = re.compile(r"(const |static |struct |enum |union |unsigned |static_assert |_Static_assert |"
                      r"CLEANUP |[A-Z_]*AUTO_|__attribute__ |"
                      r"(char|int|long|bool|void|float|double|\w+_t) [(*\w]|"
                      r"(?!return |goto |case |else |do )[A-Za-z_]\w* (\* )*(const )?[A-Za-z_])")
JUMPS = {"break", "continue"}


def tokens_of(source):
    for match in TOKEN.finditer(source):
        if match.lastgroup != "skip":
            yield Token(match.lastgroup, match.group(), match.start(), match.end())


def function_bodies(tokens, source):
    """The tokens between the braces of each function: these stand alone at the beginning of a line."""
    body = None
    for index, token in enumerate(tokens):
        at_margin = token.begin == 0 or source[token.begin - 1] == "\n"
        if token.text == "{" and at_margin and tokens[index - 1].text == ")":
            body = []
        elif token.text == "}" and at_margin and body is not None:
            yield body
            body = None
        elif body is not None:
            body.append(token)


def partners(tokens):
    """The index of the bracket that belongs to each one."""
    found, stack = {}, []
    for index, token in enumerate(tokens):
        if token.text in ("(", "[", "{"):
            stack.append(index)
        elif token.text in (")", "]", "}") and stack:
            found[index] = stack.pop()
            found[found[index]] = index
    return found


class Instrumented:
    """One file with all its questions."""

    def __init__(self, path, source, first_number, left_out=()):
        """@left_out: pairs of a line and a change (None: every change) that are not made."""
        self.path, self.source, self.left_out = path, source, left_out
        self.mutants, self.number = [], first_number
        self.questions = []  # (begin, end, text before, text behind), in the order of their numbers
        for body in function_bodies(list(tokens_of(source)), source):
            self.body, self.partner = body, partners(body)
            self.expressions = self.find_expressions()
            self.declarations, self.constants = self.find_declarations()
            for index in range(len(body)):
                if index not in self.constants:
                    self.look_at(index)

    def find_expressions(self):
        """Indices of tokens in parentheses and initializers, where no statements stand."""
        inside, open_now = set(), []
        for index, token in enumerate(self.body):
            if token.text in (")", "}"):
                open_now.pop()
            if any(open_now):
                inside.add(index)
            if token.text == "(":
                open_now.append(True)
            elif token.text == "{":
                open_now.append(any(open_now) or not self.opens_block(index))
        return inside

    def opens_block(self, index):
        before = self.body[index - 1].text if index > 0 else ";"
        if before == ")":
            return self.body[self.partner[index - 1] - 1].text in HEADERS
        return before in (";", "{", "}", "else", "do", ":")

    def find_declarations(self):
        """Indices of tokens in declarations, and of those in them which take constants alone."""
        inside, constant, begin = set(), set(), 0
        for index, token in enumerate(self.body):
            block_ends = token.text == "}" and self.opens_block(self.partner[index])
            block_begins = token.text == "{" and self.opens_block(index)
            if token.text != ";" and not block_ends and not block_begins:
                continue
            words = [t.text for t in self.body[begin:index]]
            if words and DECLARES.match(" ".join(words)):
                inside.update(range(begin, index))
            if words and words[0] in ("static", "enum", "static_assert", "_Static_assert"):
                constant.update(range(begin, index))
            elif begin in inside:
                for first in (i for i in range(begin, index) if self.body[i].text == "[" and "=" not in words[:i - begin]):
                    constant.update(range(first, self.partner[first]))
            begin = index + 1
        return inside, constant

    def add(self, begin, end, before, behind, change):
        """A question around source[begin:end]; {} stands for its number."""
        line = self.source.count("\n", 0, begin) + 1
        if (line, change) in self.left_out or (line, None) in self.left_out:
            return
        self.questions.append((begin, end, before.format(self.number), behind.format(self.number)))
        text = " ".join(self.source[begin:end].split())
        self.mutants.append(Mutant(self.number, self.path, line, text, change))
        self.number += 1

    def operand(self, index, step, ends):
        """From the operator at @index to the end of its operand, by tokens: the index of the last one."""
        last, at = index, index + step
        opens, closes = ("(", "[", "{"), (")", "]", "}")
        while 0 <= at < len(self.body):
            text = self.body[at].text
            if text in (closes if step < 0 else opens):
                at = self.partner[at]
            elif text in (opens if step < 0 else closes) or (text in ends and not self.takes_address(at)):
                break
            last, at = at, at + step
        return last

    def takes_address(self, index):
        before = self.body[index - 1]
        stands_alone = before.kind in ("name", "number", "text") or before.text in (")", "]")
        return self.body[index].text == "&" and (not stands_alone or before.text == "return")

    def look_at(self, index):
        token = self.body[index]
        if token.text in ("&&", "||"):
            self.logic(index)
        elif token.text in RELATED:
            self.relation(index)
        elif token.text in ("+", "-"):
            self.sum(index)
        elif token.text in ("MIN", "MAX"):
            self.extreme(index)
        elif token.kind == "number" or token.text in ("true", "false"):
            self.constant(index)
        if token.text in ("if", "while", "for"):
            self.condition(index)
        if index not in self.expressions and self.begins_statement(index):
            self.statement(index)

    def logic(self, index):
        neutral = ("({{}} || (", "))") if self.body[index].text == "&&" else ("(!{{}} && (", "))")
        sides = [(self.operand(index, -1, ENDS_LOGIC), index - 1), (index + 1, self.operand(index, 1, ENDS_LOGIC))]
        for side, (first, last) in enumerate(sides):
            if side == 0 and first > 0 and self.body[first - 1].text == self.body[index].text:
                continue  # it is the right side of the operator before
            before = neutral[0].replace("{{}}", "mutant({})")
            self.add(self.body[first].begin, self.body[last].end, before, neutral[1], "left out")

    def relation(self, index):
        first, last = self.operand(index, -1, ENDS_RELATION), self.operand(index, 1, ENDS_RELATION)
        begin, end = self.body[first].begin, self.body[last].end
        left, right = self.source[begin:self.body[index - 1].end], self.source[self.body[index + 1].begin:end]
        other = f"{left} {RELATED[self.body[index].text]} {right}"
        other = " ".join(other.replace("{", "{{").replace("}", "}}").split())
        self.add(begin, end, "(mutant({}) ? (" + other + ") : (", "))", RELATED[self.body[index].text])

    def sum(self, index):
        before = self.body[index - 1]
        if before.kind in ("name", "number") or before.text in (")", "]"):
            if before.text not in ("return", "case"):
                sign = self.body[index]
                self.add(sign.begin, sign.end, "", " mutant_sign({}) *", "-" if sign.text == "+" else "+")

    def extreme(self, index):
        token, last = self.body[index], self.partner.get(index + 1)
        if last is not None:
            other = "MAX" if token.text == "MIN" else "MIN"
            rest = self.source[token.end:self.body[last].end].replace("{", "{{").replace("}", "}}")
            rest = " ".join(rest.split())
            self.add(token.begin, self.body[last].end, "(mutant({}) ? " + other + rest + " : ", ")", other)

    def constant(self, index):
        token, before = self.body[index], self.body[index - 1] if index > 0 else None
        if index in self.declarations and (before.text in ("[", "{") or token.text == "0"):
            return
        if before is not None and before.text in ("case", "{"):
            return
        if token.kind == "number":
            if not re.match(r"\d+[eE]", token.text):  # one more than 1e9 is the same to everybody
                self.add(token.begin, token.end, "(", " + mutant({}))", "one more")
        else:
            self.add(token.begin, token.end, "(", " ^ mutant({}))", "the other one")

    def condition(self, index):
        begin, end = index + 1, self.partner.get(index + 1)
        if end is None:
            return
        first, last = begin + 1, end - 1
        if self.body[index].text == "for":
            stops = [i for i in range(begin, end) if self.body[i].text == ";"]
            first, last = stops[0] + 1, stops[1] - 1
        if first > last:
            return
        span = self.body[first].begin, self.body[last].end
        self.add(*span, "(!mutant({}) && (", "))", "false")
        if self.body[index].text == "if":
            self.add(*span, "(mutant({}) || (", "))", "true")

    def begins_statement(self, index):
        before = self.body[index - 1].text if index > 0 else ";"
        if before == "}":
            return self.opens_block(self.partner[index - 1])
        if before == ")":
            return self.body[self.partner[index - 1] - 1].text in HEADERS
        if before == ":":
            at = index - 1
            while at > 0 and self.body[at].text not in (";", "{", "}", "?", "case", "default"):
                at -= 1
            return self.body[at].text in ("case", "default")
        return before in (";", "{", "else")

    def statement(self, index):
        token = self.body[index]
        if index in self.declarations or token.text in NO_STATEMENTS:
            return
        if token.kind != "name" and token.text not in ("*", "++", "--"):
            return
        end = index
        while end < len(self.body) and self.body[end].text != ";":
            end = self.partner[end] if self.body[end].text in ("(", "[", "{") else end
            end += 1
        words = {t.text for t in self.body[index:end]}
        if end < len(self.body) and (token.text in JUMPS or "(" in words or words & (ASSIGNMENTS | {"++", "--"})):
            self.add(token.begin, self.body[end].end, "{{ if (!mutant({})) ", " }}", "left out")

    def text(self):
        """Where several begin or end at one place, the wider one is around the narrower, and the first around the next."""
        pieces = collections.defaultdict(list)
        for number, (begin, end, before, behind) in enumerate(self.questions):
            pieces[begin].append(((1, -end, number), before))
            pieces[end].append(((0, -begin, -number), behind))
        out, last = [], 0
        for at in sorted(pieces):
            out.append(self.source[last:at])
            out += [piece for _, piece in sorted(pieces[at])]
            last = at
        return "".join(out) + self.source[last:]


def write_if_changed(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with open(path, "rb") as file:
            if file.read() == text:
                return
    except FileNotFoundError:
        pass
    with open(path, "wb") as file:
        file.write(text)


def copy_tree():
    names = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, check=True, capture_output=True).stdout
    for name in filter(None, names.decode().split("\0")):
        source = os.path.join(TOP, name)
        if os.path.isfile(source):
            with open(source, "rb") as file:
                write_if_changed(os.path.join(TREE, name), file.read())
            os.chmod(os.path.join(TREE, name), os.stat(source).st_mode)


def compile_commands():
    with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as file:
        return {os.path.relpath(entry["file"], TREE): entry for entry in json.load(file)}


def refused_lines(entry):
    """Lines at which the compiler stops."""
    command = [word for word in shlex.split(entry["command"]) if word != "-c"] + ["-fsyntax-only"]
    result = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True, check=False)
    lines = {int(line) for path, line in re.findall(r"^(\S+?):(\d+):\d+: error:", result.stderr, re.M)
             if os.path.samefile(path, entry["file"])}
    if result.returncode != 0 and not lines:
        sys.exit(result.stderr)
    return lines


def instrument(files):
    """Writes every file into the tree with all of its mutants that compile; returns these."""
    commands, mutants = compile_commands(), []
    for name in files:
        if name not in commands:
            sys.exit(f"{name} is not compiled: name a C file as the build does, as in elastic/leader/leader.c")
        with open(os.path.join(TOP, name), encoding="utf-8") as file:
            source = file.read()
        left_out = set()
        while True:
            instrumented = Instrumented(name, source, len(mutants), left_out)
            write_if_changed(os.path.join(TREE, name), instrumented.text().encode())
            refused = refused_lines(commands[name])
            if not refused:
                break
            # Mostly it is a difference of pointers, which has no other sign.
            more = {(line, "+") for line in refused} - left_out or {(line, None) for line in refused} - left_out
            if not more:
                sys.exit(f"{name} does not compile when it is instrumented: lines {sorted(refused)}")
            left_out |= more
        lines = sorted(line for line, change in left_out if change is None)
        if lines:
            print(f"{name}: no mutants in lines {', '.join(map(str, lines))}, where one does not compile")
        mutants += instrumented.mutants
    return mutants


def end_group(leader):
    """A test and all that it has started."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_test(program, mutant=None, reached=None, seconds=120):
    """Returns whether it passed, and how much processor time it took: a busy machine does not change that."""
    environment = dict(os.environ)
    if mutant is not None:
        environment["FIRN_MUTANT"] = str(mutant)
    if reached is not None:
        environment["FIRN_MUTANTS_REACHED"] = reached
    with tempfile.TemporaryDirectory(prefix="firn-mutant-", ignore_cleanup_errors=True) as folder:
        environment["TMPDIR"] = folder
        process = subprocess.Popen([program], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        alarm = threading.Timer(seconds, end_group, [process.pid])
        alarm.start()
        _, status, usage = os.wait4(process.pid, 0)
        alarm.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)  # or subprocess would wait for it, too
        end_group(process.pid)
    return process.returncode == 0, usage.ru_utime + usage.ru_stime


def who_reaches(programs, count, jobs):
    """Which of @programs reach each mutant, and how much processor time each takes."""
    def look(program):
        with tempfile.NamedTemporaryFile(prefix="firn-mutants-") as file:
            file.truncate(max(count, 1))
            passed, seconds = run_test(program, reached=file.name)
            if not passed:
                sys.exit(f"{program} fails without any mutant")
            return program, file.read(), seconds
    reached, seconds = collections.defaultdict(list), {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for program, marks, took in pool.map(look, programs):
            seconds[program] = took
            for number in range(count):
                if marks[number]:
                    reached[number].append(program)
    return reached, seconds


def try_mutant(number, programs, seconds):
    """The test that notices it, or None. One that takes very much longer than without it hangs."""
    for program in sorted(programs, key=seconds.get):
        if not run_test(program, mutant=number, seconds=10 + 20 * seconds[program])[0]:
            return program
    return None


def run(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode != 0:
        sys.exit(result.stdout)


def configure():
    copy_tree()
    flags = f"-O1 -w -include {os.path.join(TREE, 'tests/mutants/mutant.h')}"
    run("cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja", "-DFIRN_CUDA=OFF", "-DFIRN_BENCH=OFF",
        "-DFIRN_SANITIZE=address,undefined", f"-DCMAKE_C_FLAGS={flags}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        "--log-level=WARNING")


def tests_under(folder):
    """The test programs' names, without what CMake puts before them."""
    names = sorted(name for _, _, files in os.walk(os.path.join(TOP, "tests", folder)) for name in files)
    return [name[:-2] for name in names if name.startswith("test_") and name.endswith(".c")]


def build_tests(folders, jobs):
    """The unit tests of @folders, as paths, and the scenes that play the leader and the agents."""
    targets = []
    for folder in sorted(folders):
        targets += [f"unit_{folder}_{name}" for name in tests_under(f"unit/{folder}")]
    if "elastic" in folders:
        targets += [f"scene_{name}" for name in tests_under("sim/scene")]
    run("cmake", "--build", BUILD, "--parallel", str(jobs), "--target", *targets)
    return [os.path.join(BUILD, "tests", target) for target in targets]


def try_all(mutants, programs, arguments):
    """Prints what nobody notices. Returns how many were tried, and how many noticed."""
    reached, seconds = who_reaches(programs, len(mutants), arguments.jobs)
    slow = {program for program in programs if seconds[program] > arguments.longest}
    if slow:
        print("left out, for they are slow:", *sorted(os.path.basename(program) for program in slow), flush=True)
    end = time.monotonic() + arguments.seconds
    tried = noticed = 0

    def judge(mutant):
        if time.monotonic() > end:
            return mutant, False, None
        return mutant, True, try_mutant(mutant.number, set(reached[mutant.number]) - slow, seconds)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for mutant, was_tried, by in pool.map(judge, mutants):
            tried += was_tried
            noticed += by is not None
            if was_tried and by is None:
                where = "nobody notices" if reached[mutant.number] else "nobody comes here"
                print(f"{mutant.file}:{mutant.line}: {mutant.text[:70]}: {mutant.change}: {where}", flush=True)
    return tried, noticed


def main():
    parser = argparse.ArgumentParser(description="Which places could be wrong without a unit test noticing?",
                                     epilog="What is changed, and how:" + PLACES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.c")
    parser.add_argument("--also", action="append", default=[], metavar="FOLDER",
                        help="run the unit tests of this folder, too: they may look at the same file")
    parser.add_argument("--seconds", type=float, default=600, help="begin no mutant after this time (600)")
    parser.add_argument("--longest", type=float, default=1, metavar="SECONDS",
                        help="leave out tests that compute for longer (1), as those with random histories")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    files = [os.path.relpath(os.path.abspath(file), TOP) for file in arguments.files]

    configure()
    mutants = instrument(files)
    programs = build_tests({file.split("/")[0] for file in files} | set(arguments.also), arguments.jobs)
    tried, noticed = try_all(mutants, programs, arguments)
    print(f"{len(mutants)} mutants, {tried} tried, {noticed} noticed, {tried - noticed} not")


if __name__ == "__main__":
    main()
