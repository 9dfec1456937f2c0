# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the real server during a stream of puts and deletes: what was acknowledged is there and right, nothing is half there."""

import collections
import json
import random
import subprocess
import time

import forebay_process
from forebay_process import ForebayTest, Settings, report, seed, sized


class CrashTest(ForebayTest):
    WRITERS = 8

    def test_kill_9_during_a_stream_of_puts(self):
        rounds = sized(50, 8)
        chosen = seed()
        dice = random.Random(chosen)
        self.acknowledged = collections.Counter()
        self.present = set()  # must be there
        self.open = set()  # a delete was sent and not acknowledged: there or not
        self.absent = set()  # must not be there

        server = self.start_server(size="4GiB")
        self.forebay("bucket", "create", "box")
        for number in range(1, rounds + 1):
            prefix = f"round-{number:02}"
            self.write_until_killed(server, prefix, chosen, stop_after=dice.randint(1, sized(250, 80)))
            whole = number % 10 == 0 or number == rounds
            if whole:
                self.forebay("fsck", server.store, "--data")
            server.start()
            self.check(server, chosen, "" if whole else prefix)
        server.kill()
        self.forebay("fsck", server.store, "--data")
        report("rounds of kill -9", rounds, "")
        report("acknowledged puts", self.acknowledged["put"], "")
        report("acknowledged deletes", self.acknowledged["deleted"], "")

    def write_until_killed(self, server, prefix, chosen, stop_after):
        writer = self.start_tool("write", *self.connection(server), "--bucket", "box", "--prefix", prefix,
                                 "--writers", self.WRITERS, "--seed", chosen, stdout=subprocess.PIPE)
        lines = []
        while len(lines) < stop_after:
            line = writer.stdout.readline()
            if not line:
                break
            lines.append(line)
        server.kill()
        lines += writer.stdout.readlines()
        self.assertEqual(writer.wait(60), 0)
        for line in lines:
            what, key = line.decode().split(maxsplit=1)
            key = key.rstrip("\n")
            self.acknowledged[what] += 1
            if what == "put":
                self.present.add(key)
            elif what == "deleting":
                self.present.discard(key)
                self.open.add(key)
            elif what == "deleted":
                self.open.discard(key)
                self.absent.add(key)
            else:
                self.assertRegex(key, r"\A(UNAVAILABLE|DEADLINE_EXCEEDED) ", "the only thing that went wrong is that the server died")
        self.assertEqual(self.acknowledged["stopped"] % self.WRITERS, 0, "each writer was stopped by the kill")

    def check(self, server, chosen, prefix):
        right = set()
        for line in self.tool("audit", *self.connection(server), "--bucket", "box", "--prefix", prefix, "--seed", chosen).lines:
            what, key = line.split(maxsplit=1)
            self.assertIn(what, ("right", "listed"), line)
            if what == "right":
                right.add(key)
        present = {key for key in self.present if key.startswith(prefix)}
        self.assertEqual(present - right, set(), "acknowledged and lost")
        self.assertEqual(right & self.absent, set(), "deleted and there again")


class RenameCrashTest(ForebayTest):
    PREFIXES = ("a/", "b/")

    def checksums(self):
        """What is there: the prefix of all keys, and the checksum of each by the rest of its key."""
        prefixes, found = set(), {}
        for line in self.forebay("ls", "-r", "many", "--json").lines:
            item = json.loads(line)
            prefixes.add(item["key"][:2])
            found[item["key"][2:]] = item["crc32c"]
        self.assertEqual(len(prefixes), 1, "a part of the objects was renamed")
        return prefixes.pop(), found

    def test_kill_9_during_the_rename_of_a_prefix(self):
        count, rounds = sized(10_000, 1_000), sized(5, 3)
        dice = random.Random(seed())
        server = self.start_server(size="1GiB")
        self.forebay("bucket", "create", "many")
        self.tool("load", *self.connection(server), "--bucket", "many", "--count", count, "--size", 1000, "--seed", 1,
                  "--prefix", "a/")
        prefix, expected = self.checksums()
        self.assertEqual(len(expected), count)
        started = time.monotonic()
        self.forebay("mv", "-r", "many/a/", "many/b/")
        took = time.monotonic() - started
        report(f"renaming {count} objects", took, "s")
        outcomes = collections.Counter()
        for _ in range(rounds):
            prefix, found = self.checksums()
            self.assertEqual(found, expected)
            other = self.PREFIXES[prefix == self.PREFIXES[0]]
            renamer = subprocess.Popen(
                [Settings.program, "mv", "-r", f"many/{prefix}", f"many/{other}"], env=self.environment,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(self._end, renamer)
            try:
                renamer.wait(dice.uniform(0, 1.5 * took))
            except subprocess.TimeoutExpired:
                pass
            server.kill()
            acknowledged = renamer.wait(60) == 0
            server.start()
            now, found = self.checksums()
            self.assertEqual(found, expected)
            if acknowledged:
                self.assertEqual(now, other, "acknowledged and undone")
            outcomes["new" if now == other else "old"] += 1
        server.kill()
        self.forebay("fsck", server.store, "--data")
        report("rounds that ended with the old names", outcomes["old"], "")
        report("rounds that ended with the new names", outcomes["new"], "")


if __name__ == "__main__":
    forebay_process.main()
