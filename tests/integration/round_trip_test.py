# SPDX-License-Identifier: Apache-2.0
"""Bytes that go in by `forebay put` come out by `forebay get`: every size, files and pipes, and ranges at every edge."""

import hashlib
import subprocess

import forebay_process
from forebay_process import GIB, KIB, MIB, ForebayTest, pieces, sha256_of, sized, write_file


class RoundTripTest(ForebayTest):
    def round_trip(self, size, memory="64MiB"):
        """By files and by pipes, each against the other."""
        self.start_server(size=f"{4 * (size // MIB) + 256}MiB", memory=memory)
        self.forebay("bucket", "create", "sizes")
        source, target = self.directory / "source", self.directory / "target"
        digest = write_file(source, size, seed_value=size)

        self.forebay("put", source, "sizes/from-file")
        piped = self.forebay("put", "-", "sizes/from-pipe", "--json", input=source.read_bytes())
        self.assertEqual(piped.json["size_bytes"], size)
        for key in ("from-file", "from-pipe"):
            self.assertEqual(self.forebay("stat", f"sizes/{key}", "--json").json["size_bytes"], size)
            self.forebay("get", f"sizes/{key}", target)
            self.assertEqual(target.stat().st_size, size)
            self.assertEqual(sha256_of(target), digest)
            out = self.forebay("get", f"sizes/{key}", "-").bytes
            self.assertEqual(hashlib.sha256(out).hexdigest(), digest)
            in_memory = self.forebay("get", f"sizes/{key}", "--to-memory").text
            self.assertEqual(in_memory, f"sha256 {digest}\n")

    def test_empty(self):
        self.round_trip(0)

    def test_one_byte(self):
        self.round_trip(1)

    def test_one_less_than_a_block(self):
        self.round_trip(4095)

    def test_a_block(self):
        self.round_trip(4096)

    def test_one_more_than_a_block(self):
        self.round_trip(4097)

    def test_64_kib(self):
        self.round_trip(64 * KIB)

    def test_one_more_than_a_mebibyte(self):
        self.round_trip(MIB + 1)

    def test_64_mib(self):
        self.round_trip(64 * MIB)

    def test_larger_than_the_servers_memory(self):
        self.round_trip(40 * MIB + 12345, memory="32MiB")

    def test_3_gib_as_a_file(self):
        self.need_disk(12 * GIB)
        size = sized(3 * GIB, 200 * MIB)
        self.start_server(size=f"{size // MIB + 256}MiB")
        self.forebay("bucket", "create", "large")
        source, target = self.directory / "source", self.directory / "target"
        digest = write_file(source, size, seed_value=3)
        self.forebay("put", source, "large/file")
        source.unlink()
        self.forebay("get", "large/file", target)
        self.assertEqual(sha256_of(target), digest)

    def test_3_gib_through_pipes(self):
        self.need_disk(12 * GIB)
        size = sized(3 * GIB, 200 * MIB)
        self.start_server(size=f"{size // MIB + 256}MiB")
        self.forebay("bucket", "create", "large")
        sent = hashlib.sha256()
        put = self.start_command("put", "-", "large/pipe", stdin=subprocess.PIPE)
        for piece in pieces(size, seed_value=4):
            put.stdin.write(piece)
            sent.update(piece)
        put.stdin.close()
        self.assertEqual(put.wait(300), 0)

        get = self.start_command("get", "large/pipe", "-", stdout=subprocess.PIPE)
        received = hashlib.sha256()
        while piece := get.stdout.read(4 * MIB):
            received.update(piece)
        self.assertEqual(get.wait(300), 0)
        self.assertEqual(received.hexdigest(), sent.hexdigest())


class RangeTest(ForebayTest):
    """Of an object of 5 MiB and a bit, whose inner edges are those of blocks, chunks and pieces."""

    SIZE = 5 * MIB + 777

    def setUp(self):
        super().setUp()
        self.start_server()
        self.forebay("bucket", "create", "ranges")
        self.content = b"".join(pieces(self.SIZE, seed_value=7))
        self.forebay("put", "-", "ranges/object", input=self.content)

    def assert_range(self, first, last):
        got = self.forebay("get", "ranges/object", "-", "--range", f"{first}-{last}").bytes
        # Not assertEqual: its message would hold megabytes.
        self.assertTrue(got == self.content[first : last + 1], f"bytes {first}-{last} differ ({len(got)} came)")

    def test_the_first_and_the_last_byte(self):
        self.assert_range(0, 0)
        self.assert_range(self.SIZE - 1, self.SIZE - 1)
        self.assert_range(0, self.SIZE - 1)

    def test_across_and_along_each_edge(self):
        for edge in (4 * KIB, 64 * KIB, MIB, 4 * MIB):
            self.assert_range(edge - 1, edge - 1)
            self.assert_range(edge, edge)
            self.assert_range(edge - 1, edge)
            self.assert_range(edge - 3, edge + 5)
            self.assert_range(edge, 2 * edge - 1)
        self.assert_range(64 * KIB - 1, 4 * MIB + 1)
        self.assert_range(1, self.SIZE - 2)

    def test_from_a_byte_to_the_end(self):
        for first in (0, 1, 4096, MIB, 4 * MIB - 1, self.SIZE - 1):
            got = self.forebay("get", "ranges/object", "-", "--range", f"{first}-").bytes
            self.assertTrue(got == self.content[first:], f"bytes from {first} differ ({len(got)} came)")

    def test_a_range_is_cut_at_the_end(self):
        got = self.forebay("get", "ranges/object", "-", "--range", f"{self.SIZE - 10}-{self.SIZE + 1000}").bytes
        self.assertEqual(got, self.content[-10:])

    def test_a_range_behind_the_end_is_refused(self):
        target = self.directory / "target"
        for beyond in (f"{self.SIZE + 1}-", f"{self.SIZE + 1}-{self.SIZE + 2}", f"{1 << 62}-"):
            self.fails("get", "ranges/object", target, "--range", beyond, saying=str(self.SIZE))
            self.assertFalse(target.exists())

    def test_a_malformed_range_is_wrong_usage(self):
        for wrong in ("5", "-5", "5-4", "a-b", "1-2-3", "0x1-2", "1 - 2", "18446744073709551616-", "0-18446744073709551615"):
            finished = self.forebay("get", "ranges/object", "-", f"--range={wrong}", status=2)
            self.assertIn("--range", finished.errors, wrong)

    def test_a_range_into_memory_and_into_a_file(self):
        expected = self.content[MIB - 1 : 2 * MIB + 1]
        target = self.directory / "target"
        self.forebay("get", "ranges/object", target, "--range", f"{MIB - 1}-{2 * MIB}")
        self.assertTrue(target.read_bytes() == expected)
        in_memory = self.forebay("get", "ranges/object", "--to-memory", "--range", f"{MIB - 1}-{2 * MIB}").text
        self.assertEqual(in_memory, f"sha256 {hashlib.sha256(expected).hexdigest()}\n")


if __name__ == "__main__":
    forebay_process.main()
