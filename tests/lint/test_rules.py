#!/usr/bin/env python3
"""Plants each violation in a small tree that is clean otherwise, and sees exactly it reported."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import rules  # noqa: E402  (the path must be set first)

HEADER = "/* One thing. */\n#pragma once\n\nint {name}(int x);\n"
SOURCE = '#include "{folder}/{name}.h"\n\nint {name}(int x)\n{{\n    return x + 1;\n}}\n'


NULL_DEREFERENCE = "int f(int x)\n{\n    int *p = x ? &x : 0;\n    return *p;\n}\n"


class Tree(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="firn-lint-")
        self.addCleanup(shutil.rmtree, self.root)
        for name in (".clang-format", ".clang-tidy"):
            shutil.copy(os.path.join(TOP, name), self.root)
        for folder in rules.MAY_INCLUDE:
            self.write(f"{folder}/{folder}_thing.h", HEADER.format(name=f"{folder}_thing"))
            self.write(f"{folder}/{folder}_thing.c",
                       SOURCE.format(folder=folder, name=f"{folder}_thing"))
        self.write("tests/helper.h", HEADER.format(name="helper"))

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def assert_found(self, path, line, words):
        found = list(rules.findings(self.root))
        self.assertEqual(len(found), 1, found)
        self.assertEqual(found[0][:2], (path, line))
        self.assertIn(words, found[0][2])

    def assert_clean(self):
        self.assertEqual(list(rules.findings(self.root)), [])


class Rules(Tree):
    def test_a_clean_tree_is_clean(self):
        self.assert_clean()

    def test_a_test_has_the_name_of_one(self):
        self.write("tests/unit/test_thing.c", "static void test_it_adds(void **state)\n{\n    (void)state;\n}\n")
        self.assert_clean()
        self.write("tests/unit/test_thing.c", "static void it_adds(void **state)\n{\n    (void)state;\n}\n")
        self.assert_found("tests/unit/test_thing.c", 1, "test_")

    def test_every_forbidden_arrow(self):
        for folder, allowed in rules.MAY_INCLUDE.items():
            for target in (*rules.MAY_INCLUDE, "tests"):
                thing = "helper" if target == "tests" else f"{target}_thing"
                path = f"{folder}/arrow.c"
                self.write(path, f'#include "{target}/{thing}.h"\n')
                found = list(rules.dependency(rules.File(self.root, path)))
                free = target == folder or target in allowed
                self.assertEqual([number for number, _ in found], [] if free else [1], path)

    def test_an_arrow_is_found_in_the_tree(self):
        self.write("daemon/arrow.c", '#include "kernels/kernels_thing.h"\n')
        self.assert_found("daemon/arrow.c", 1, "daemon/ does not include kernels/")

    def test_one_room_of_a_folder_may_be_open(self):
        for room in ("lanes", "mesh"):
            self.write(f"comm/{room}/thing.h", HEADER.format(name="thing"))
        self.write("protocol/arrow.c", '#include "comm/lanes/thing.h"\n#include "comm/mesh/thing.h"\n')
        found = list(rules.dependency(rules.File(self.root, "protocol/arrow.c")))
        self.assertEqual(found, [(2, "protocol/ does not include comm/mesh/")])

    def test_files_that_comments_name_exist(self):
        self.write("elastic/there.c", "int there;\n")
        self.write("elastic/named.c", "/* elastic/there.c, elastic/gone.c, tests/lib/base/x.c */\n")
        found = list(rules.named_file(rules.File(self.root, "elastic/named.c")))
        self.assertEqual(found, [(1, "elastic/gone.c does not exist")])

    def test_tests_that_documents_name_exist(self):
        self.write("tests/unit/base/test_there.c", "int there;\n")
        self.write("docs/proof.md", "`tests/unit/base/test_there.c`, `test_there.c`\n`test_gone.py`\n")
        found = list(rules.named_test(rules.File(self.root, "docs/proof.md")))
        self.assertEqual(found, [(2, "test_gone.py is no test")])

    def test_changes_have_the_versions_of_the_protocols(self):
        self.write("comm/mesh/frame.h", "#define FRAME_VERSION 4\n")
        self.write("elastic/plan/versions.h", "#define VERSIONS_CONTROL        2\n")
        older = "## 0.1\n\n| link protocol | 4 |\n| control protocol | 2 |\n"
        self.write("CHANGELOG.md", "# Changes\n\n## 0.2\n\n| link protocol | 4 |\n| control protocol | 1 |\n\n" + older)
        found = list(rules.changes(rules.File(self.root, "CHANGELOG.md")))
        self.assertEqual([what for _, what in found],
                         ["the newest version has no line '| control protocol | 2 |', as elastic/plan/versions.h has it"])

    def test_files_that_call_each_other_in_a_circle(self):
        for name, called in (("above", "first"), ("first", "second"), ("second", "third"), ("third", "first"), ("below", "none")):
            self.write(f"elastic/plan/{name}.c", f"void {called}(void);\nvoid {name}(void)\n{{\n    {called}();\n}}\n")
        found = list(rules.circles(self.root, rules.tree(self.root)))
        self.assertEqual([path for path, _, _ in found], ["elastic/plan/first.c"])
        self.assertTrue(found[0][2].endswith("circle: first.c second.c third.c"), found)

    def test_the_daemon_never_includes_kernels(self):
        self.assertNotIn("kernels", rules.MAY_INCLUDE["daemon"])
        self.assertEqual(rules.MAY_INCLUDE["base"], ())
        for folder in ("comm", "checkpoint", "membership", "elastic"):
            self.assertEqual(rules.MAY_INCLUDE[folder], ("base",))

    def test_every_forbidden_arrow_between_rooms(self):
        for folder, rooms in rules.ROOMS.items():
            for room in (*rooms, ""):
                self.write(f"{folder}/{room}/thing.h" if room else f"{folder}/thing.h", HEADER.format(name="thing"))
        for folder, rooms in rules.ROOMS.items():
            for place, room in enumerate(rooms):
                for other_place, other in enumerate((*rooms, "")):
                    target = f"{folder}/{other}/thing.h" if other else f"{folder}/thing.h"
                    path = f"{folder}/{room}/arrow.c"
                    self.write(path, f'#include "{target}"\n')
                    found = list(rules.dependency(rules.File(self.root, path)))
                    self.assertEqual(len(found), 0 if other and other_place <= place else 1, (path, target))

    def test_rooms_are_those_of_the_tree(self):
        for folder, rooms in rules.ROOMS.items():
            there = {name for name in os.listdir(os.path.join(TOP, folder))
                     if any(file.endswith(".c") for file in self.files_in(os.path.join(TOP, folder, name)))}
            self.assertEqual(there, set(rooms), folder)

    @staticmethod
    def files_in(path):
        return os.listdir(path) if os.path.isdir(path) else []

    def test_crowded_rooms(self):
        for number in range(rules.ROOM_CONCEPTS_MAX + 1):
            self.assert_clean()
            self.write(f"elastic/plan/thing_{number:02}.h", HEADER.format(name=f"thing_{number:02}"))
        self.assert_found("elastic/plan/thing_00.h", 1, f"{rules.ROOM_CONCEPTS_MAX} are the most")

    def test_sentences_without_a_subject(self):
        comment = "/* What comes, and who it is that sends it. */\n"
        self.write("base/words.h", comment + "#pragma once\n")
        self.assert_clean()
        self.write("base/words.h", comment * 2 + "#pragma once\n")
        self.assert_found("base/words.h", 1, "name the subject")

    def test_one_dialect(self):
        self.write("base/null.c", "int f(const int *p);\n\nint f(const int *p)\n{\n    return p == NULL;\n}\n")
        self.assert_found("base/null.c", 5, "!p")
        self.write("base/null.c", "int f(int x);\n\nint f(int x)\n{\n    int r = x;\n    return r;\n}\n")
        self.assert_found("base/null.c", 5, "int status")

    def test_tests_include_anything(self):
        self.write("tests/test_x.c", '#include "daemon/daemon_thing.h"\n#include "helper.h"\n')
        self.assert_clean()

    def test_includes_are_paths_from_the_root(self):
        self.write("base/arrow.c", '#include "base_thing.h"\n')
        self.assert_found("base/arrow.c", 1, "path from the root")
        self.write("base/arrow.c", '#include "base/absent.h"\n')
        self.assert_found("base/arrow.c", 1, "path from the root")

    def test_own_header_comes_first(self):
        name = "base_thing"
        self.write(f"base/{name}.c", f'#include <stdio.h>\n\n#include "base/{name}.h"\n')
        self.assert_found(f"base/{name}.c", 3, "first include")
        self.write(f"base/{name}.c", "int x;\n")
        self.assert_found(f"base/{name}.c", 1, "first include")

    def test_headers_guard_themselves(self):
        self.write("base/open.h", "/* #pragma once */\nint x(void);\n")
        self.assert_found("base/open.h", 1, "#pragma once")

    def test_long_files(self):
        self.write("base/long.c", "\n".join(f"extern int v{i};" for i in range(800)) + "\n")
        self.assert_clean()
        self.write("base/long.c", "\n".join(f"extern int v{i};" for i in range(801)) + "\n")
        self.assert_found("base/long.c", 801, "801 lines")

    def function(self, lines):
        body = "    x++;\n" * (lines - 5)
        head = "/* Head. */\nstatic int f(int x,\n             int y)\n"
        return f"{head}{{\n{body}    return x;\n}}\n"

    def lengths(self):
        return [finding for finding in rules.findings(self.root) if "lines" in finding[2]]

    def test_long_functions(self):
        self.write("base/long.c", self.function(70) + "\n" + self.function(70))
        self.assertEqual(self.lengths(), [])
        self.write("base/long.c", self.function(70) + "\n" + self.function(71))
        self.assertEqual(self.lengths(), [
            ("base/long.c", 74, "a function of 71 lines; 70 are the most")])

    def test_long_tables_are_not_functions(self):
        rows = "    1,\n" * 100
        self.write("base/table.c", f"static const int table[] = {{\n{rows}}};\n")
        self.assertEqual(self.lengths(), [])

    def struct(self, members):
        return "/* One. */\nstruct one {\n" + "".join(f"    {member};\n" for member in members) + "};\n"

    def test_crowded_structs(self):
        members = [f"int m{i}" for i in range(rules.STRUCT_MEMBERS_MAX)]
        self.write("base/one.c", self.struct(members))
        self.assert_clean()
        self.write("base/one.c", self.struct(members + ["int last"]))
        self.assert_found("base/one.c", 2, "struct one has 25 members; 24 are the most")

    def test_members_of_inner_structs_and_of_one_line_count(self):
        counts = {"int a": 1, "int a, b[2][3], *c": 3, "void (*f)(int x, int y)": 1,
                  "struct {\n        int a, b;\n    } inner": 2, "struct two *two": 1}
        for member, count in counts.items():
            self.assertEqual(rules.member_count(f"\n    {member};\n"), count, member)

    def test_crowded_structs_of_the_list_exist_and_do_not_grow(self):
        for (path, name), most in rules.MAY_HAVE_MEMBERS.items():
            code = "\n".join(rules.File(TOP, path).code_lines())
            counts = [rules.member_count(rules.struct_body(code, hit.end()))
                      for hit in rules.STRUCT.finditer(code) if hit.group(1) == name]
            self.assertEqual(counts, [most], name)

    def test_marks(self):
        for mark in ("TO" "DO", "FIX" "ME", "XX" "X"):
            self.write("docs/guide.md", f"Fine.\nLater: {mark} more\n")
            self.assert_found("docs/guide.md", 2, mark)
        self.write("docs/guide.md", "mkstemp takes XXXXXX and TO" "DOS is a word\n")
        self.assert_clean()

    def test_paths_of_one_machine(self):
        for folder in ("work", "farm", "root"):
            self.write("docs/guide.md", f"see /{folder}/somebody\n")
            self.assert_found("docs/guide.md", 1, "path of one machine")
        longer = " ".join(before + "/" + folder + "/x" for before, folder in
                          (("~", "work"), ("docs", "work"), (".", "root")))
        self.write("docs/guide.md", f"see {longer}\n")
        self.assert_clean()

    def test_sleeping(self):
        for path, text in (("worker/nap.c", "void f(void)\n{\n    usleep(5);\n}\n"),
                           ("tests/unit/nap.c", "void f(void)\n{\n    sleep (5);\n}\n"),
                           ("tests/nap.py", "import time\n\ntime.sleep(1)\n"),
                           ("tests/nap.sh", "\nwhile ! true; do\n  true; sleep 1\ndone\n")):
            self.write(path, text)
            found = [finding for finding in rules.findings(self.root) if "sleeps" in finding[2]]
            self.assertEqual([finding[:2] for finding in found], [(path, 3)])
            os.remove(os.path.join(self.root, path))

    def test_words_about_sleep_do_not_sleep(self):
        self.write("base/nap.c", '/* sleep(5) */\nconst char *f = "usleep(5)"; // sleep(1)\n')
        self.assert_clean()

    def test_the_allow_list_names_files_that_exist(self):
        for path in rules.MAY_SLEEP:
            self.assertTrue(os.path.exists(os.path.join(TOP, path)), path)

    def test_numbers_of_the_c_library(self):
        for folder in ("base", "kernels/cpu", "model", "elastic", "worker", "comm"):
            path = f"{folder}/rounds.c"
            self.write(path, "double f(double x)\n{\n    return expf(sqrt(x)); /* log(x) */\n}\n")
            self.assert_found(path, 3, "expf() rounds as the C library does")
            self.write(path, "double logarithm(double x);\n\ndouble f(double x)\n{\n"
                             "    return logarithm(floor(x));\n}\n")
            self.assert_clean()
        self.write("ctl/shows.c", "double f(double x)\n{\n    return log10(x);\n}\n")
        self.assert_clean()

    def test_ending_the_process(self):
        self.write("worker/end.c", "void f(void)\n{\n    exit(1);\n}\n")
        self.assert_found("worker/end.c", 3, "ends the process")
        os.rename(os.path.join(self.root, "worker/end.c"), os.path.join(self.root, "worker/main.c"))
        self.assert_clean()
        self.write("worker/child.c", "void f(void)\n{\n    _exit(1);\n}\n")
        self.assert_clean()

    def test_a_timeout_of_its_own(self):
        for number, text in enumerate(("view->failure_timeout_ns / 4", "2 * timeout_ns", "timeout_ns << 3",
                                       "1.5 * (mesh->watch.timeout_ns)", "failure_timeout_ns / SHARE",
                                       "TIMES * view->failure_timeout_ns")):
            path = f"elastic/late{number}.c"
            self.write(path, f"int f(void)\n{{\n    return {text};\n}}\n")
            self.assert_found(path, 3, "base/timeouts.h")
            os.remove(os.path.join(self.root, path))

    def test_a_timeout_of_the_table(self):
        for number, text in enumerate(("timeout_ns / TIMEOUT_PARTS_POLL", "count * failure_timeout_ns",
                                       "TIMEOUTS_PREPARE * failure_timeout_ns", "connect_timeout_ns / 2",
                                       "failure_timeout_ns / NS_PER_MS", "timeout_ns / PART")):
            self.write(f"elastic/late{number}.c", f"int f(void)\n{{\n    return {text};\n}}\n")
        self.write("base/timeouts.h", HEADER.format(name="late").replace("int x", "int timeout_ns / 2"))
        self.assert_clean()

    def test_format(self):
        self.write("base/ugly.c", "int good;\n\nint  bad ;\nint  bad2 ;\n")
        self.assert_found("base/ugly.c", 3, "clang-format")

    def test_build_and_hidden_folders_are_not_the_tree(self):
        for folder in ("build/x", ".git", "tests/__pycache__"):
            self.write(f"{folder}/ugly.c", "int  bad ;\n")
        self.assert_clean()

    def test_the_command_fails_and_says_where(self):
        self.write("base/ugly.c", "int  bad ;\n")
        result = subprocess.run([sys.executable, os.path.join(HERE, "rules.py"), self.root],
                                text=True, capture_output=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("base/ugly.c:1:", result.stdout)


class Tidy(Tree):
    def tidy(self, text):
        self.write("base/odd.c", text)
        self.write("out/compile_commands.json", json.dumps(
            [{"directory": self.root, "command": "cc -c base/odd.c", "file": "base/odd.c"}] * 2))
        return subprocess.run(
            [sys.executable, os.path.join(HERE, "tidy.py"), self.root,
             os.path.join(self.root, "out"), "1"], text=True, capture_output=True, check=False)

    def assert_rejected(self, text, check):
        result = self.tidy(text)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn(check, result.stdout)
        self.assertIn("1 of 1 files", result.stderr)

    def test_good_code_passes(self):
        result = self.tidy("int f(int x);\n\nint f(int x)\n{\n    return x + 1;\n}\n")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_a_null_dereference_is_found(self):
        self.assert_rejected(NULL_DEREFERENCE, "core.NullDereference")
        self.assertNotIn("note:", self.tidy(NULL_DEREFERENCE).stdout)

    def test_a_suspicious_semicolon_is_found(self):
        self.assert_rejected("int f(int x)\n{\n    if (x > 3);\n        x++;\n    return x;\n}\n",
                             "bugprone-suspicious-semicolon")

    def test_names_that_differ_from_the_header_are_found(self):
        self.assert_rejected("int f(int count);\n\nint f(int size)\n{\n    return size;\n}\n",
                             "inconsistent-declaration")

    def test_code_that_clang_cannot_read_is_found(self):
        self.assert_rejected("int f(void) { return absent; }\n", "clang-diagnostic-error")


if __name__ == "__main__":
    unittest.main()
