# SPDX-License-Identifier: Apache-2.0
"""Parts of objects, attributes, versions and uploads, as their users type them."""

import hashlib

import forebay_process
from forebay_process import MIB, ForebayTest, sized, wait_until, write_file


class ObjectCommandsTest(ForebayTest):
    def setUp(self):
        super().setUp()
        self.start_server(size="2GiB")
        self.forebay("bucket", "create", "box")

    def fails(self, *arguments, saying, status=1, **options):
        self.assertIn(saying, self.forebay(*arguments, status=status, **options).errors)

    def test_runs_of_an_object_are_replaced_added_and_cut_off(self):
        self.forebay("put", "-", "box/a", "--metadata", "n=v", input=b"0123456789")
        put = self.forebay("put", "-", "box/a", "--offset", "3", "--json", input=b"abc").json
        self.assertEqual(put["size_bytes"], 3)
        self.forebay("put", "-", "box/a", "--append", input=b"xyz")
        self.assertEqual(self.forebay("cat", "box/a").text, "012abc6789xyz")
        self.assertEqual(self.forebay("truncate", "box/a", "4", "--json").json["size_bytes"], 4)
        self.assertEqual(self.forebay("truncate", "box/a", "6").text, "box/a has 6 bytes\n")
        self.assertEqual(self.forebay("cat", "box/a").bytes, b"012a\0\0")
        row = self.forebay("stat", "box/a", "--json").json
        self.assertEqual(row["metadata"], {"n": "v"})
        self.fails("put", "-", "box/a", "--append", "--if-match", "other", input=b"x", saying="ETag")
        self.fails("put", "-", "box/none", "--append", input=b"x", saying="does not exist")
        for wrong in (("--append", "--offset", "1"), ("--append", "--if-absent"), ("--offset", "1", "--metadata", "a=b"),
                      ("--append", "--parts", "2"), ("--parts", "10001")):
            self.forebay("put", "-", "box/a", *wrong, input=b"x", status=2)
        self.fails("truncate", "box/a", "many", saying="64MiB", status=2)

    def test_large_runs_are_streamed(self):
        source, patch = self.directory / "source", self.directory / "patch"
        write_file(source, 9 * MIB + 7, seed_value=1)
        write_file(patch, 6 * MIB + 3, seed_value=2)
        self.forebay("put", source, "box/a")
        self.forebay("put", patch, "box/a", "--offset", str(MIB + 1))
        self.forebay("put", patch, "box/a", "--append")
        content = bytearray(source.read_bytes())
        content[MIB + 1:MIB + 1 + 6 * MIB + 3] = patch.read_bytes()
        self.assertEqual(hashlib.sha256(self.forebay("cat", "box/a").bytes).hexdigest(),
                         hashlib.sha256(bytes(content) + patch.read_bytes()).hexdigest())

    def test_attributes_are_set_shown_and_removed(self):
        self.forebay("put", "-", "box/a", input=b"x")
        before = self.forebay("stat", "box/a", "--json").json
        self.forebay("attr", "set", "box/a", "stage=prod", "owner=a=b ü")
        self.assertEqual(self.forebay("attr", "show", "box/a").text, "owner=a=b ü\nstage=prod\n")
        after = self.forebay("attr", "rm", "box/a", "owner", "never", "--json").json
        self.assertEqual(after, {**before, "attributes": {"stage": "prod"}})
        self.assertIn("attribute stage: prod", self.forebay("stat", "box/a").text)
        self.fails("attr", "set", "box/a", "x=y", "--if-match", "other", saying="ETag")
        self.fails("attr", "set", "box/a", "novalue", saying="NAME=VALUE", status=2)
        self.fails("attr", "show", "box/none", saying="does not exist")

    def test_versions_are_listed_read_and_taken_away(self):
        self.fails("bucket", "set", "box", "--versioning", "suspended", saying="nothing to suspend")
        self.assertEqual(self.forebay("bucket", "set", "box", "--versioning", "on").text, "bucket box: versioning on\n")
        self.assertEqual(self.forebay("bucket", "ls", "--json").json["versioning"], "on")
        self.fails("bucket", "set", "box", "--versioning", "off", saying="never off", status=2)
        for content in (b"first", b"second"):
            self.forebay("put", "-", "box/a", input=content)
        self.forebay("rm", "box/a")
        marker, second, first = self.forebay("ls", "--versions", "box", "--json").json_lines
        self.assertTrue(marker["delete_marker"] and marker["latest"])
        self.assertEqual(len(self.forebay("ls", "--versions", "box", "--limit", "2", "--json").json_lines), 2)
        lines = self.forebay("ls", "--versions", "box").lines
        self.assertEqual([line.split() for line in lines],
                         [[str(marker["version"]), "deleted", "a"], [str(second["version"]), "a"],
                          [str(first["version"]), "a"]])
        self.assertEqual(self.forebay("cat", "box/a", "--version", first["version"]).text, "first")
        target = self.directory / "target"
        self.forebay("get", "box/a", target, "--version", second["version"])
        self.assertEqual(target.read_bytes(), b"second")
        digest = hashlib.sha256(b"first").hexdigest()
        self.assertEqual(self.forebay("get", "box/a", "--to-memory", "--version", first["version"]).text, f"sha256 {digest}\n")
        self.assertEqual(self.forebay("stat", "box/a", "--version", first["version"], "--json").json["size_bytes"], 5)
        self.fails("stat", "box/a", "--version", marker["version"], saying="delete marker")
        self.fails("cat", "box/a", "--version", "999999", saying="has no version 999999")
        self.forebay("rm", "box/a", "--version", marker["version"])
        self.assertEqual(self.forebay("cat", "box/a").text, "second")
        self.forebay("rm", "box/a", "--version", first["version"])
        self.assertEqual(len(self.forebay("ls", "--versions", "box", "--json").json_lines), 1)
        self.fails("put", "-", "box/a", "--append", input=b"x", saying="keeps versions")

    def test_a_file_goes_in_parts(self):
        source = self.directory / "source"
        for size, parts in ((0, 4), (1, 4), (5 * MIB + 3, 3), (40 * MIB, 100)):
            digest = write_file(source, size, seed_value=size)
            put = self.forebay("put", source, "box/parts", "--parts", parts, "--metadata", "n=v", "--json").json
            self.assertEqual(put["size_bytes"], size)
            self.assertEqual(hashlib.sha256(self.forebay("cat", "box/parts").bytes).hexdigest(), digest)
        self.assertEqual(self.forebay("stat", "box/parts", "--json").json["metadata"], {"n": "v"})
        self.fails("put", source, "box/parts", "--parts", "2", "--if-absent", saying="exists already")
        self.fails("put", "-", "box/parts", "--parts", "2", input=b"x", saying="-")
        self.assertEqual(self.forebay("upload", "ls", "box").text, "", "what failed was given up")

    def test_what_an_interrupted_upload_left_is_listed_and_given_up(self):
        source = self.directory / "source"
        write_file(source, sized(300, 60) * MIB, seed_value=1)
        put = self.start_command("put", source, "box/dir/big", "--parts", "8")
        rows = wait_until(lambda: self.forebay("upload", "ls", "box", "--json").json_lines, "the upload")
        put.kill()
        put.wait()
        rows = self.forebay("upload", "ls", "box/dir", "--json").json_lines
        if not rows:
            self.skipTest("the upload was over before it was interrupted")
        self.assertEqual([row["key"] for row in rows], ["dir/big"])
        self.assertIn(rows[0]["upload"], self.forebay("upload", "ls", "box").text)
        self.fails("upload", "abort", "box/dir/big", "xyz", saying="hexadecimal", status=2)
        self.forebay("upload", "abort", "box/dir/big", rows[0]["upload"])
        self.assertEqual(self.forebay("upload", "ls", "box").text, "")
        self.fails("upload", "abort", "box/dir/big", rows[0]["upload"], saying="has no upload")
        self.fails("cat", "box/dir/big", saying="does not exist")


if __name__ == "__main__":
    forebay_process.main()
