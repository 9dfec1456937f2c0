# SPDX-License-Identifier: Apache-2.0
"""One flipped bit in a stopped store: it refuses to open and says why, or a get fails by name, or everything is right.
Never wrong bytes, never fewer objects without an error."""

import random
import re
import subprocess

import forebay_process
from forebay_process import ForebayTest, report, seed, sized

BLOCK = 4096


class BitFlipTest(ForebayTest):
    """Each case works on copies of one store: some of its rows in table files, the later ones in the log only."""

    def setUp(self):
        super().setUp()
        self.seed = seed()
        self.dice = random.Random(self.seed)
        server = self.start_server("golden", size="128MiB")
        self.forebay("bucket", "create", "box")
        self.write(server, "first", 60)
        server.restart()  # recovery moves what the log held into a table file
        self.write(server, "second", 60)
        server.kill()
        self.golden = server.store
        self.expected = self.audit_of_golden()
        self.outcomes = {"did not open": 0, "the list failed": 0, "a get failed by name": 0, "everything was right": 0}

    def write(self, server, prefix, lines):
        writer = self.start_tool("write", *self.connection(server), "--bucket", "box", "--prefix", prefix, "--writers", 2,
                                 "--seed", self.seed, stdout=subprocess.PIPE)
        for _ in range(lines):
            writer.stdout.readline()
        writer.kill()
        writer.wait()

    def copy(self):
        store = self.directory / "store"
        subprocess.run(["rm", "-rf", store], check=True)
        subprocess.run(["cp", "-r", "--preserve=mode", "--sparse=always", self.golden, store], check=True)
        return self.make_server()

    def audit(self, server):
        return self.tool("audit", *self.connection(server), "--bucket", "box", "--seed", self.seed).lines

    def audit_of_golden(self):
        server = self.copy().start()
        lines = self.audit(server)
        server.kill()
        self.assertGreater(len(lines), 60)
        for line in lines:
            self.assertRegex(line, r"\A(right|listed) ")
        return set(lines)

    def flip(self, store, path, bit):
        """Flips a bit of the copy and checks what the server makes of it; gives the outcome."""
        place = f"bit {bit % 8} of byte {bit // 8} of {path}"
        with open(store.store / path, "r+b") as file:
            file.seek(bit // 8)
            value = file.read(1)[0]
            file.seek(bit // 8)
            file.write(bytes([value ^ (1 << bit % 8)]))
        try:
            store.start()
        except SystemError as error:
            self.assertRegex(str(error), r"exit status 1,", f"{place}: it may refuse, but not crash")
            self.assertRegex(str(error), r"(?m)^forebay: .*" + re.escape(str(store.store)), f"{place}: the refusal names the store")
            return "did not open"
        lines = self.audit(store)
        store.kill()
        right = {line for line in lines if line in self.expected}
        others = [line for line in lines if line not in self.expected]
        for line in others:
            self.assertRegex(line, r"\A(failed|list-failed) .*DATA_LOSS|\Alisted ", f"{place}: {line}")
        if any(line.startswith("list-failed ") for line in others):
            return "the list failed"
        named = {line.split()[1] for line in others}
        missing = {line.split()[1] for line in self.expected - right if line.startswith("right ")} - named
        self.assertEqual(missing, set(), f"{place}: objects are missing and no error says so")
        return "a get failed by name" if others else "everything was right"

    def flip_many(self, places, count):
        """`places`: path and size in bytes of what may be hit; where is drawn by lot."""
        total = sum(size for _, size in places)
        self.assertGreater(total, 0)
        for _ in range(count):
            at = self.dice.randrange(total * 8)
            for path, size in places:
                if at < size * 8:
                    break
                at -= size * 8
            self.outcomes[self.flip(self.copy(), path, at)] += 1
        for outcome, number in self.outcomes.items():
            report(f"of {count} flips, {outcome}", number, "")

    def files_of_golden(self, pattern):
        paths = [path for path in self.golden.rglob("*") if path.is_file() and re.search(pattern, str(path.relative_to(self.golden)))]
        return sorted((path.relative_to(self.golden), path.stat().st_size) for path in paths)

    def test_in_a_data_block(self):
        """Blocks in use, or used once, are those that are not all zeros."""
        (data,) = self.files_of_golden(r"^data0$")
        content = (self.golden / data[0]).read_bytes()
        used = [number for number in range(len(content) // BLOCK) if any(content[number * BLOCK : (number + 1) * BLOCK])]
        self.assertGreater(len(used), 100)
        count = sized(40, 10)
        for _ in range(count):
            block = self.dice.choice(used)
            self.outcomes[self.flip(self.copy(), data[0], block * BLOCK * 8 + self.dice.randrange(BLOCK * 8))] += 1
        for outcome, number in self.outcomes.items():
            report(f"of {count} flips in data blocks, {outcome}", number, "")
        self.assertGreater(self.outcomes["a get failed by name"], 0, "the flips hit nothing: this test has lost its subject")

    def test_in_the_log(self):
        self.flip_many(self.files_of_golden(r"^meta/.*\.log$"), sized(40, 10))
        self.assertLess(self.outcomes["everything was right"], sized(40, 10), "the flips hit nothing")

    def test_in_the_last_record_of_the_log(self):
        """The server was busy when it was killed: the witness of this record was not written yet."""
        path, size = [file for file in self.files_of_golden(r"^meta/.*\.log$") if file[1] > 0][-1]
        count, record = sized(20, 6), 80
        for _ in range(count):
            bit = 8 * (size - record) + self.dice.randrange(8 * record)
            self.assertEqual(self.flip(self.copy(), path, bit), "did not open", f"bit {bit} of {8 * size}")

    def test_in_a_table_file(self):
        self.flip_many(self.files_of_golden(r"^meta/.*\.sst$"), sized(40, 10))
        self.assertLess(self.outcomes["everything was right"], sized(40, 10), "the flips hit nothing")

    def test_in_any_other_file_of_the_metadata(self):
        self.flip_many(self.files_of_golden(r"^meta/.*(MANIFEST-\d+(\.durable)?|CURRENT)$"), sized(20, 6))


if __name__ == "__main__":
    forebay_process.main()
