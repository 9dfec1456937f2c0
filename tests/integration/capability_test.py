# SPDX-License-Identifier: Apache-2.0
"""Capabilities as their users meet them: issued by one command, used by another, refused, expired, revoked."""

import random
import stat
import subprocess
import time

import forebay_process
from forebay_process import MIB, ForebayTest, pieces, seed, sized, wait_until


class CapabilityTest(ForebayTest):
    """A server with objects box/p/x and box/q/x, and a capability for get on box/p/ in the file `cap`."""

    def setUp(self):
        super().setUp()
        self.server = self.start_server(size="1GiB")
        self.forebay("bucket", "create", "box")
        for key in ("p/x", "q/x"):
            self.forebay("put", "-", f"box/{key}", input=b"content of " + key.encode())
        self.cap = self.directory / "cap"

    def issue(self, *options, into=None, rights="get", prefix="p/", ttl="60s"):
        into = into or self.cap
        done = self.forebay("cap", "issue", "--bucket", "box", "--prefix", prefix, "--rights", rights, "--ttl", ttl, *options)
        into.write_bytes(done.bytes)
        return into

    def with_cap(self, *command, cap=None, **more):
        return self.forebay("--cap", str(cap or self.cap), *command, **more)

    def refused(self, *command, saying, cap=None, **more):
        self.fails("--cap", str(cap or self.cap), *command, saying=saying, **more)


class UseTest(CapabilityTest):
    def test_it_allows_what_it_says_and_names_the_missing_right(self):
        self.issue()
        target = self.directory / "out"
        self.with_cap("get", "box/p/x", str(target))
        self.assertEqual(target.read_bytes(), b"content of p/x")
        self.refused("get", "box/q/x", str(target), saying="the right `get` on `box/q/x` is missing")
        self.refused("put", "-", "box/p/y", input=b"y", saying="the right `put` on `box/p/y` is missing")
        self.refused("put", "-", "box/p/y", input=bytes(5 * MIB), saying="the right `put` on `box/p/y` is missing")
        self.refused("ls", "box/q/", saying="the right `list` on `box/q/*` is missing")
        self.refused("rm", "box/p/x", saying="the right `delete` on `box/p/x` is missing")
        self.assertEqual(self.forebay("cat", "box/p/x").bytes, b"content of p/x")

    def test_a_changed_byte_anywhere_is_refused(self):
        text = self.issue().read_bytes()
        changed = self.directory / "changed"
        number = seed()
        chosen = random.Random(number)
        # Every byte is changed in auth.CapabilityTest; here a few, through the program.
        for at in [0, 6, 7, len(text) - 2, len(text) - 1] + [chosen.randrange(len(text)) for _ in range(sized(20, 5))]:
            other = bytearray(text)
            other[at] ^= 1 << chosen.randrange(7)
            changed.write_bytes(other)
            self.refused("cat", "box/p/x", cap=changed, saying="a changed one")

    def test_a_file_made_by_the_shell_is_closed_to_others(self):
        path = self.directory / "shell"
        command = f"umask 022; {forebay_process.Settings.program} cap issue --rights get --ttl 60s > {path}"
        subprocess.run(["sh", "-c", command], env=self.environment, check=True, timeout=60)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode) & 0o077, 0)
        self.with_cap("cat", "box/q/x", cap=path)

    def test_it_is_narrowed_without_a_server(self):
        self.issue(rights="get,list")
        self.server.terminate()
        narrow = self.directory / "narrow"
        narrow.write_bytes(self.forebay("cap", "narrow", str(self.cap), "--prefix", "p/x", "--rights", "get").bytes)
        shown = self.forebay("cap", "show", str(narrow), "--json").json
        self.assertEqual((shown["bucket"], shown["prefix"], shown["rights"]), ("box", "p/x", "get"))
        for more in (["--rights", "put"], ["--prefix", "q/"], ["--bucket", "other"], ["--ttl", "7d"]):
            self.fails("cap", "narrow", str(narrow), *more, saying="capability")
        self.assertEqual((shown["bytes_per_s"], shown["operations_per_s"], shown["transfers"]), (0, 0, 0))
        limited = self.directory / "limited"
        limited.write_bytes(self.forebay("cap", "narrow", str(narrow), "--rate", "8MiB", "--operations", "5").bytes)
        child = self.directory / "child"
        child.write_bytes(self.forebay("cap", "narrow", str(limited), "--operations", "4", "--rate", "0", "--transfers", "2").bytes)
        self.assertTrue(self.forebay("cap", "show", str(child)).lines[-1].endswith(
            "; at most 8.0 MiB/s, 4 operations/s, 2 transfers at once"), "what is not named, or 0, stays")
        for more in (["--rate", "9MiB"], ["--operations", "5"], ["--transfers", "3"]):
            self.fails("cap", "narrow", str(child), *more, saying="rates")
        self.fails("cap", "narrow", str(child), "--rate", "fast", status=2, saying=["--rate", "fast"])
        self.server.start()
        self.assertEqual(self.with_cap("cat", "box/p/x", cap=narrow).bytes, b"content of p/x")
        self.refused("ls", "box/p/", cap=narrow, saying="the right `list`")

    def test_it_expires(self):
        self.issue(ttl="1s")
        wait_until(lambda: self.with_cap("stat", "box/p/x", status=None).status != 0, "the capability expires")
        self.refused("stat", "box/p/x", saying="expired")

    def test_wrong_usage_is_refused(self):
        for command, saying in [
            (["cap", "issue", "--rights", "write", "--ttl", "60s"], "`write` is no right"),
            (["cap", "issue", "--rights", "get", "--ttl", "60"], "--ttl 60"),
            (["cap", "issue", "--rights", "get", "--ttl", "60s", "--rate", "fast"], "--rate fast"),
            (["cap", "revoke"], "an id or file"),
        ]:
            self.fails(*command, saying=saying, status=2)
        self.issue()
        self.refused("--credentials", self.server.credentials, "ls", saying="give one")


class RevocationTest(CapabilityTest):
    def test_what_was_revoked_stays_so_over_a_restart(self):
        self.issue()
        self.with_cap("cat", "box/p/x")
        shown = self.forebay("cap", "ls", "--json").json
        self.forebay("cap", "revoke", shown["id"])
        self.refused("cat", "box/p/x", saying="revoked")
        self.server.restart()
        self.refused("cat", "box/p/x", saying="revoked")
        self.assertTrue(self.forebay("cap", "ls", "--json").json["revoked"])

    def test_a_transfer_under_way_stops(self):
        """A get of 3 GiB into a pipe that is not read while it is revoked: then little more comes, and an error."""
        size = sized(3072, 512) * MIB
        self.need_disk(size + 2048 * MIB)
        store = self.start_server("large", size="4GiB")
        self.forebay("bucket", "create", "box")
        with subprocess.Popen([forebay_process.Settings.program, "put", "-", "box/p/large"], env=self.environment,
                              stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as put:
            for piece in pieces(size, seed_value=1):
                put.stdin.write(piece)
            put.stdin.close()
            self.assertEqual(put.wait(timeout=300), 0)
        self.issue(ttl="10m")
        cat = self.start_command("--cap", self.cap, "cat", "box/p/large", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        received = len(cat.stdout.read(64 * MIB))
        self.assertEqual(received, 64 * MIB)
        self.forebay("cap", "revoke", self.cap)
        revoked = time.monotonic()
        while chunk := cat.stdout.read1(MIB):
            received += len(chunk)
        forebay_process.report("end after revocation", time.monotonic() - revoked, "s")
        self.assertNotEqual(cat.wait(timeout=60), 0)
        # What was in the client's buffers and under way when the server stopped.
        self.assertLess(received, size // 2)
        self.assertIn("revoked", cat.stderr.read().decode())
        self.assertTrue(store.running())


if __name__ == "__main__":
    forebay_process.main()
