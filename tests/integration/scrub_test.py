# SPDX-License-Identifier: Apache-2.0
"""`forebay scrub`: finds what rots under a running server, names it, and goes on where it was."""

import hashlib
import os

import forebay_process
from forebay_process import KIB, MIB, ForebayTest, pieces, wait_until


class ScrubTest(ForebayTest):
    def start(self, **options):
        server = self.start_server(**options)
        self.at = ["--server", server.control, "--credentials", server.credentials]
        self.forebay("bucket", "create", "box")
        return server

    def put(self, key, size, number):
        content = b"".join(pieces(size, number))
        self.forebay("put", "-", f"box/{key}", input=content)
        return content

    def status(self, status=0):
        return self.forebay(*self.at, "scrub", "status", "--json", status=status).json_lines

    def damage(self, server, content, at):
        """Flips a bit of the block of `content` that has byte `at`, on the drive."""
        with open(server.store / "data0", "r+b") as data:
            whole = data.read()
            place = whole.index(content[at:at + 64])
            data.seek(place)
            data.write(bytes([content[at] ^ 1]))
            data.flush()
            os.fsync(data.fileno())
        return place // 4096

    def test_damage_under_a_running_server_is_named(self):
        server = self.start()
        self.assertEqual(self.status()[0]["phase"], "never")
        self.put("sound", 300 * KIB, 1)
        content = self.put("rotten", 3 * MIB, 2)
        self.forebay("cp", "box/rotten", "box/copy")
        first = self.forebay(*self.at, "scrub", "start", "--rate", "0", "--wait", "--json").json_lines
        self.assertEqual(first[0]["phase"], "finished")
        self.assertGreaterEqual(first[0]["verified_bytes"], 3 * MIB + 300 * KIB)
        self.assertEqual(first[0]["damaged_blocks"], 0)

        at = 2 * MIB + 100
        unit = self.damage(server, content, at)
        found = self.forebay(*self.at, "scrub", "start", "--rate", "0", "--wait", "--json", status=1).json_lines
        self.assertEqual(found[0]["damaged_blocks"], 1)
        self.assertEqual([line["damaged"].split("`")[1] for line in found[1:]], ["box/copy", "box/rotten"])
        for line in found[1:]:
            self.assertTrue(line["offset"] <= at < line["offset"] + 64 * KIB, line)
            self.assertTrue(line["unit"] <= unit < line["unit"] + 16, line)
            self.assertEqual(line["device"], str(server.store / "data0"))
        self.assertEqual(self.status(status=1), found)
        text = self.forebay(*self.at, "scrub", "status", status=1).text
        self.assertIn("1 blocks damaged, 0 repaired", text)
        self.assertIn("object `box/copy` (version ", text)

        # The report is there after a restart; a new pass finds what is left.
        server.restart()
        self.at[1] = server.control
        self.assertEqual(self.status(status=1), found)
        self.forebay("rm", "box/copy")
        self.forebay("rm", "box/rotten")
        self.assertEqual(self.forebay(*self.at, "scrub", "start", "--wait", "--json").json["damaged_blocks"], 0)
        self.assertEqual(server.terminate(), 0)
        self.forebay("fsck", server.store, "--data")

    def test_goes_on_after_a_stop_and_after_a_kill(self):
        server = self.start()
        content = self.put("large", 40 * MIB, 3)
        self.forebay(*self.at, "scrub", "start", "--rate", "2MiB")
        wait_until(lambda: self.status()[0]["passed_bytes"] > 0, "the first extents")
        self.fails(*self.at, "scrub", "start", saying="a scrub is running")
        self.forebay(*self.at, "scrub", "stop")
        stopped = self.status()[0]
        self.assertEqual(stopped["phase"], "stopped")
        server.restart()
        self.at[1] = server.control
        after = self.status()[0]
        self.assertEqual(after["phase"], "stopped")
        self.assertGreaterEqual(after["passed_bytes"], stopped["passed_bytes"])
        self.forebay(*self.at, "scrub", "start", "--rate", "1MiB")
        wait_until(lambda: self.status()[0]["passed_bytes"] > after["passed_bytes"], "that it goes on, which is written down")
        server.kill()
        server.start()
        self.at[1] = server.control
        self.assertEqual(self.status()[0]["phase"], "running", "it goes on by itself")
        self.assertEqual(hashlib.sha256(self.forebay("cat", "box/large").bytes).digest(), hashlib.sha256(content).digest())
        self.assertEqual(server.terminate(within_s=20), 0, "a scrub does not hold up the end")
        server.start()
        self.at[1] = server.control
        self.assertEqual(self.status()[0]["phase"], "running")
        self.forebay(*self.at, "scrub", "stop")
        done = self.forebay(*self.at, "scrub", "start", "--rate", "0", "--wait", "--json").json
        self.assertEqual(done["phase"], "finished")
        self.assertEqual(done["verified_bytes"], 40 * MIB)

    def test_a_schedule_and_who_may(self):
        server = self.start(options=["--scrub-every", "30d", "--scrub-rate", "0"])
        wait_until(lambda: self.status()[0]["phase"] == "finished", "the first pass, by itself")
        started = self.status()[0]["started"]
        server.restart()
        self.at[1] = server.control
        self.assertEqual(self.status()[0]["started"], started, "the next one is in thirty days")
        self.fails("serve", server.store, "--scrub-every", "soon", status=2, saying="--scrub-every")
        self.fails(*self.at, "scrub", "start", "--rate", "fast", status=2, saying="--rate")
        capability = self.directory / "capability"
        rights = "get,put,list,delete,admin"
        capability.write_bytes(
            self.forebay("cap", "issue", "--bucket", "box", "--rights", rights, "--ttl", "1h", *self.at).bytes)
        for what in ("start", "status", "stop"):
            self.fails("--server", server.control, "--cap", capability, "scrub", what,
                       saying="the right `admin` on the whole server")


if __name__ == "__main__":
    forebay_process.main()
