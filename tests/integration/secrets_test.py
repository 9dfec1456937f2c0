# SPDX-License-Identifier: Apache-2.0
"""Where secrets must not be: in what a core file of the client would hold, in the server's log, in what commands print."""

import pathlib
import re
import subprocess

import forebay_process
from forebay_process import MIB, ForebayTest


def mappings(process):
    """The readable mappings of a process, as (first, last, held by a core file)."""
    found = []
    with open(f"/proc/{process}/smaps") as smaps:
        for line in smaps:
            if head := re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) ", line):
                place = int(head[1], 16), int(head[2], 16)
                readable = head[3].startswith("r")
            elif line.startswith("VmFlags:") and readable and not {"io", "pf"} & set(line.split()[1:]):
                found.append((*place, "dd" not in line.split()[1:]))
    return found


def count_in_memory(process, needle):
    """How often `needle` is in the memory of a process: (where a core file would hold it, where not)."""
    dumped = kept_out = 0
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        for first, last, held in mappings(process):
            times = 0
            before = b""
            for at in range(first, last, 4 * MIB):
                try:
                    memory.seek(at)
                    piece = memory.read(min(4 * MIB, last - at))
                except (OSError, ValueError, OverflowError):
                    break  # such as [vvar]
                times += (before + piece).count(needle) - before.count(needle)
                before = piece[-len(needle):]
            if held:
                dumped += times
            else:
                kept_out += times
    return dumped, kept_out


class SecretsTest(ForebayTest):
    def setUp(self):
        super().setUp()
        self.server = self.start_server(size="1GiB")
        self.forebay("bucket", "create", "box")
        self.forebay("put", "-", "box/canary-key-of-this-test", input=bytes(64 * MIB))
        self.cap = self.directory / "cap"
        self.cap.write_bytes(self.forebay("cap", "issue", "--bucket", "box", "--rights", "get", "--ttl", "10m").bytes)

    def check_client(self, secret_hex, *identity):
        """A client that is in the middle of a get, while its reader does not read."""
        if forebay_process.Settings.sanitized:
            self.skipTest("a sanitizer's own memory is terabytes, and keeps what was freed")
        client = self.start_command(*identity, "cat", "box/canary-key-of-this-test", stdout=subprocess.PIPE)
        self.assertEqual(len(client.stdout.read(MIB)), MIB)
        dumped, _ = count_in_memory(client.pid, b"canary-key-of-this-test")
        self.assertGreater(dumped, 0, "the search finds what is there")
        secret = bytes.fromhex(secret_hex)
        dumped, kept_out = count_in_memory(client.pid, secret)
        self.assertGreater(kept_out, 0, "the client holds the secret")
        self.assertEqual(dumped, 0, "a core file would hold the secret")
        self.assertEqual(count_in_memory(client.pid, secret_hex.encode())[0], 0, "a core file would hold the secret in hex")
        client.kill()
        client.wait()

    def test_a_core_file_holds_no_key_of_a_capability(self):
        self.check_client(self.cap.read_text().strip()[-64:], "--cap", self.cap)

    def test_a_core_file_holds_no_root_secret(self):
        text = pathlib.Path(self.server.credentials).read_text()
        self.check_client(re.search(r'"([0-9a-f]{64})"', text)[1])

    def test_nothing_that_is_written_holds_a_secret(self):
        root = re.search(r'"([0-9a-f]{64})"', pathlib.Path(self.server.credentials).read_text())[1]
        holder = self.cap.read_text().strip()[-64:]
        self.forebay("tenant", "create", "acme")
        key = self.forebay("key", "create", "acme", "--json").json
        wrong = self.directory / "wrong"
        wrong.write_text(self.cap.read_text().strip()[:-1] + "0\n")
        wrong.chmod(0o600)
        said = []
        for command in (["--cap", self.cap, "cap", "show", self.cap], ["cap", "ls", "--json"], ["cap", "ls"], ["key", "ls", "acme", "--json"],
                        ["tenant", "ls", "--json"], ["--cap", self.cap, "rm", "box/canary-key-of-this-test"],
                        ["--cap", wrong, "stat", "box/x"], ["doctor"], ["--cap", self.cap, "ls", "box/"]):
            done = self.forebay(*map(str, command), status=None)
            said.append(done.bytes.decode() + done.errors)
        said.append(self.server.log.read_text())
        for name, secret in (("root", root), ("capability", holder), ("access key", key["secret"])):
            for text in said:
                self.assertNotIn(secret, text, f"the {name}'s secret")


if __name__ == "__main__":
    forebay_process.main()
