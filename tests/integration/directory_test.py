# SPDX-License-Identifier: Apache-2.0
"""`forebay serve --backend directory:`: one tree for the unchanged client and commands, and for everyone who reads files."""

import collections
import hashlib
import json
import os
import random
import subprocess
import time

import forebay_process
from forebay_process import MIB, ForebayTest, Settings, report, seed, sha256_of, sized, write_file


class DirectoryTest(ForebayTest):
    WRITERS = 8

    def make_tree_server(self):
        self.tree = self.directory / "tree"
        self.tree.mkdir(exist_ok=True)
        server = self.make_server("tree")
        server.command = [Settings.program, "serve", "--backend", f"directory:{self.tree}", "--listen", "127.0.0.1:0", "--memory",
                          "64MiB"]
        return server

    def test_files_and_objects_are_the_same(self):
        server = self.make_tree_server().start()
        self.assertEqual(server.ready["store"], str(self.tree))
        self.assertEqual((self.tree / ".forebay").stat().st_mode & 0o777, 0o700)
        self.forebay("bucket", "create", "box")
        for number, size in enumerate((0, 1, 4096, 100_000, 5 * MIB + 17)):
            source = self.directory / f"source-{number}"
            digest = write_file(source, size, number)
            self.forebay("put", source, f"box/deep/er/{number}")
            cat = subprocess.run(["cat", self.tree / "box/deep/er" / str(number)], capture_output=True, check=True)
            self.assertEqual(hashlib.sha256(cat.stdout).hexdigest(), digest)
        (self.tree / "others").mkdir()
        digest = write_file(self.tree / "others/model.bin", 3 * MIB + 5, 99)
        before = (self.tree / "others/model.bin").stat()
        self.forebay("get", "others/model.bin", self.directory / "got")
        self.assertEqual(sha256_of(self.directory / "got"), digest)
        self.forebay("cp", "others/model.bin", "box/copy.bin")
        self.assertEqual(sha256_of(self.tree / "box/copy.bin"), digest)
        self.forebay("mv", "box/copy.bin", "box/moved.bin")
        self.assertEqual(sha256_of(self.tree / "box/moved.bin"), digest)
        self.forebay("mv", "-r", "box/deep/", "box/deeper/still/")
        self.assertEqual((self.tree / "box/deeper/still/er/3").stat().st_size, 100_000)
        self.forebay("rm", "box/moved.bin")
        self.assertFalse((self.tree / "box/moved.bin").exists())
        self.assertEqual((self.tree / "others/model.bin").stat().st_ctime_ns, before.st_ctime_ns, "what others wrote is not touched")
        self.forebay("bucket", "ls")
        self.assertIn(str(self.tree), self.forebay("df").text)
        self.assertEqual(server.restart().running(), True)
        self.assertEqual(self.forebay("stat", "others/model.bin", "--json").json["size_bytes"], 3 * MIB + 5)

    def test_what_does_not_go_together_is_refused(self):
        directory = self.directory / "tree"
        directory.mkdir()
        serve = ("serve", "--backend", f"directory:{directory}")
        self.fails(*serve, "elsewhere", saying="leave out elsewhere", status=2)
        self.fails(*serve, "--size", "1GiB", saying="--size", status=2)
        self.fails(*serve, "--backup-directory", str(directory), saying="--backup-directory", status=2)
        self.fails("serve", "--backend", "tape:/dev/st0", saying="directory:PATH", status=2)
        self.fails("serve", "--backend", "directory:", saying="directory:PATH", status=2)
        missing = self.forebay("serve", "--backend", f"directory:{directory}/none", "--listen", "127.0.0.1:0", status=1)
        self.assertIn("does not exist", missing.errors)
        server = self.make_tree_server().start()
        second = self.forebay("serve", "--backend", f"directory:{directory}", "--listen", "127.0.0.1:0", status=1)
        self.assertIn("another process", second.errors)
        self.assertTrue(server.running())

    def test_a_tree_of_many_files_is_served_as_it_stands(self):
        count, per_directory = sized(100_000, 10_000), 1_000
        self.need_disk(1024 * MIB)
        server = self.make_tree_server()
        dice = random.Random(seed())
        expected = {}
        for number in range(count):
            directory = self.tree / "data" / f"{number // per_directory:03}"
            if number % per_directory == 0:
                directory.mkdir(parents=True)
            content = dice.randbytes(dice.randrange(200))
            (directory / f"{number:06}.bin").write_bytes(content)
            expected[f"{number // per_directory:03}/{number:06}.bin"] = hashlib.sha256(content).digest()
        (self.tree / "data/link").symlink_to("/etc/passwd")
        started = time.monotonic()
        server.start()
        report(f"start on {count} files", time.monotonic() - started, "s")
        started = time.monotonic()
        listed = [json.loads(line)["key"] for line in self.forebay("ls", "-r", "data", "--json").lines]
        report(f"listing {count} files", time.monotonic() - started, "s")
        self.assertEqual(listed, sorted(expected))
        out = self.directory / "out"
        for key in dice.sample(listed, 50):
            self.forebay("get", f"data/{key}", out)
            self.assertEqual(hashlib.sha256(out.read_bytes()).digest(), expected[key], key)
        self.assertEqual(sum(1 for _ in self.tree.glob("data/*/*")), count, "nothing came and nothing went")

    def test_kill_9_leaves_no_half_object(self):
        rounds = int(os.environ.get("FOREBAY_ROUNDS") or sized(20, 5))
        chosen = seed()
        dice = random.Random(chosen)
        self.present, self.open, self.absent = set(), set(), set()
        self.acknowledged = collections.Counter()
        server = self.make_tree_server().start()
        self.forebay("bucket", "create", "box")
        for number in range(1, rounds + 1):
            prefix = f"round-{number:04}"
            self.write_until_killed(server, prefix, chosen, dice.randint(1, 40))
            self.check_files(prefix)
            server.start()
            self.assertEqual(list((self.tree / ".forebay/tmp").iterdir()), [], "temporary files are swept at the start")
            self.check(server, chosen, "" if number % 100 == 0 or number == rounds else prefix)
            if number % 100 == 0:
                print(f"round {number}", flush=True)
        for what, times in sorted(self.acknowledged.items()):
            report(f"acknowledged: {what}", times, "")
        report("rounds of kill -9", rounds, "")

    def write_until_killed(self, server, prefix, chosen, stop_after):
        writer = self.start_tool("write", *self.connection(server), "--bucket", "box", "--prefix", prefix, "--writers",
                                 self.WRITERS, "--seed", chosen, stdout=subprocess.PIPE)
        lines = []
        while len(lines) < stop_after and (line := writer.stdout.readline()):
            lines.append(line)
        server.kill()
        lines += writer.stdout.readlines()
        self.assertEqual(writer.wait(60), 0)
        for line in lines:
            what, key = line.decode().rstrip("\n").split(maxsplit=1)
            self.acknowledged[what] += 1
            if what == "put":
                self.present.add(key)
            elif what == "deleting":
                self.present.discard(key)
                self.open.add(key)
            elif what == "deleted":
                self.open.discard(key)
                self.absent.add(key)

    def check_files(self, prefix):
        """With nobody serving: whoever reads the tree finds each acknowledged object, and no temporary among them."""
        files = {str(path.relative_to(self.tree / "box")) for path in (self.tree / "box").rglob("*") if path.is_file()}
        missing = {key for key in self.present if key.startswith(prefix)} - files
        self.assertEqual(missing, set(), "acknowledged, and no file")
        self.assertEqual({key for key in self.absent if key.startswith(prefix)} & files, set(), "deleted, and a file")

    def check(self, server, chosen, prefix):
        """Through the server: each object that is there has exactly its content."""
        right = set()
        audit = self.tool("audit", *self.connection(server), "--bucket", "box", "--prefix", prefix, "--seed", chosen)
        for line in audit.lines:
            what, key = line.split(maxsplit=1)
            self.assertIn(what, ("right", "listed"), line)
            if what == "right":
                right.add(key)
        self.assertEqual({key for key in self.present if key.startswith(prefix)} - right, set(), "acknowledged and lost")
        self.assertEqual(right & self.absent, set(), "deleted and there again")


if __name__ == "__main__":
    forebay_process.main()
