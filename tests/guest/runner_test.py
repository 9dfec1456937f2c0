# SPDX-License-Identifier: Apache-2.0
"""scripts/guest as its users see it: what comes back from a guest, and what it says when there can be none.

Refusals are tried on a made-up PATH and cache, so that they hold on every machine; the rest is skipped where no guest can be had.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
GUEST = HERE.parent.parent / "scripts/guest"
EXIT_SKIPPED = 77
UNAVAILABLE = 69
HANGS_S = 15  # a busy machine must get to where the program hangs


def guest(*arguments, environment=None, directory=None, within_s=850):
    return subprocess.run([sys.executable, GUEST, *map(str, arguments)], env=environment, cwd=directory, capture_output=True,
                          timeout=within_s, check=False, stdin=subprocess.DEVNULL)


class RefusalTest(unittest.TestCase):
    """No guest is booted here."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="forebay-guest-test."))
        self.addCleanup(shutil.rmtree, self.directory)
        self.programs = self.directory / "bin"
        self.programs.mkdir()
        self.environment = {**os.environ, "PATH": str(self.programs), "FOREBAY_GUEST_CACHE": str(self.directory / "cache")}
        for name in ("qemu-system-x86_64", "busybox", "depmod", "dpkg-deb"):
            self.program(name, "exit 1")

    def program(self, name, text):
        """A stand-in for a program of the system's."""
        (self.programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.programs / name).chmod(0o755)

    def refused(self, *arguments, saying, status=UNAVAILABLE):
        done = guest(*arguments, environment=self.environment, within_s=30)
        errors = done.stderr.decode()
        self.assertEqual(done.returncode, status, errors)
        for words in saying:
            self.assertIn(words, errors)
        self.assertEqual(done.stdout, b"")
        # Nothing half done stays behind.
        left = [path.name for path in (self.directory / "cache").glob("*")]
        self.assertLessEqual(set(left), {"lock"})

    def test_a_missing_program_is_named_with_what_installs_it(self):
        for name, package in (("qemu-system-x86_64", "qemu-system-x86"), ("busybox", "busybox-static")):
            with self.subTest(name):
                (self.programs / name).rename(self.directory / name)
                self.refused("true", saying=[f"`{name}` is missing", package, "scripts/install-deps"])
                (self.directory / name).rename(self.programs / name)

    def test_apt_without_lists_is_said(self):
        self.program("apt-cache", "exit 0")
        self.refused("true", saying=["apt knows no linux-image-amd64", "apt-get update", "--kernel-package"])

    def test_a_failed_download_says_what_apt_said(self):
        self.program("apt-cache", "echo 'Depends: linux-image-6.1.0-1-amd64 (= 6.1.5-1)'")
        self.program("apt-get", "echo 'E: Failed to fetch: connection refused' >&2; exit 100")
        self.refused("true", saying=["linux-image-6.1.0-1-amd64=6.1.5-1", "connection refused", "--kernel-package"])

    def test_what_is_no_kernel_package_is_refused(self):
        package = self.directory / "some.deb"
        self.refused("--kernel-package", package, "true", saying=["some.deb does not exist"])
        package.write_bytes(b"!<arch>\n")
        self.refused("--kernel-package", package, "true", saying=["some.deb", "unpacked"])

    def test_a_cache_that_cannot_be_written_is_said(self):
        (self.directory / "cache").write_text("a file")
        self.refused("true", saying=["FOREBAY_GUEST_CACHE"])

    def test_wrong_usage_is_told_apart(self):
        for arguments in ((), ("--",), ("--hosts", "0", "true"), ("--hosts", "17", "true"), ("--memory", "many", "true"),
                          ("--timeout", "-1", "true"), ("--env", "1=2", "true"), ("--module", "a b", "true"), ("--nothing", "true"),
                          ("--check", "true")):
            with self.subTest(arguments):
                self.refused(*arguments, saying=["usage: scripts/guest"], status=2)


class BootedTest(unittest.TestCase):
    """Skipped where no guest can be had."""

    def setUp(self):
        checked = guest("--check")
        if checked.returncode == UNAVAILABLE:
            self.skipTest(checked.stderr.decode().strip())
        self.assertEqual(checked.returncode, 0, checked.stderr.decode())
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="forebay guest test."))
        self.addCleanup(shutil.rmtree, self.directory)


class GuestTest(BootedTest):
    def test_a_command_runs_on_the_callers_files_and_leaves_them_alone(self):
        (self.directory / "here").write_text("mine\n")
        content = bytes(range(256)) * 4096
        (self.directory / "content").write_bytes(content)
        script = """
            cat content
            cat here >/dev/stderr
            echo "$FIRST|$SECOND|$THIRD|$GUEST_DEVICE|$GUEST_ADDRESS|$(id -u)|$(pwd)" >&2
            echo changed >here || exit 99
            cat here >&2
            mkdir "$GUEST_OUT/below" && cp content "$GUEST_OUT/below/copy" || exit 98
            sleep 1000 &
            exit 37
        """
        environment = {**os.environ, "FIRST": "one 'two' $three", "THIRD": "not passed"}
        done = guest("--env", "FIRST", "--env", "SECOND=a=b", "--env", "NOT_SET", "--out", "out dir", "--", "sh", "-c", script,
                     environment=environment, directory=self.directory)
        self.assertEqual(done.returncode, 37, done.stderr)
        self.assertEqual(done.stdout, content)
        # The runner's own lines apart: it may have had to prepare the kernel, or to wait for another run that does.
        errors = "".join(line for line in done.stderr.decode().splitlines(True) if not line.startswith("guest: "))
        self.assertEqual(errors, f"mine\none 'two' $three|a=b||rxe1|10.9.0.1|0|{self.directory}\nchanged\n")
        self.assertEqual((self.directory / "here").read_text(), "mine\n")
        self.assertEqual((self.directory / "out dir/below/copy").read_bytes(), content)

    def test_two_hosts_talk_over_a_link_that_can_be_cut(self):
        script = """
            rdma link | grep -c ACTIVE
            serve() { wait; timeout 400 rping -s -a 10.9.0.1 -C 2 & sleep 1; }
            ping() { timeout 60 rping -c -a 10.9.0.1 -I 10.9.0.2 -C 2 "$@" >&2; }
            # One that asks a server which is not there yet is refused.
            ping_until() { for _ in $(seq 30); do ping "$@" && return; sleep 1; done; return 1; }
            count() { cat /sys/class/net/h2/statistics/tx_packets; }
            before=$(count)
            serve
            ping_until -v && echo connected
            [ $(($(count) - before)) -ge 8 ] && echo over the link
            ip link set port2 down
            serve
            ping || echo cut
            ip link set port2 up
            ping_until && echo healed
        """
        done = guest("--hosts", "2", "--timeout", "600", "--", "sh", "-c", script)
        self.assertEqual((done.returncode, done.stdout.decode()), (0, "2\nconnected\nover the link\ncut\nhealed\n"), done.stderr.decode())
        self.assertRegex(done.stderr.decode(), r"(?m)^guest: 2 hosts in one network namespace")

    def test_a_command_that_takes_too_long_is_ended(self):
        done = guest("--timeout", "2", "--", "sleep", "1000", within_s=200)
        self.assertEqual(done.returncode, 124)
        self.assertIn("guest: timed out: not done after 2 s", done.stderr.decode())

    def test_a_runner_that_is_ended_takes_its_guest_with_it(self):
        runner = subprocess.Popen([sys.executable, GUEST, "sh", "-c", "echo started; sleep 1000"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        self.addCleanup(runner.kill)
        with runner.stdout as output:
            self.assertEqual(output.readline(), b"started\n")
            children = pathlib.Path(f"/proc/{runner.pid}/task/{runner.pid}/children").read_text().split()
            self.assertEqual(len(children), 1)
            runner.send_signal(signal.SIGTERM)
            self.assertEqual(runner.wait(100), 128 + signal.SIGTERM)
        self.assertFalse(pathlib.Path(f"/proc/{children[0]}").exists())

    def test_more_memory_than_there_is_is_refused(self):
        done = guest("--memory", 1 << 20, "true")
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("a guest of 1048576 MiB does not fit", done.stderr.decode())


class ProgramsTest(BootedTest):
    """run_programs.py over a program that ends in each way there is."""

    def programs(self, *programs):
        sample = os.environ.get("FOREBAY_GUEST_SAMPLE")
        if not sample:
            self.skipTest("FOREBAY_GUEST_SAMPLE names no guest_sample_test; ctest sets it")
        plan = self.directory / "plan.json"
        plan.write_text(json.dumps({"hosts": 1, "memory_mib": 1024, "timeout_s": 600, "programs": [
            {"label": label, "command": [sample, f"--gtest_filter={cases}"], "environment": environment, "timeout_s": timeout_s}
            for label, cases, environment, timeout_s in programs]}))
        environment = {name: value for name, value in os.environ.items() if name != "GTEST_FILTER"}
        done = subprocess.run([sys.executable, "-B", HERE / "run_programs.py", plan, self.directory / "run"], env=environment,
                              capture_output=True, text=True, timeout=850, check=False, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, [line for line in done.stdout.splitlines() if line.startswith("guest: ")]

    def test_each_way_to_end_is_counted(self):
        status, output, lines = self.programs(
            ("a;good one", "*.Passes*:*.IsSkipped", [], 200),
            ("failing", "*.Passes:*.Fails", [], 200),
            ("crashing", "*.Passes:*.Crashes", [], 200),
            ("hanging", "*.Passes:*.Hangs", [], HANGS_S),
            ("skipping", "*.IsSkipped", [], 200),
            ("empty", "*.Nothing", [], 200),
            ("told to", "*", ["GTEST_FILTER=unused", "GTEST_TOTAL_SHARDS=6", "GTEST_SHARD_INDEX=0"], 200))
        self.assertEqual(status, 1, output)
        self.assertEqual(lines, [
            "guest: a;good one 2 passed, 0 failed, 1 skipped",
            "guest: failing 1 passed, 1 failed, 0 skipped",
            "guest: crashing 1 passed, 1 failed, 0 skipped (ended with status 137 in SampleTest.Crashes)",
            f"guest: hanging 1 passed, 1 failed, 0 skipped (took over {HANGS_S} s in SampleTest.Hangs)",
            "guest: skipping 0 passed, 1 failed, 1 skipped (no case ran)",
            "guest: empty 0 passed, 1 failed, 0 skipped (no case ran)",
            "guest: told to 1 passed, 0 failed, 0 skipped",
        ])
        self.assertIn("  a;good one skipped: SampleTest.IsSkipped: for a reason\n", output)
        self.assertIn("  failing failed:  SampleTest.Fails\n", output)
        self.assertIn("as it should", output)


def main():
    loader = unittest.defaultTestLoader
    module = sys.modules["__main__"]
    suite = loader.loadTestsFromNames(sys.argv[1:], module) if sys.argv[1:] else loader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    if not result.wasSuccessful() or result.testsRun == 0:
        return 1
    for case, reason in result.skipped:
        # The form in which GoogleTest gives a reason, which scripts/test shows.
        print(f"{case.id()}: Skipped\n{reason}\n\n")
    return EXIT_SKIPPED if result.skipped else 0


if __name__ == "__main__":
    sys.exit(main())
