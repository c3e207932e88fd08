#!/usr/bin/env python3
"""Instruments a small program, and sees that it is as before without a mutant, and what each of its mutants makes of it."""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import mutants  # noqa: E402  (the path must be set first)

# Each line of main() prints one word about one function, so that a mutant shows where it is.
PROGRAM = r"""
#include <stdbool.h>
#include <stdio.h>
#define MAX(a, b) ((a) > (b) ? (a) : (b)) /* if (a < b) in a comment stays, and so does a macro */
#define MIN(a, b) ((a) < (b) ? (a) : (b))

struct pair { int first, second; };

static bool both(int a, int b)
{
    return a > 1 && b > 1;
}

static int larger(struct pair pair)
{
    const char room[8] = "a < b", *end = room + sizeof(room);
    static const int none[] = {0, 1};
    if (end - room < 8)
        return none[1];
    return MAX(pair.first, pair.second);
}

static int sum(int count)
{
    int total = 0;
    for (int i = 0; i < count; i++) {
        if (i == 3)
            continue;
        total += i;
    }
    switch (count) {
    case 1:
        total = -1;
        break;
    default:
        break;
    }
    return total;
}

int main(void)
{
    struct pair pair = (struct pair){.first = 3, .second = sum(3) - 1};
    printf("%d%d%d %d %d %d\n", both(1, 2), both(2, 1), both(2, 2), larger(pair), sum(5), sum(1));
    return 0;
}
"""
OUTPUT = "001 3 7 -1\n"


class Program(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="firn-mutants-")
        cls.addClassCleanup(cls.folder.cleanup)
        instrumented = mutants.Instrumented("program.c", PROGRAM, 0, {(18, "+")})  # a difference of pointers
        cls.mutants = instrumented.mutants
        source = os.path.join(cls.folder.name, "program.c")
        cls.program = os.path.join(cls.folder.name, "program")
        with open(source, "w", encoding="utf-8") as file:
            file.write(instrumented.text())
        subprocess.run([os.environ.get("CC", "cc"), "-include", os.path.join(HERE, "mutant.h"), "-o", cls.program, source],
                       check=True)

    def output(self, number=None, **variables):
        environment = dict(os.environ, **variables)
        if number is not None:
            environment["FIRN_MUTANT"] = str(number)
        return subprocess.run([self.program], env=environment, capture_output=True, text=True, timeout=20,
                              check=False).stdout

    def of(self, text, change):
        found = [m.number for m in self.mutants if (m.text, m.change) == (text, change)]
        self.assertEqual(len(found), 1, f"{text}: {change}")
        return found[0]

    def test_without_a_mutant_it_is_as_before(self):
        self.assertEqual(self.output(), OUTPUT)
        self.assertEqual([m.number for m in self.mutants], list(range(len(self.mutants))))

    def test_each_kind_changes_what_it_says(self):
        self.assertEqual(self.output(self.of("a > 1", "left out")), "101 3 7 -1\n")
        self.assertEqual(self.output(self.of("b > 1", "left out")), "011 3 7 -1\n")
        self.assertEqual(self.output(self.of("b > 1", ">=")), "011 3 7 -1\n")
        self.assertEqual(self.output(self.of("MAX(pair.first, pair.second)", "MIN")), "001 2 7 -1\n")
        self.assertEqual(self.output(self.of("end - room < 8", "true")), "001 1 7 -1\n")
        self.assertEqual(self.output(self.of("i == 3", "false")), "001 3 10 -1\n")
        self.assertEqual(self.output(self.of("i == 3", "!=")), "001 3 3 -1\n")
        self.assertEqual(self.output(self.of("continue;", "left out")), "001 3 10 -1\n")
        self.assertEqual(self.output(self.of("total = -1;", "left out")), "001 3 7 0\n")
        self.assertEqual(self.output(self.of("-", "+")), "001 4 7 -1\n")
        self.assertEqual(self.output(self.of("i < count", "<=")), "001 3 12 -1\n")

    def test_it_says_which_places_are_reached(self):
        with tempfile.NamedTemporaryFile() as file:
            file.truncate(len(self.mutants))
            self.output(FIRN_MUTANTS_REACHED=file.name)
            marks = file.read()
        self.assertTrue(marks[self.of("i == 3", "false")])
        never = self.line_of("return none[1];")
        self.assertEqual({marks[m.number] for m in self.mutants if m.line == never}, {0})

    def line_of(self, text):
        return PROGRAM[:PROGRAM.index(text)].count("\n") + 1

    def test_what_must_be_constant_or_is_no_code_stays(self):
        for text in ("static const int none[] = {0, 1};", "case 1:", "in a comment", "char room[8]"):
            line = self.line_of(text)
            self.assertEqual([m.text for m in self.mutants if m.line == line and m.text.isdigit()], [])

    def test_a_refused_line_has_no_mutants(self):
        line = self.mutants[0].line
        again = mutants.Instrumented("program.c", PROGRAM, 0, {(line, None)})
        self.assertNotIn(line, [m.line for m in again.mutants])
        self.assertEqual(again.mutants[0].number, 0)


if __name__ == "__main__":
    unittest.main()
