# SPDX-License-Identifier: Apache-2.0
"""scripts/test over a project of its own, of small shell commands as tests: what a reader finds at the end of a long log."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import forebay_process

TREE = pathlib.Path(__file__).resolve().parent.parent.parent

PRESETS = """{
  "version": 6,
  "configurePresets": [
    {"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/release"},
    {"name": "asan", "generator": "Ninja", "binaryDir": "${sourceDir}/build/asan"}
  ],
  "testPresets": [
    {"name": "release", "configurePreset": "release", "output": {"outputOnFailure": true}},
    {"name": "asan", "configurePreset": "asan", "output": {"outputOnFailure": true}}
  ]
}
"""

# Stands for scripts/build. A preset that is told to fail does so as a compiler would.
BUILD = """#!/bin/sh
test ! -e fail-$2 || { echo "a.cc:1: error: no semicolon"; exit 1; }
exec cmake --preset $2
"""


class SummaryTest(unittest.TestCase):
    def setUp(self):
        self.project = pathlib.Path(tempfile.mkdtemp(prefix="forebay-summary-test."))
        self.addCleanup(shutil.rmtree, self.project)
        scripts = self.project / "scripts"
        scripts.mkdir()
        for name in ("test", "summarize_junit.py"):
            shutil.copy(TREE / "scripts" / name, scripts)
        (scripts / "build").write_text(BUILD)
        (scripts / "build").chmod(0o755)
        (self.project / "CMakePresets.json").write_text(PRESETS)
        self.commands = {}

    def run_tests(self, *presets):
        """Runs scripts/test over `commands`. Returns the exit status, all it printed, and that from the sum of the last preset on."""
        lines = ["cmake_minimum_required(VERSION 3.25)", "project(sample LANGUAGES NONE)", "enable_testing()"]
        for name, command in self.commands.items():
            (self.project / f"{name}.sh").write_text(command + "\n")
            lines.append(f'add_test(NAME {name} COMMAND sh "${{CMAKE_SOURCE_DIR}}/{name}.sh")')
            lines.append(f"set_tests_properties({name} PROPERTIES SKIP_RETURN_CODE 77)")
        (self.project / "CMakeLists.txt").write_text("\n".join(lines) + "\n")
        options = [word for preset in presets or ["release"] for word in ("--preset", preset)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CTEST_")}
        done = subprocess.run(["bash", "scripts/test", "--no-install", *options], cwd=self.project, env=environment, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL, timeout=100)
        return done.returncode, done.stdout, re.split(r"^== \w+: \d+ passed.*\n", done.stdout, flags=re.MULTILINE)[-1].splitlines()

    def skip(self, name, reason):
        self.commands[name] = f"printf '%s\\n' '{name}.cc:7: Skipped' '{reason}' '' '[  SKIPPED ] {name}'; exit 77"

    def test_skips_are_one_line_a_reason(self):
        self.commands["good"] = "exit 0"
        for number in range(5):
            self.skip(f"verbs{number}", "no RDMA device")
        self.skip("user", "needs root")
        status, output, end = self.run_tests()
        self.assertIn("\nskipped 5: no RDMA device: verbs0, verbs1, verbs2 and 2 more\nskipped 1: needs root: user\n", output)
        self.assertEqual((status, end), (0, ["1 passed, 0 failed, 6 skipped"]))

    def test_a_failure_is_named_after_all_presets_with_the_end_of_its_output(self):
        self.commands["good"] = "exit 0"
        self.commands["bad"] = "for i in $(seq 60); do echo line $i; done; exit 1"
        status, _, end = self.run_tests("release", "asan")
        tail = [f"   line {number}" for number in range(36, 61)]
        self.assertEqual(end, ["-- release: bad", *tail, "-- asan: bad", *tail,
                               "failed: release: bad (failed alone too)", "failed: asan: bad (failed alone too)",
                               "2 passed, 2 failed, 0 skipped"])
        self.assertEqual(status, 1)

    def test_a_failure_that_passes_alone_counts_and_says_so(self):
        self.commands["flaky"] = "test -e seen || { touch seen; echo too slow; exit 1; }"
        status, _, end = self.run_tests()
        self.assertEqual(end, ["-- release: flaky", "   too slow", "failed: release: flaky (failed under load, passed alone)",
                               "0 passed, 1 failed, 0 skipped"])
        self.assertEqual(status, 1)

    def test_many_failures_stay_within_150_lines_and_are_not_run_again(self):
        for number in range(40):
            self.commands[f"bad{number:02}"] = f"echo run >>runs{number:02}; seq 100; exit 1"
        status, _, end = self.run_tests()
        self.assertEqual(status, 1)
        self.assertLessEqual(len(end[:-1]), 150)
        self.assertIn("-- release: bad05", end)
        self.assertEqual(end[-3:], ["failed: release: bad29 (not run again)", "... and 10 more failed", "0 passed, 40 failed, 0 skipped"])
        self.assertEqual((next(self.project.rglob("runs00"))).read_text(), "run\n")

    def test_inner_failures_stand_before_the_end_of_the_output(self):
        self.commands["guest"] = r"""
            printf '  %s\n' 'ofi;verbs failed:  Suite.Case/verbs' 'ofi;verbs skipped: Suite.Other: no IPv6' \
              'ofi;verbs, the last of 1.log:'
            seq 60 | sed 's/^/    line /'
            printf '%s\n' 'host: tcp 4 passed, 0 failed, 0 skipped' 'guest: ofi;verbs 9 passed, 1 failed, 1 skipped'
            exit 1"""
        _, output, end = self.run_tests()
        self.assertIn("\nhost: tcp 4 passed, 0 failed, 0 skipped\nguest: ofi;verbs 9 passed, 1 failed, 1 skipped\n", output)
        self.assertIn("\nskipped 1: no IPv6: ofi;verbs Suite.Other\n", output)
        self.assertEqual(end[:3], ["-- release: guest", "   guest: ofi;verbs 9 passed, 1 failed, 1 skipped",
                                   "     ofi;verbs failed:  Suite.Case/verbs"])
        self.assertEqual(end[3:26], [f"       line {number}" for number in range(38, 61)])

    def test_a_sanitizers_report_is_shown_from_its_first_line(self):
        self.commands["leak"] = "echo start; echo '==1==ERROR: AddressSanitizer: heap-use-after-free'; seq 200; exit 1"
        _, _, end = self.run_tests()
        self.assertEqual(end[1:3], ["   ==1==ERROR: AddressSanitizer: heap-use-after-free", "   1"])

    def test_a_build_that_fails_is_a_failure_with_its_output(self):
        self.commands["good"] = "exit 0"
        (self.project / "fail-release").touch()
        status, _, end = self.run_tests("release", "asan")
        self.assertEqual(end, ["-- release: the build", "   a.cc:1: error: no semicolon", "failed: release: the build",
                               "1 passed, 1 failed, 0 skipped"])
        self.assertEqual(status, 1)

    def test_a_program_that_is_missing_is_a_failure(self):
        self.commands["good"] = "exit 0"
        (self.project / "scripts/build").write_text(BUILD.replace("exec ", "") + "echo 'add_test(gone /nonexistent/program)' "
                                                    ">>build/release/CTestTestfile.cmake\n")
        status, _, end = self.run_tests()
        self.assertEqual(end[-2:], ["failed: release: gone (failed alone too)", "1 passed, 1 failed, 0 skipped"])
        self.assertEqual(status, 1)


if __name__ == "__main__":
    forebay_process.main()
