# SPDX-License-Identifier: Apache-2.0
"""Runs `forebay` as its users do: servers in directories of their own, commands against them, and nothing left behind.

A test file derives its cases from ForebayTest and ends with `forebay_process.main()`. ctest runs each method as a test of its own
(CMakeLists.txt); by hand: `python3 round_trip_test.py --program build/dev/bin/forebay --tool build/dev/bin/integration_tool [Case.method]`.
A skip is exit status 77 with its reason on stdout. Standard library only.
"""

import argparse
import ctypes
import hashlib
import json
import os
import pathlib
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
EXIT_SKIPPED = 77

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


class Settings:
    """What the command line says; set by main()."""

    program = ""  # forebay
    tool = ""  # integration_tool
    directory = ""  # where tests keep their files
    sanitized = False  # built with a sanitizer: everything is slower and larger


def sized(full, sanitized):
    """`full`, or what a sanitizer build does instead."""
    return sanitized if Settings.sanitized else full


def seed():
    """FOREBAY_SEED, or a fresh one; printed, so that a failure can be repeated."""
    value = int(os.environ.get("FOREBAY_SEED") or random.SystemRandom().getrandbits(32))
    print(f"FOREBAY_SEED={value}", flush=True)
    return value


def report(name, value, unit):
    """A figure for the reader of the log."""
    print(f"FIGURE {name}: {value:.4g} {unit}", flush=True)


def wait_until(predicate, what, within_s=30):
    """The first true value of predicate(); fails when there is none in time."""
    deadline = time.monotonic() + within_s
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {what}")
        select.select([], [], [], 0.005)


def sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pieces(size, seed_value, piece_bytes=4 * MIB):
    """`size` bytes of content that differs everywhere, piece by piece; the same for the same seed."""
    block = random.Random(seed_value).randbytes(piece_bytes)
    made = 0
    while made < size:
        # Each piece is the block turned by a different amount, with its place written over its start.
        turn = (made // piece_bytes * 4099) % piece_bytes
        piece = made.to_bytes(8, "little") + block[turn:] + block[:turn]
        piece = piece[: min(piece_bytes, size - made)]
        yield piece
        made += len(piece)


def write_file(path, size, seed_value):
    """Writes the content of pieces() and gives its SHA-256."""
    digest = hashlib.sha256()
    with open(path, "wb") as file:
        for piece in pieces(size, seed_value):
            file.write(piece)
            digest.update(piece)
    return digest.hexdigest()


class Child:
    """How a process starts: dies with us, and optionally as another user, with other limits."""

    def __init__(self, user=None, memlock_bytes=None, open_files=None):
        self.user = user
        self.memlock_bytes = memlock_bytes
        self.open_files = open_files  # the soft limit; the hard one stays

    def __call__(self):
        if self.open_files is not None:
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.open_files if hard < 0 else min(self.open_files, hard), hard))
        if self.memlock_bytes is not None:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (self.memlock_bytes, self.memlock_bytes))
        if self.user is not None:
            os.setgroups([])
            os.setgid(self.user)
            os.setuid(self.user)
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Server:
    """`forebay serve` on ports that the system chose. Ends with the test, which fails when it does not end well."""

    def __init__(self, store, environment, log, size="256MiB", memory="64MiB", options=(), child=Child(),
                 listen="127.0.0.1:0"):
        self.store = pathlib.Path(store)
        self.environment = environment
        self.log = pathlib.Path(log)
        self.command = [Settings.program, "serve", str(store), "--listen", listen]
        self.command += ["--size", size] if size else []
        self.command += ["--memory", memory, *options]
        self.child = child
        self.process = None
        self.ready_seconds = 0.0

    def start(self, within_s=60):
        """Starts it and waits for the ready line; SystemError with its log when it ends first."""
        started = time.monotonic()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                preexec_fn=self.child, cwd="/")
        line = self._first_line(started + within_s)
        self.ready_seconds = time.monotonic() - started
        if not line.startswith("ready "):
            status = self.wait() if not line else None
            raise SystemError(f"the server did not get ready (exit status {status}, said {line!r}); log:\n{self.log_tail()}")
        fields = dict(word.split("=", 1) for word in line.split()[1:])
        self.control = fields["control"]
        self.data = fields["data"]
        self.credentials = fields["credentials"]
        self.ready = fields
        return self

    def _first_line(self, deadline):
        stdout = self.process.stdout.fileno()
        line = b""
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not readable:
                self.kill()
                raise SystemError(f"no ready line in time; log:\n{self.log_tail()}")
            byte = os.read(stdout, 1)
            if not byte:
                break
            line += byte
        return line.decode()

    @property
    def pid(self):
        return self.process.pid

    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.wait()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def terminate(self, within_s=60):
        """SIGTERM; its exit status."""
        self.process.terminate()
        return self.wait(within_s)

    def wait(self, within_s=60):
        try:
            status = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not end within {within_s} s; log:\n{self.log_tail()}") from None
        if self.process.stdout:
            self.process.stdout.close()
        return status

    def restart(self):
        """A new process on the same store, on new ports."""
        if self.running():
            status = self.terminate()
            assert status == 0, f"the server ended with {status}; log:\n{self.log_tail()}"
        return self.start()

    def close(self):
        """At the end of each test: it must still live, and end well when asked."""
        if self.process is None or self.process.returncode is not None:
            return
        if self.process.poll() is not None:
            status = self.wait()
            raise AssertionError(f"the server ended by itself with {status}; log:\n{self.log_tail()}")
        self.resume()
        status = self.terminate()
        if status != 0:
            raise AssertionError(f"the server ended with {status}; log:\n{self.log_tail()}")

    def log_tail(self, characters=8000):
        try:
            return self.log.read_text(errors="replace")[-characters:]
        except OSError as error:
            return str(error)


class Finished:
    """What a command left: exit status, output as bytes and text, JSON lines."""

    def __init__(self, command, status, stdout, stderr):
        self.command = command
        self.status = status
        self.bytes = stdout
        self.errors = stderr.decode(errors="replace")

    @property
    def text(self):
        return self.bytes.decode()

    @property
    def lines(self):
        return self.text.splitlines()

    @property
    def json(self):
        """The only JSON object it printed."""
        (only,) = self.json_lines
        return only

    @property
    def json_lines(self):
        return [json.loads(line) for line in self.lines]


class ForebayTest(unittest.TestCase):
    """A directory, an environment without the caller's profile, servers and commands."""

    maxDiff = 2000

    def setUp(self):
        root = pathlib.Path(Settings.directory or tempfile.gettempdir())
        self.directory = root / f"forebay-{self.id().removeprefix('__main__.')}"
        self.make_directory(self.directory)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
        self.environment["HOME"] = str(self.directory / "home")
        self.environment["XDG_STATE_HOME"] = str(self.directory / "state")
        (self.directory / "home").mkdir()

    def make_directory(self, path):
        """An empty one, gone after the test; what a killed run left there goes now."""
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        return path

    def need_disk(self, size_bytes):
        free = shutil.disk_usage(self.directory).free
        if free < size_bytes:
            self.skipTest(f"{self.directory} has {free // MIB} MiB free, this test wants {size_bytes // MIB} MiB")

    def make_server(self, name="store", **options):
        server = Server(
            self.directory / name, options.pop("environment", self.environment), self.directory / f"{name}.log", **options)
        self.addCleanup(server.close)
        return server

    def start_server(self, name="store", **options):
        return self.make_server(name, **options).start()

    def start_command(self, *arguments, environment=None, **options):
        """A command that runs on; killed at the end of the test."""
        process = subprocess.Popen(
            [Settings.program, *map(str, arguments)], env=environment or self.environment, preexec_fn=Child(), **options)
        self.addCleanup(self._end, process)
        return process

    def start_tool(self, *arguments, child=Child(), **options):
        process = subprocess.Popen(
            [Settings.tool, *map(str, arguments)], env=self.environment, preexec_fn=child, **options)
        self.addCleanup(self._end, process)
        return process

    @staticmethod
    def _end(process):
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass

    def forebay(self, *arguments, status=0, input=None, environment=None, child=Child(), within_s=300):
        """Runs a command and checks its exit status."""
        return self._run([Settings.program, *map(str, arguments)], status, input, environment, child, within_s)

    def tool(self, *arguments, status=0, input=None, within_s=600):
        """Runs a command of integration_tool."""
        return self._run([Settings.tool, *map(str, arguments)], status, input, None, Child(), within_s)

    def _run(self, command, status, input, environment, child, within_s):
        done = subprocess.run(
            command, env=environment or self.environment, input=b"" if input is None else input, capture_output=True,
            timeout=within_s, preexec_fn=child, check=False, cwd=self.directory)
        finished = Finished(command, done.returncode, done.stdout, done.stderr)
        if status is not None and done.returncode != status:
            self.fail(
                f"{' '.join(command)}\nended with {done.returncode} instead of {status}\nstdout: {done.stdout[-2000:]!r}\n"
                f"stderr: {finished.errors[-4000:]}")
        return finished

    def fails(self, *arguments, saying, status=1, **options):
        """Runs a command that must fail, and checks how: one `forebay:` line on stderr with each of `saying`."""
        finished = self.forebay(*arguments, status=status, **options)
        self.assertRegex(finished.errors, r"\Aforebay: [^\n]+\n\Z", f"of {arguments}")
        for word in [saying] if isinstance(saying, str) else saying:
            self.assertIn(word, finished.errors)
        self.assertEqual(finished.bytes, b"", "a command that fails prints nothing on stdout")
        return finished

    def connection(self, server):
        """The options by which integration_tool finds a server."""
        return ["--server", server.control, "--credentials", server.credentials]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True, help="the forebay to test")
    parser.add_argument("--tool", help="integration_tool of the same build")
    parser.add_argument("--directory", default="", help="where to keep files; not on a RAM disk")
    parser.add_argument("--sanitized", action="store_true", help="built with a sanitizer: do less")
    parser.add_argument("cases", nargs="*", help="Case or Case.method; all when there is none")
    arguments = parser.parse_args()
    Settings.program = os.path.abspath(arguments.program)
    Settings.tool = os.path.abspath(arguments.tool) if arguments.tool else ""
    Settings.directory = os.path.abspath(arguments.directory) if arguments.directory else ""
    Settings.sanitized = arguments.sanitized

    module = sys.modules["__main__"]
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(arguments.cases, module) if arguments.cases else loader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    if not result.wasSuccessful() or result.testsRun == 0:
        sys.exit(1)
    for case, reason in result.skipped:
        print(f"{case.id()}: Skipped\n{reason}\n\n")
    sys.exit(EXIT_SKIPPED if result.skipped else 0)
