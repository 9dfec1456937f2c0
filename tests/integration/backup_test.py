# SPDX-License-Identifier: Apache-2.0
"""`forebay backup` during writes, `forebay restore` elsewhere: what comes back is of one moment, and right."""

import hashlib
import shutil
import signal
import subprocess
import threading
import time

import forebay_process
from forebay_process import KIB, MIB, ForebayTest, pieces, sha256_of, sized, wait_until


class BackupTest(ForebayTest):
    WRITERS = 4

    def setUp(self):
        super().setUp()
        self.backups = self.make_directory(self.directory / "backups")

    def start(self, **options):
        server = self.start_server(options=["--backup-directory", str(self.backups)], **options)
        self.at = ["--server", server.control, "--credentials", server.credentials]
        return server

    def put(self, key, content):
        self.forebay("put", "-", f"box/{key}", input=content)
        self.digests[key] = hashlib.sha256(content).hexdigest()

    def load(self, large=1):
        """Objects of all sizes, with their digests."""
        self.digests = {}
        self.forebay("bucket", "create", "box")
        for number, size in enumerate((0, 1, 700, 5000, 64 * KIB, 300 * KIB + 1)):
            self.put(f"static/{number}", b"".join(pieces(size, number)))
        for number in range(large):
            self.put(f"static/large-{number}", b"".join(pieces(20 * MIB + 5, 100 + number)))
        self.forebay("cp", "box/static/large-0", "box/static/copy")
        self.digests["static/copy"] = self.digests["static/large-0"]

    def keys(self, *where):
        lines = self.forebay(*where, "ls", "box", "--recursive", "--json").json_lines
        return [line["key"] for line in lines if "key" in line]

    def assert_static(self, *where):
        for key, digest in self.digests.items():
            target = self.directory / "target"
            self.forebay(*where, "get", f"box/{key}", target)
            self.assertEqual(sha256_of(target), digest, key)

    def test_a_backup_during_writes_is_restored_elsewhere(self):
        server = self.start(size="1GiB")
        self.load(large=2)
        writer = self.start_tool("write", *self.connection(server), "--bucket", "box", "--prefix", "busy", "--writers",
                                 self.WRITERS, "--seed", 7, stdout=subprocess.PIPE, text=True)
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(writer.stdout))
        reader.start()
        time.sleep(sized(0.3, 1.0))
        before = list(lines)
        saved = self.forebay(*self.at, "backup", self.backups / "monday", "--rate", "100MiB", "--json").json
        self.assertEqual(saved["backup"], str(self.backups / "monday"))
        self.assertGreater(saved["bytes"], 40 * MIB)
        writer.send_signal(signal.SIGKILL)
        writer.wait(60)
        reader.join()
        self.assertGreater(len(lines), len(before), "writers go on meanwhile")
        server.terminate()

        self.forebay("fsck", self.backups / "monday", "--data")
        restored = self.directory / "restored"
        told = self.forebay("restore", self.backups / "monday", restored).text
        self.assertIn(f"forebay serve {restored}", told)
        self.forebay("fsck", restored, "--data")
        self.forebay("fsck", server.store, "--data")
        self.fails("restore", self.backups / "monday", restored, saying="is there already")

        second = self.start_server("restored")
        there = ["--server", second.control, "--credentials", second.credentials]
        self.assertNotEqual(second.credentials, server.credentials)
        self.assert_static(*there)
        self.check_moment(there, before, lines)
        self.assertEqual(second.terminate(), 0)

    def check_moment(self, there, before, lines):
        """Each writer goes from one set of keys to the next: the backup has one of these, none of before it."""
        present = set(self.keys(*there))
        steps = {}
        for line in lines:
            what, _, key = line.strip().partition(" ")
            if what in ("put", "deleted"):
                steps.setdefault(key.rsplit("/", 1)[0], []).append((what, key))
        self.assertEqual(len(steps), self.WRITERS)
        for writer, history in steps.items():
            sets = [frozenset()]
            for what, key in history:
                sets.append(sets[-1] | {key} if what == "put" else sets[-1] - {key})
            acknowledged = sum(1 for line in before if line.startswith((f"put {writer}/", f"deleted {writer}/")))
            self.assertGreater(acknowledged, 0)
            self.assertIn(frozenset(key for key in present if key.startswith(writer + "/")), sets[acknowledged:])

    def test_a_copy_of_a_store_that_nobody_serves(self):
        server = self.start()
        self.load()
        self.fails("backup", "--offline", server.store, self.directory / "copy", saying="in use by another process")
        self.assertEqual(server.terminate(), 0)
        self.forebay("backup", "--offline", server.store, self.directory / "copy")
        self.assertLess((self.directory / "copy" / "data0").stat().st_blocks * 512, 64 * MIB)
        # A backup may be served as it is.
        second = self.start_server("copy")
        self.assert_static("--server", second.control, "--credentials", second.credentials)

    def test_where_backups_may_go(self):
        self.start()
        self.forebay("bucket", "create", "box")
        outside = self.directory / "elsewhere"
        for wrong in (outside, self.backups, self.backups / "a" / "b", self.backups / ".." / "elsewhere"):
            self.fails(*self.at, "backup", wrong, saying=f"go right into {self.backups}")
        self.assertFalse(outside.exists())
        (self.backups / "link").symlink_to(outside)
        self.fails(*self.at, "backup", self.backups / "link", saying="is there already")
        self.fails(*self.at, "backup", self.backups / "link/", saying="is there already")
        outside.mkdir()
        self.fails(*self.at, "backup", self.backups / "link", saying="is there already")
        self.assertEqual(list(outside.iterdir()), [])
        (self.backups / "taken").mkdir()
        self.fails(*self.at, "backup", self.backups / "taken", saying="is there already")
        (self.backups / "taken" / "file").write_text("mine")
        self.fails(*self.at, "backup", self.backups / "taken", saying="is there already")
        self.fails(*self.at, "backup", self.backups / "x", "--rate", "fast", status=2, saying="--rate")
        self.forebay(*self.at, "backup", self.backups / "good")
        self.assertEqual(sorted(path.name for path in self.backups.iterdir()), ["good", "link", "taken"])
        self.assertEqual((self.backups / "good").stat().st_mode & 0o777, 0o700)

        plain = self.start_server("plain")
        self.fails("--server", plain.control, "--credentials", plain.credentials, "backup", self.backups / "more",
                   saying="--backup-directory")
        capability = self.directory / "capability"
        rights = "get,put,list,delete,admin"
        issued = self.forebay("cap", "issue", "--bucket", "box", "--rights", rights, "--ttl", "1h", *self.at)
        capability.write_bytes(issued.bytes)
        self.fails("--server", self.at[1], "--cap", capability, "backup", self.backups / "more",
                   saying="the right `admin` on the whole server")

    def test_a_server_killed_during_a_backup(self):
        server = self.start()
        self.load()
        target = self.backups / "half"
        backup = self.start_command(*self.at, "backup", target, "--rate", "8MiB", stderr=subprocess.PIPE)
        data = target / "data0"
        wait_until(lambda: data.exists() and data.stat().st_blocks > 0, "content in the backup")
        self.fails(*self.at, "backup", self.backups / "second", saying="one at a time")
        server.kill()
        self.assertEqual(backup.wait(60), 1)
        self.assertFalse((target / "store.toml").exists())
        self.fails("fsck", target, saying="interrupted")
        self.fails("serve", target, "--listen", "127.0.0.1:0", saying="interrupted")
        self.fails("restore", target, self.directory / "restored", saying="interrupted")
        self.assertFalse((self.directory / "restored").exists())
        self.forebay("fsck", server.store, "--data")
        server.start()
        self.at = ["--server", server.control, "--credentials", server.credentials]
        self.assert_static()
        self.fails(*self.at, "backup", target, saying="remove it first")
        shutil.rmtree(target)
        self.forebay(*self.at, "backup", target)
        self.forebay("fsck", target, "--data")

    def test_a_server_that_stops_gives_the_backup_up(self):
        server = self.start()
        self.load()
        backup = self.start_command(*self.at, "backup", self.backups / "half", "--rate", "4MiB", stderr=subprocess.PIPE)
        wait_until(lambda: (self.backups / "half" / "data0").exists(), "content in the backup")
        self.assertEqual(server.terminate(within_s=30), 0)
        self.assertEqual(backup.wait(60), 1)
        self.assertEqual(list(self.backups.iterdir()), [])

    def test_credentials_are_not_copied(self):
        server = self.start()
        self.load()
        self.forebay(*self.at, "backup", self.backups / "good")
        names = sorted(path.name for path in (self.backups / "good").iterdir())
        self.assertEqual(names, ["data0", "lock", "meta", "store.toml"])
        config = (self.backups / "good" / "store.toml").read_text()
        self.assertNotEqual(config, (server.store / "store.toml").read_text(), "it is another store")


if __name__ == "__main__":
    forebay_process.main()
