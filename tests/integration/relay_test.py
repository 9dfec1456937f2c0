# SPDX-License-Identifier: Apache-2.0
"""A relay: `forebay serve --backend remote:HOST`. What goes in through it is on the server behind it, and the other way round."""

import hashlib
import threading

import forebay_process
from forebay_process import MIB, ForebayTest, sha256_of, sized, wait_until, write_file


class RelayTest(ForebayTest):
    def setUp(self):
        super().setUp()
        self.behind = self.start_server("behind", size="1GiB", options=("--no-profile",))
        self.relay = self.make_relay().start()

    def make_relay(self, **options):
        return self.make_server(
            "relay", size=None,
            options=("--no-profile", "--backend", f"remote:{self.behind.control}", "--credentials", self.behind.credentials),
            **options)

    def at(self, server, *arguments, **options):
        """A command against one of the servers."""
        return self.forebay("--server", server.control, "--credentials", server.credentials, *arguments, **options)

    def test_bytes_go_through_and_are_the_same_on_both_sides(self):
        self.at(self.relay, "bucket", "create", "box")
        source, target = self.directory / "source", self.directory / "target"
        for size in (0, 1, 4097, 3 * MIB + 5, sized(200, 40) * MIB):
            digest = write_file(source, size, seed_value=size)
            self.at(self.relay, "put", source, "box/through")
            self.at(self.behind, "get", "box/through", target)
            self.assertEqual(sha256_of(target), digest)
            self.at(self.behind, "put", source, "box/direct")
            self.at(self.relay, "get", "box/direct", target)
            self.assertEqual(sha256_of(target), digest)
        there = self.at(self.behind, "stat", "box/through", "--json").json
        self.assertEqual(self.at(self.relay, "stat", "box/through", "--json").json, there)

    def test_what_is_not_bytes_goes_through_too(self):
        relay = self.relay
        self.at(relay, "bucket", "create", "box")
        self.at(relay, "put", "-", "box/a", "--metadata", "n=v", input=b"hello")
        self.at(relay, "put", "-", "box/a", "--append", input=b" world")
        self.at(relay, "put", "-", "box/a", "--offset", "0", input=b"J")
        self.assertEqual(self.at(self.behind, "cat", "box/a").text, "Jello world")
        self.at(relay, "truncate", "box/a", "5")
        self.at(relay, "attr", "set", "box/a", "tag=blue")
        self.assertEqual(self.at(self.behind, "attr", "show", "box/a").text, "tag=blue\n")
        self.at(relay, "cp", "box/a", "box/b")
        self.at(relay, "mv", "box/b", "box/c")
        self.assertEqual(self.at(self.behind, "cat", "box/c").text, "Jello")
        self.at(relay, "bucket", "set", "box", "--versioning", "on")
        self.at(relay, "put", "-", "box/a", input=b"second")
        self.at(relay, "rm", "box/a")
        rows = self.at(relay, "ls", "--versions", "box/a", "--json").json_lines
        self.assertEqual([row["delete_marker"] for row in rows], [True, False, False])
        self.assertEqual(rows, self.at(self.behind, "ls", "--versions", "box/a", "--json").json_lines)
        self.assertEqual(self.at(relay, "cat", "box/a", "--version", rows[2]["version"]).text, "Jello")
        source = self.directory / "source"
        digest = write_file(source, 9 * MIB + 1, seed_value=5)
        self.at(relay, "put", source, "box/parts", "--parts", "4")
        self.assertEqual(hashlib.sha256(self.at(self.behind, "cat", "box/parts").bytes).hexdigest(), digest)
        self.assertEqual(self.at(self.behind, "upload", "ls", "box").text, "")

    def test_the_server_behind_may_be_killed_and_come_back(self):
        self.behind.kill()
        self.behind.command[self.behind.command.index("--listen") + 1] = self.behind.control
        self.behind.start()  # at the same address from now on
        self.at(self.relay, "bucket", "create", "box")
        stop = threading.Event()
        stored, failures = [], []

        def put():
            while not stop.is_set():
                key = f"box/{len(stored) + len(failures)}"
                content = key.encode() * 1000
                done = self.at(self.relay, "put", "-", key, input=content, status=None)
                if done.status == 0:
                    stored.append((key, content))
                else:
                    failures.append(done.errors)

        writer = threading.Thread(target=put)
        writer.start()
        try:
            for _ in range(2):
                before = len(stored)
                wait_until(lambda before=before: len(stored) > before + 3, "some puts", within_s=60)
                self.behind.kill()
                self.behind.start()
            before = len(stored)
            wait_until(lambda: len(stored) > before + 3, "puts after the restart", within_s=60)
        finally:
            stop.set()
            writer.join()
        for failure in failures:  # such as may be tried again
            self.assertRegex(failure, "tried|cannot be sent again|answer|connection|stopping|lost|closed|time")
        for key, content in stored:
            self.assertEqual(self.at(self.behind, "cat", key).bytes, content, key)

    def test_the_relay_keeps_its_own_records_and_nothing_else(self):
        """Capabilities are the relay's; tenants are not to be had there."""
        self.at(self.relay, "bucket", "create", "box")
        self.at(self.relay, "put", "-", "box/a", input=b"hello")
        cap = self.directory / "cap"
        cap.write_bytes(self.at(self.relay, "cap", "issue", "--bucket", "box", "--rights", "get", "--ttl", "10m").bytes)
        cap.chmod(0o600)
        use = ("--server", self.relay.control, "--cap", cap)
        self.assertEqual(self.forebay(*use, "cat", "box/a").text, "hello")
        refused = self.forebay(*use, "put", "-", "box/a", input=b"x", status=1)
        self.assertIn("put", refused.errors)
        self.at(self.relay, "cap", "revoke", cap)
        self.relay.restart()
        self.assertIn("revoked", self.forebay("--server", self.relay.control, "--cap", cap, "cat", "box/a", status=1).errors)
        self.assertEqual(self.at(self.relay, "cat", "box/a").text, "hello")
        refused = self.at(self.relay, "tenant", "create", "alice", status=1)
        self.assertIn("see to them there", refused.errors)
        self.assertEqual(self.at(self.behind, "tenant", "ls", "--json").json_lines, [])

    def test_a_relay_to_nowhere_says_so(self):
        self.relay.terminate()
        self.behind.kill()
        with self.assertRaises(SystemError) as caught:
            self.relay.start()
        self.assertIn("no Forebay server answers at", str(caught.exception))

    def test_options_of_the_engine_are_refused(self):
        for option in (("--size", "1GiB"), ("--device", "/dev/null"), ("--backup-directory", "/tmp")):
            refused = self.forebay("--credentials", self.behind.credentials, "serve", self.directory / "no", "--backend",
                                   f"remote:{self.behind.control}", *option, status=2)
            self.assertIn(option[0], refused.errors)
        self.assertIn("remote:HOST", self.forebay("serve", self.directory / "no", "--backend", "tape:1", status=2).errors)
        self.assertFalse((self.directory / "no").exists())


if __name__ == "__main__":
    forebay_process.main()
