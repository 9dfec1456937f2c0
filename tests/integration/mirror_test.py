# SPDX-License-Identifier: Apache-2.0
"""Mirrored drives: a side that is corrupted, deleted or absent costs no client anything, and can be replaced."""

import os
import random
import subprocess
import threading

import forebay_process
from forebay_process import KIB, MIB, ForebayTest, pieces, sha256_of, sized, wait_until


class MirrorTest(ForebayTest):
    def start(self, size="256MiB", **options):
        self.sides = [self.directory / "left", self.directory / "right"]
        return self.start_server(
            size=size, options=("--device", str(self.sides[0]), "--mirror", str(self.sides[1])), **options)

    def device(self):
        return self.forebay("df", "--json").json_lines[0]

    def wait_until_whole(self):
        wait_until(lambda: self.device()["state"] == "ok", "both sides are up to date", within_s=120)

    def put(self, name, size, seed):
        content = b"".join(pieces(size, seed))
        self.forebay("put", "-", name, input=content)

    def digests(self, names):
        out = {}
        for name in names:
            self.forebay("get", name, self.directory / "got")
            out[name] = sha256_of(self.directory / "got")
        return out

    def load(self, count=6):
        self.forebay("bucket", "create", "box")
        names = [f"box/{number}" for number in range(count)]
        for number, name in enumerate(names):
            self.put(name, (3 * MIB + 5, 64 * KIB, 5000)[number % 3], number)
        return self.digests(names)

    def test_a_side_deleted_under_load_is_noticed_replaced_and_brought_up_to_date(self):
        server = self.start()
        before = self.load()
        self.assertEqual(self.device()["state"], "ok")
        writer = self.start_tool("write", *self.connection(server), "--bucket", "box", "--prefix", "busy", "--writers", 4,
                                 "--seed", 3, stdout=subprocess.PIPE, text=True)
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(writer.stdout))
        reader.start()
        wait_until(lambda: len(lines) > 20, "writers write")
        os.unlink(self.sides[1])
        wait_until(lambda: self.device()["state"] == "degraded", "the lost side is noticed")
        self.assertIn(f"{self.sides[1]} is lost", self.device()["detail"])
        self.assertIn("was deleted", self.device()["detail"])
        seen = len(lines)
        wait_until(lambda: len(lines) > seen + 20, "writers go on")
        self.fails("device", "replace", self.sides[0], self.directory / "other", saying="is in use")
        self.fails("device", "replace", self.sides[1], "/elsewhere/other", saying="no device")
        self.fails("device", "replace", self.directory / "nobody", self.directory / "other", saying="has no device")
        self.forebay("device", "replace", self.sides[1], self.directory / "new")
        self.wait_until_whole()
        seen = len(lines)
        wait_until(lambda: len(lines) > seen + 20, "writers go on")
        self.assertIsNone(writer.poll(), "no client had an error")
        writer.terminate()
        writer.wait(60)
        reader.join()
        self.assertEqual(self.digests(before), before)
        self.assertTrue(self.device()["path"].endswith(f" + {self.directory / 'new'}"))

        # The other side alone has everything now.
        server.kill()
        os.unlink(self.sides[0])
        server.start()
        self.assertEqual(self.device()["state"], "degraded")
        self.assertEqual(self.digests(before), before)
        self.forebay("device", "replace", self.sides[0], self.sides[0])
        self.wait_until_whole()
        server.terminate()
        self.forebay("fsck", server.store, "--data")

    def test_blocks_that_are_wrong_on_one_side_are_read_right_and_repaired(self):
        server = self.start(memory="32MiB")
        before = self.load(count=sized(24, 9))
        server.terminate()
        choice = random.Random(5)
        with open(self.sides[0], "r+b") as left:
            for unit in range(256, 256 + 24 * MIB // (4 * KIB)):
                if choice.random() < 0.5:
                    left.seek(unit * 4 * KIB)
                    left.write(choice.randbytes(4 * KIB))
        server.start()
        self.assertEqual(self.digests(before), before)
        server.terminate()
        self.assertIn("it was written again from the other", server.log_tail(100_000))
        self.assertNotIn("is damaged", server.log_tail(100_000))

    def test_a_second_copy_is_never_only_believed_in(self):
        server = self.start_server(size="64MiB")
        server.terminate()
        refused = self.forebay("serve", server.store, "--listen", "127.0.0.1:0", "--no-profile", "--mirror",
                               self.directory / "late", status=1)
        self.assertIn("was made without mirrors", refused.errors)
        self.assertFalse((self.directory / "late").exists())
        self.fails("serve", server.store, "--scrub-rate", "1MiB", saying="--scrub-every", status=2)

    def test_a_side_that_was_away_comes_back(self):
        server = self.start()
        before = self.load()
        server.terminate()
        os.rename(self.sides[0], self.directory / "away")
        server.start()
        self.put("box/later", 2 * MIB, 99)
        before.update(self.digests(["box/later"]))
        self.assertEqual(self.device()["state"], "degraded")
        server.kill()
        os.rename(self.directory / "away", self.sides[0])
        server.start()
        self.wait_until_whole()
        server.terminate()
        # Alone, it has what was written while it was away.
        os.rename(self.sides[1], self.directory / "away")
        server.start()
        self.assertEqual(self.digests(before), before)
        server.terminate()
        os.rename(self.directory / "away", self.sides[1])
        os.rename(self.sides[0], self.directory / "left-away")
        refused = self.forebay("serve", server.store, "--listen", "127.0.0.1:0", "--no-profile", status=1)
        self.assertIn("that has everything is not there", refused.errors)
        self.assertIn(f"remove {server.store / 'mirrors'}", refused.errors)


class DevicesTest(ForebayTest):
    def devices(self):
        return [row for row in self.forebay("df", "--json").json_lines if row["what"] == "data"]

    def test_a_store_moves_from_one_device_to_another_while_it_serves(self):
        server = self.start_server(size="128MiB")
        self.forebay("bucket", "create", "box")
        content = {f"box/{number}": b"".join(pieces(size, number))
                   for number, size in enumerate((5 * MIB + 1, 300 * KIB, 5000, 100))}
        for name, data in content.items():
            self.forebay("put", "-", name, input=data)
        first = server.store / "data0"
        self.fails("device", "drain", first, saying="is the only device")
        self.fails("device", "add", "/elsewhere/data1", saying="no device")
        self.fails("device", "add", "data1", "--size", "many", status=2, saying="--size takes")
        added = self.forebay("device", "add", server.store / "data1", "--size", "64MiB", "--json").json
        self.assertEqual(added, {"added": str(server.store / "data1")})
        self.assertEqual([row["capacity_bytes"] for row in self.devices()], [127 * MIB, 63 * MIB])
        self.fails("device", "remove", first, saying="empty it before")
        self.forebay("device", "drain", first)
        wait_until(lambda: self.devices()[0]["used_bytes"] == 0, "everything has moved")
        self.assertEqual(self.devices()[0]["state"], "draining")
        self.assertIn("take it out with: forebay device remove", self.devices()[0]["detail"])
        self.forebay("device", "remove", first)
        self.assertEqual([row["path"] for row in self.devices()], [str(server.store / "data1")])
        self.forebay("put", "-", "box/later", input=b"later" * 2000)
        content["box/later"] = b"later" * 2000
        server.kill()
        first.unlink()
        server.start()
        for name, data in content.items():
            self.assertEqual(self.forebay("cat", name).bytes, data)
        server.terminate()
        self.assertIn("removed0", (server.store / "store.toml").read_text())
        self.forebay("fsck", server.store, "--data")


if __name__ == "__main__":
    forebay_process.main()
