# SPDX-License-Identifier: Apache-2.0
"""`forebay put` and `get` of a file over real verbs, server and client as two processes in the guest: equal bytes, and none of
them copied by the server's processor."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
GUEST = HERE.parent.parent / "scripts/guest"
EXIT_SKIPPED = 77
UNAVAILABLE = 69
MIB = 64
PUT_MIB = 1  # of one transfer: base::kMaxChunkBytes
GET_MIB = 2  # base::kMaxTransferBytes


class PutGetTest(unittest.TestCase):
    def put_and_get_over(self, mover):
        with tempfile.TemporaryDirectory(prefix="forebay-guest-test.") as directory:
            done = subprocess.run(
                [sys.executable, GUEST, "--out", directory, "--timeout", "600", "--", "sh", HERE / "put_get.sh",
                 os.environ["FOREBAY_PROGRAM"], mover, str(MIB)],
                capture_output=True, timeout=840, check=False, stdin=subprocess.DEVNULL)
            text = done.stdout.decode() + done.stderr.decode()
            if done.returncode == UNAVAILABLE:
                self.skipTest(done.stderr.decode().strip())
            self.assertEqual(done.returncode, 0, text)
            findings = [json.loads(line) for line in (pathlib.Path(directory) / "doctor.json").read_text().splitlines()]
        digests = re.findall(r"^([0-9a-f]{64})  ", text, re.MULTILINE)
        self.assertEqual(len(digests), 2, text)
        self.assertEqual(digests[0], digests[1])
        found = {finding["what"]: finding["found"] for finding in findings}
        self.assertRegex(found["path"], rf"\A{re.escape(mover)} to 10\.")
        moved = re.fullmatch(
            rf"in {MIB}\.0 MiB \({MIB // PUT_MIB} transfers\), out {MIB}\.0 MiB \((\d+) transfers\), of that copied by the server 0 B",
            found[f"moved by {mover}"])
        self.assertIsNotNone(moved, found)
        # Chunks of a get go two by two when both are there.
        self.assertLessEqual(MIB // GET_MIB, int(moved[1]))
        self.assertLessEqual(int(moved[1]), MIB // PUT_MIB)

    def test_over_libfabric(self):
        self.put_and_get_over("ofi;verbs")

    def test_over_ucx(self):
        self.put_and_get_over("ucx;rc")


def main():
    loader = unittest.defaultTestLoader
    module = sys.modules["__main__"]
    suite = loader.loadTestsFromNames(sys.argv[1:], module) if sys.argv[1:] else loader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    if not result.wasSuccessful() or result.testsRun == 0:
        return 1
    for case, reason in result.skipped:
        # The form in which GoogleTest gives a reason, which scripts/test shows.
        print(f"{case.id()}: Skipped\n{reason}\n\n")
    return EXIT_SKIPPED if result.skipped else 0


if __name__ == "__main__":
    sys.exit(main())
