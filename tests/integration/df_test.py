# SPDX-License-Identifier: Apache-2.0
"""`forebay df`: what an operator asks when space runs out, on stores with room, of two devices, and full."""

import re

import forebay_process
from forebay_process import KIB, MIB, ForebayTest

UNIT = 4 * KIB


class DfTest(ForebayTest):
    def df(self):
        """The data rows, the metadata and the total."""
        rows = self.forebay("df", "--json").json_lines
        self.assertEqual([row["what"] for row in rows[-2:]], ["metadata", "total"])
        for row in rows[:-2]:
            self.assertEqual(row["what"], "data")
            self.assertEqual(row["free_bytes"], row["capacity_bytes"] - row["used_bytes"])
        return rows[:-2], rows[-2], rows[-1]

    def put(self, name, size, **more):
        return self.forebay("put", "-", name, input=size * b"x", **more)


class SpaceTest(DfTest):
    def test_of_two_devices_the_numbers_follow_puts_and_deletes(self):
        paths = [str(self.directory / name) for name in ("one", "two")]
        server = self.start_server(size="64MiB", options=("--device", paths[0], "--device", paths[1]))
        self.forebay("bucket", "create", "box")
        data, metadata, total = self.df()
        self.assertEqual([device["path"] for device in data], paths)
        self.assertEqual([device["capacity_bytes"] for device in data], [63 * MIB] * 2, "without the heads")
        self.assertEqual((total["used_bytes"], total["objects"], total["object_bytes"]), (0, 0, 0))
        self.assertEqual((total["state"], total["advice"], total["read_only_reason"]), ("ok", "", ""))
        self.assertEqual(metadata["path"], str(server.store / "meta"))
        self.assertEqual((metadata["reserve_bytes"], metadata["below_reserve"]), (64 * MIB, False))
        self.assertGreater(metadata["used_bytes"], 0)

        self.put("box/a", 100_000)
        self.put("box/b", 3 * MIB)
        self.put("box/in-the-metadata", 100)
        data, _, total = self.df()
        self.assertEqual((total["objects"], total["object_bytes"]), (3, 100_100 + 3 * MIB))
        self.assertEqual(total["used_bytes"], 25 * UNIT + 3 * MIB)
        self.assertEqual(sum(device["used_bytes"] for device in data), total["used_bytes"])
        self.assertEqual(sum(device["capacity_bytes"] for device in data), total["capacity_bytes"])
        self.assertTrue(all(device["used_bytes"] > 0 for device in data), "they take turns")

        self.forebay("rm", "box/b")
        _, _, total = self.df()
        self.assertEqual((total["used_bytes"], total["objects"], total["object_bytes"]), (25 * UNIT, 2, 100_100))

        table = self.forebay("df").lines
        self.assertRegex(table[0], r"\A +capacity +used +free +use% +state +path\Z")
        for line, path in zip(table[1:3], paths):
            self.assertRegex(line, r"\Adata +63\.0 MiB .* ok +" + re.escape(path) + r"\Z")
        self.assertRegex(table[3], r"\Atotal +126\.0 MiB +100\.0 KiB +125\.9 MiB +0\.1% +ok +2 devices\Z")
        self.assertRegex(table[4], r"\Ametadata +- .* ok +" + re.escape(metadata["path"]) + r"\Z")
        self.assertEqual(
            table[5:], ["2 objects of 97.8 KiB; 64.0 MiB of the metadata's file system are kept for deletes"])

        server.restart()
        self.assertEqual(self.df()[2]["used_bytes"], 25 * UNIT)

    def test_it_is_not_for_tenants(self):
        self.start_server(size="64MiB")
        self.forebay("tenant", "create", "alice")
        cap = self.directory / "cap"
        rights = ("--rights", "get,put,list,delete,admin")
        cap.write_bytes(self.forebay("cap", "issue", "--tenant", "alice", *rights, "--ttl", "10m").bytes)
        for options in ((), ("--json",)):
            self.fails("--cap", cap, "df", *options, saying="the right `admin` on the whole server is missing")
        self.fails("--server", "127.0.0.1:1", "df", saying="127.0.0.1:1")


class FullTest(DfTest):
    def fill(self, prefix):
        """Puts until not even 64 KiB fit; the names."""
        names = []
        for size in (8 * MIB, MIB, 64 * KIB):
            while True:
                name = f"box/{prefix}-{len(names)}"
                done = self.put(name, size, status=None)
                if done.status != 0:
                    break
                names.append(name)
                self.assertLess(len(names), 100, "63 MiB hold fewer")
            self.assertEqual(done.status, 1)
            self.assertRegex(done.errors, r"\Aforebay: [^\n]*the data devices are full [^\n]*: delete objects[^\n]*\n")
            self.fails("stat", name, saying=name)
        return names

    def test_a_full_store_says_so_and_takes_deletes_and_then_puts_three_times(self):
        server = self.start_server(size="64MiB")
        self.forebay("bucket", "create", "box")
        for round_number in range(3):
            names = self.fill(round_number)
            _, metadata, full = self.df()
            self.assertGreaterEqual(full["used_percent"], 95)
            self.assertIn(full["state"], ("nearly full", "full"))
            self.assertEqual(metadata["state"], "ok")
            self.assertIn("delete objects (deletes always work)", full["advice"])
            self.assertEqual(self.forebay("df").lines[-1], full["advice"])
            self.assertEqual(full["objects"], len(names))

            self.forebay("rm", names[0])
            _, _, now = self.df()
            self.assertEqual(now["used_bytes"], full["used_bytes"] - 8 * MIB)
            self.assertEqual((now["state"], now["advice"]), ("ok", ""))
            self.put("box/again", 8 * MIB)
            self.assertEqual(self.df()[2]["used_bytes"], full["used_bytes"])
            for name in (*names[1:], "box/again"):
                self.forebay("rm", name)
            self.assertEqual(self.df()[2]["used_bytes"], 0)
        self.put("box/last", MIB)
        self.assertEqual(server.terminate(), 0)
        report = self.forebay("fsck", "--data", server.store, "--json").json
        self.assertEqual((report["clean"], report["used_bytes"], report["objects"]), (True, MIB, 1))


if __name__ == "__main__":
    forebay_process.main()
