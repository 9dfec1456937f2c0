# SPDX-License-Identifier: Apache-2.0
"""The commands as people and scripts use them: output, exit status, and errors that say what to do."""

import os
import signal
import subprocess
import threading
import time

import forebay_process
from forebay_process import MIB, ForebayTest, pieces, sized, wait_until


class CommandTest(ForebayTest):
    """A server with the bucket `box`, found by the profile that it wrote."""

    def setUp(self):
        super().setUp()
        self.server = self.start_server(size="512MiB")
        self.forebay("bucket", "create", "box")

    def put(self, key, content, *options, **more):
        return self.forebay("put", "-", f"box/{key}", *options, input=content, **more)

    def etag(self, key):
        return self.forebay("stat", f"box/{key}", "--json").json["etag"]


class PutTest(CommandTest):
    def test_json_has_its_fields(self):
        done = self.put("a", b"hello", "--json").json
        self.assertEqual(done["object"], "box/a")
        self.assertEqual(done["size_bytes"], 5)
        self.assertGreaterEqual(done["seconds"], 0)
        self.assertEqual(done["etag"], self.etag("a"))
        self.assertRegex(done["path"], r"\Ashm to @forebay-[0-9a-f]{16}\Z")

    def test_without_json_it_reports_on_stderr_only(self):
        done = self.put("a", b"hello")
        self.assertEqual(done.bytes, b"")
        self.assertIn("put box/a", done.errors)

    def test_a_missing_bucket_names_the_command_that_makes_it(self):
        self.fails("put", "-", "nowhere/a", input=b"x", saying=["nowhere", "forebay bucket create nowhere"])

    def test_a_missing_bucket_of_a_large_put_too(self):
        large = bytes(5 * MIB)
        self.fails("put", "-", "nowhere/a", input=large, saying=["nowhere", "forebay bucket create nowhere"])

    def test_if_absent(self):
        self.put("a", b"first", "--if-absent")
        self.fails("put", "-", "box/a", "--if-absent", input=b"second", saying="box/a")
        self.assertEqual(self.forebay("cat", "box/a").bytes, b"first")
        self.forebay("rm", "box/a")
        self.put("a", b"third", "--if-absent")

    def test_if_absent_of_a_large_put(self):
        content = b"".join(pieces(5 * MIB, seed_value=1))
        self.put("a", content, "--if-absent")
        self.fails("put", "-", "box/a", "--if-absent", input=bytes(5 * MIB), saying="box/a")
        self.assertTrue(self.forebay("cat", "box/a").bytes == content)

    def test_if_match(self):
        self.put("a", b"first")
        first = self.etag("a")
        self.put("a", b"second", "--if-match", first)
        self.assertNotEqual(self.etag("a"), first)
        self.fails("put", "-", "box/a", "--if-match", first, input=b"third", saying="box/a")
        self.assertEqual(self.forebay("cat", "box/a").bytes, b"second")
        self.fails("put", "-", "box/none", "--if-match", first, input=b"x", saying="box/none")

    def test_if_absent_and_if_match_exclude_each_other(self):
        finished = self.forebay("put", "-", "box/a", "--if-absent", "--if-match", "x", input=b"", status=None)
        self.assertIn(finished.status, (1, 2))
        self.assertIn("not both", finished.errors)

    def test_metadata(self):
        self.put("a", b"x", "--metadata", "model=llama", "--metadata", "note=a=b ü")
        self.assertEqual(self.forebay("stat", "box/a", "--json").json["metadata"], {"model": "llama", "note": "a=b ü"})
        self.assertIn("model: llama", self.forebay("stat", "box/a").text)
        self.put("a", b"x")
        self.assertEqual(self.forebay("stat", "box/a", "--json").json["metadata"], {})

    def test_metadata_of_a_large_put(self):
        self.put("a", bytes(5 * MIB), "--metadata", "model=llama")
        self.assertEqual(self.forebay("stat", "box/a", "--json").json["metadata"], {"model": "llama"})

    def test_too_much_metadata_is_refused(self):
        self.fails("put", "-", "box/a", "--metadata", "m=" + 9000 * "x", input=b"x", saying="metadata")
        self.fails("stat", "box/a", saying="box/a")

    def test_malformed_metadata_is_wrong_usage(self):
        for wrong in ("novalue", "=x"):
            self.fails("put", "-", "box/a", "--metadata", wrong, input=b"x", status=2, saying="NAME=VALUE")

    def test_a_missing_source_is_named(self):
        self.fails("put", "/nonexistent/file", "box/a", saying="/nonexistent/file")
        self.fails("put", self.directory, "box/a", saying=[str(self.directory), "directory"])
        self.fails("stat", "box/a", saying="box/a")

    def test_the_longest_key(self):
        key = "ü" * 512
        self.put(key, b"x")
        self.assertEqual(self.forebay("ls", "box", "-r").lines, [key])
        self.fails("put", "-", f"box/{key}a", input=b"x", status=2, saying="1024")

    def test_overwriting_shows_one_or_the_other(self):
        """A reader meets whole objects only, while two writers take turns."""
        old, new = b"o" * 300_000, b"n" * 400_000
        self.put("a", old)
        done = threading.Event()

        def overwrite():
            for round_number in range(10):
                self.put("a", new if round_number % 2 == 0 else old)
            done.set()

        writer = threading.Thread(target=overwrite)
        writer.start()
        try:
            reads = 0
            while not done.is_set() or reads == 0:
                got = self.forebay("cat", "box/a").bytes
                self.assertTrue(got in (old, new), f"{len(got)} bytes, starting {got[:10]!r}")
                reads += 1
        finally:
            writer.join()


class GetTest(CommandTest):
    def test_json_has_its_fields(self):
        self.put("a", b"hello")
        done = self.forebay("get", "box/a", self.directory / "a", "--json").json
        self.assertEqual((done["object"], done["size_bytes"], done["etag"]), ("box/a", 5, self.etag("a")))
        self.assertRegex(done["path"], r"\Ashm to @forebay-[0-9a-f]{16}\Z")
        in_memory = self.forebay("get", "box/a", "--to-memory", "--json").json
        self.assertEqual(in_memory["sha256"], "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")

    def test_a_missing_object_is_named_and_leaves_no_file(self):
        target = self.directory / "target"
        self.fails("get", "box/none", target, saying="box/none")
        self.fails("get", "box/none", "--to-memory", saying="box/none")
        self.fails("cat", "box/none", saying="box/none")
        self.assertFalse(target.exists())

    def test_a_missing_bucket_is_named(self):
        self.fails("get", "nowhere/a", "-", saying="nowhere")

    def test_if_match(self):
        self.put("a", b"hello")
        self.assertEqual(self.forebay("get", "box/a", "-", "--if-match", self.etag("a")).bytes, b"hello")
        self.fails("get", "box/a", "-", "--if-match", "another", saying="box/a")

    def test_a_file_is_replaced_whole(self):
        target = self.directory / "out" / "target"
        target.parent.mkdir()
        target.write_bytes(b"what was there before")
        held = target.open("rb")
        self.addCleanup(held.close)
        self.put("a", b"new")
        self.forebay("get", "box/a", target)
        self.assertEqual(target.read_bytes(), b"new")
        self.assertEqual(held.read(), b"what was there before", "the old file was not written into")
        self.assertEqual(os.listdir(target.parent), ["target"])

    def test_a_failure_leaves_the_old_file(self):
        target = self.directory / "out" / "target"
        target.parent.mkdir()
        target.write_bytes(b"what was there before")
        self.fails("get", "box/none", target, saying="box/none")
        self.assertEqual(target.read_bytes(), b"what was there before")
        self.assertEqual(os.listdir(target.parent), ["target"])

    def test_a_new_file_has_the_usual_mode(self):
        self.put("a", b"x")
        self.forebay("get", "box/a", self.directory / "target", child=lambda: os.umask(0o027))
        self.assertEqual((self.directory / "target").stat().st_mode & 0o7777, 0o640)

    def test_where_no_file_can_be_made(self):
        self.put("a", b"x")
        self.fails("get", "box/a", self.directory / "none" / "target", saying=str(self.directory / "none"))
        self.fails("get", "box/a", self.directory, saying=[str(self.directory), "directory"])

    def test_a_full_disk_is_an_error(self):
        self.put("a", b"x" * 100_000)
        self.fails("get", "box/a", "/dev/full", saying="/dev/full")

    def test_a_reader_that_went_away_is_an_error(self):
        content = bytes(8 * MIB)
        self.put("a", content)
        get = self.start_command("get", "box/a", "-", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        get.stdout.read(1)
        get.stdout.close()
        self.assertEqual(get.wait(60), 1)
        self.assertIn(b"standard output", get.stderr.read())

    def stop_in_mid_transfer(self, number):
        """Starts a get into a file, freezes the server when bytes have come, and sends the signal."""
        size = sized(256, 64) * MIB
        put = self.start_command("put", "-", "box/big", stdin=subprocess.PIPE)
        for piece in pieces(size, seed_value=2):
            put.stdin.write(piece)
        put.stdin.close()
        self.assertEqual(put.wait(120), 0)
        out = self.directory / "out"
        out.mkdir()
        get = self.start_command("get", "box/big", out / "target", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def written():
            if get.poll() is not None:
                self.fail("the get was over before it could be interrupted")
            total = 0
            for entry in os.scandir(f"/proc/{get.pid}/fd"):
                try:
                    if os.readlink(entry.path).startswith(str(out)):
                        total += os.stat(entry.path).st_size
                except FileNotFoundError:
                    pass
            return total

        wait_until(written, "the get writes to its file")
        self.server.stop()
        get.send_signal(number)
        status = get.wait(30)
        self.server.resume()
        self.assertEqual(os.listdir(out), [])
        return status

    def test_control_c_leaves_no_file(self):
        self.assertIn(self.stop_in_mid_transfer(signal.SIGINT), (-signal.SIGINT, 128 + signal.SIGINT, 1))

    def test_kill_leaves_no_file(self):
        self.assertEqual(self.stop_in_mid_transfer(signal.SIGKILL), -signal.SIGKILL)

    def test_a_server_that_dies_is_an_error_and_leaves_no_file(self):
        self.put("a", b"".join(pieces(32 * MIB, seed_value=1)))
        get = self.start_command("get", "box/a", "-", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        get.stdout.read(1)
        self.server.kill()
        get.stdout.read()
        self.assertEqual(get.wait(60), 1)
        self.assertRegex(get.stderr.read(), rb"\Aforebay: [^\n]+\n\Z")

    def test_a_timeout_that_is_none_is_wrong_usage(self):
        for seconds in ("0", "-1", "nan", "inf", "1e300"):
            done = self.forebay("get", "box/a", "-", f"--timeout={seconds}", status=2)
            self.assertIn("--timeout", done.errors)

    def test_a_timeout_ends_it(self):
        self.put("a", b"x")
        self.server.stop()
        started = time.monotonic()
        self.fails("get", "box/a", "-", "--timeout", "1", saying=self.server.control)
        took = time.monotonic() - started
        self.server.resume()
        self.assertGreater(took, 0.9)
        self.assertLess(took, sized(4, 8), "the time that was asked for, one second more, and that of a loaded machine")

    def test_cat_writes_objects_one_after_another(self):
        self.put("a", b"one ")
        self.put("b", b"")
        self.put("c", b"two")
        self.assertEqual(self.forebay("cat", "box/a", "box/b", "box/c").bytes, b"one two")


class ListTest(CommandTest):
    def setUp(self):
        super().setUp()
        for key in ("a", "dir/x", "dir/y", "dir/sub/z", "dir.txt", "e"):
            self.put(key, key.encode())

    def test_rolls_up_at_slashes(self):
        self.assertEqual(self.forebay("ls", "box").lines, ["a", "dir.txt", "dir/", "e"])
        self.assertEqual(self.forebay("ls", "box/dir/").lines, ["dir/sub/", "dir/x", "dir/y"])
        self.assertEqual(self.forebay("ls", "box/di").lines, ["dir.txt", "dir/"])

    def test_recursive(self):
        self.assertEqual(self.forebay("ls", "box", "-r").lines, ["a", "dir.txt", "dir/sub/z", "dir/x", "dir/y", "e"])
        self.assertEqual(self.forebay("ls", "-r", "box/dir/").lines, ["dir/sub/z", "dir/x", "dir/y"])

    def test_limit(self):
        self.assertEqual(self.forebay("ls", "box", "-r", "--limit", "2").lines, ["a", "dir.txt"])
        self.assertEqual(self.forebay("ls", "box", "--limit", "3").lines, ["a", "dir.txt", "dir/"])

    def test_long_form_has_time_and_size(self):
        for line in self.forebay("ls", "box", "-r", "-l").lines:
            self.assertRegex(line, r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ +\d+ ?B +\S+\Z")

    def test_json(self):
        rows = self.forebay("ls", "box", "--json").json_lines
        self.assertEqual([row.get("key") or row.get("prefix") for row in rows], ["a", "dir.txt", "dir/", "e"])
        self.assertEqual(set(rows[0]), {"key", "size_bytes", "version", "etag", "crc32c", "modified", "metadata",
                                        "attributes"})
        self.assertEqual((rows[1]["size_bytes"], rows[1]["etag"]), (7, self.etag("dir.txt")))

    def test_nothing_there_is_no_error_a_missing_bucket_is(self):
        self.assertEqual(self.forebay("ls", "box/zzz").lines, [])
        self.fails("ls", "nowhere", saying=["nowhere", "forebay bucket create nowhere"])

    def test_without_a_name_it_lists_buckets(self):
        self.forebay("bucket", "create", "another")
        self.assertEqual(self.forebay("ls").lines, ["another/", "box/"])


class ManyObjectsTest(CommandTest):
    """More than one page of 1,000."""

    def test_paging_is_complete_and_in_order(self):
        count = 2345
        self.tool("load", *self.connection(self.server), "--bucket", "box", "--prefix", "many/k", "--count", count,
                  "--size", 10, "--seed", 1)
        expected = [f"many/k{number:09}" for number in range(count)]
        self.assertEqual(self.forebay("ls", "box", "-r").lines, expected)
        self.assertEqual(self.forebay("ls", "box/many/").lines, expected)
        self.assertEqual(self.forebay("ls", "box").lines, ["many/"])
        self.assertEqual(self.forebay("ls", "box", "-r", "--limit", "1500").lines, expected[:1500])
        self.assertEqual(self.forebay("ls", "box/many/k000001", "-r").lines, expected[1000:2000])


class DoctorTest(CommandTest):
    def doctor(self):
        findings = self.forebay("doctor", "--json").json_lines
        return {finding["what"]: finding for finding in findings}

    def test_it_names_the_path_and_counts_what_went_over_it(self):
        self.assertEqual(self.doctor()["moved by tcp"]["found"],
                         "in 0 B (0 transfers), out 0 B (0 transfers), of that copied by the server 0 B")
        self.put("a", bytes(3 * MIB), "--fabric", "tcp")
        self.forebay("--fabric", "tcp", "get", "box/a", "a")
        found = self.doctor()
        self.assertRegex(found["path"]["found"], r"\Ashm to @forebay-[0-9a-f]{16}\Z")
        self.assertIn("best that both sides have", found["path"]["remedy"])
        self.assertEqual(found["moved by tcp"]["found"],
                         "in 3.0 MiB (3 transfers), out 3.0 MiB (3 transfers), of that copied by the server 6.0 MiB")
        for what in ("io_uring", "memlock", "RDMA", "tcp"):
            self.assertNotEqual(found[what]["found"], "", what)

    def test_a_libfabric_that_cannot_be_loaded_is_told_and_missed_by_its_movers_only(self):
        libraries = self.make_directory(self.directory / "libraries")
        (libraries / "libfabric.so.1").write_text("no library")
        broken = {**self.environment, "LD_LIBRARY_PATH": str(libraries)}
        findings = {finding["what"]: finding for finding in self.forebay("doctor", "--json", environment=broken).json_lines}
        if "this build has no libfabric" in findings["ofi;tcp"]["found"]:
            self.skipTest("this build has no libfabric")
        self.assertIn("libfabric cannot be loaded: ", findings["ofi;tcp"]["found"])
        self.assertEqual((findings["ofi;tcp"]["verdict"], findings["tcp"]["verdict"]), ("missing", "good"))
        self.fails("--fabric", "ofi:tcp", "ls", saying=["`ofi;tcp`", "libfabric"], environment=broken)

    def test_over_shm_the_server_copies_hot_payload_twice_and_then_no_more(self):
        content = os.urandom(MIB)  # one transfer, whatever is read together
        self.put("a", content, "--fabric", "shm")
        for _ in range(4):
            self.forebay("--fabric", "shm", "get", "box/a", "a")
            self.assertEqual((self.directory / "a").read_bytes(), content)
        # The put, the first get, and what the second one found worth lending.
        self.assertEqual(self.doctor()["moved by shm"]["found"],
                         "in 1.0 MiB (1 transfers), out 4.0 MiB (4 transfers), of that copied by the server 3.0 MiB")

    def test_a_fabric_asked_for_is_taken(self):
        for fabric in ("tcp", "shm"):
            self.put(fabric, b"over " + fabric.encode(), "--fabric", fabric)
            done = self.forebay("--fabric", fabric, "get", f"box/{fabric}", "a", "--json").json
            self.assertTrue(done["path"].startswith(f"{fabric} to "), done["path"])
            self.assertEqual((self.directory / "a").read_bytes(), b"over " + fabric.encode())

    def test_a_way_that_the_server_does_not_offer_is_passed_over(self):
        only = self.start_server("only", options=["--fabric", "tcp"])
        found = {finding["what"]: finding for finding in self.forebay(*self.connection(only), "doctor", "--json").json_lines}
        self.assertEqual(found["path"]["found"], f"tcp to {only.data}")
        self.assertIn("shm: the server does not offer it", found["path"]["remedy"])
        self.fails(*self.connection(only), "--fabric", "shm", "ls", saying=["`tcp`", "`shm`"])

    def test_without_a_server_it_tells_the_rest(self):
        self.server.terminate()
        text = self.forebay("doctor").text
        self.assertIn("movers, best first", text)
        self.assertIn("forebay serve", text)

    def test_a_fabric_that_is_none_is_refused_with_those_there_are(self):
        self.fails("--fabric", "pigeon", "ls", saying=["`pigeon`", "tcp"])


class NamespaceTest(CommandTest):
    def test_stat(self):
        self.put("a", b"123456789", "--metadata", "k=v")
        row = self.forebay("stat", "box/a", "--json").json
        self.assertEqual(set(row), {"key", "size_bytes", "version", "etag", "crc32c", "modified", "metadata",
                                        "attributes"})
        self.assertEqual((row["key"], row["size_bytes"], row["metadata"]), ("a", 9, {"k": "v"}))
        self.assertEqual(row["crc32c"], "e3069283", "the check value of CRC-32C")
        self.assertRegex(row["modified"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
        people = self.forebay("stat", "box/a").text
        for word in ("box/a", "9 bytes", row["etag"], "e3069283", row["modified"], "k: v"):
            self.assertIn(word, people)
        self.fails("stat", "box/none", saying="box/none")

    def test_the_checksum_of_a_large_object_is_of_the_whole(self):
        # CRC-32C of 32 zero bytes is 8a9136aa (RFC 3720, B.4); longer ones are compared between the two ways of putting.
        self.put("rfc", bytes(32))
        self.assertEqual(self.forebay("stat", "box/rfc", "--json").json["crc32c"], "8a9136aa")
        content = b"".join(pieces(5 * MIB, seed_value=5))
        self.put("large", content)
        stored = self.forebay("stat", "box/large", "--json").json["crc32c"]
        self.assertEqual(stored, f"{crc32c(content):08x}")

    def test_each_version_is_later(self):
        self.put("a", b"1")
        first = self.forebay("stat", "box/a", "--json").json["version"]
        self.put("a", b"1")
        second = self.forebay("stat", "box/a", "--json").json["version"]
        self.forebay("rm", "box/a")
        self.put("a", b"1")
        self.assertLess(first, second)
        self.assertLess(second, self.forebay("stat", "box/a", "--json").json["version"])

    def test_rm(self):
        self.put("a", b"x")
        self.put("b", b"x")
        self.forebay("rm", "box/a", "box/b")
        self.assertEqual(self.forebay("ls", "box").lines, [])
        self.fails("rm", "box/a", saying="box/a")
        self.forebay("rm", "-f", "box/a")

    def test_cp_makes_an_equal_object_that_outlives_its_source(self):
        content = b"".join(pieces(5 * MIB + 1, seed_value=7))
        self.put("a", content, "--metadata", "colour=blue")
        copied = self.forebay("cp", "box/a", "box/b", "--json").json
        source = self.forebay("stat", "box/a", "--json").json
        self.assertEqual(copied["size_bytes"], len(content))
        self.assertEqual(copied["crc32c"], source["crc32c"])
        self.assertEqual(copied["metadata"], {"colour": "blue"})
        self.assertNotEqual(copied["etag"], source["etag"])
        self.forebay("rm", "box/a")
        self.assertEqual(self.forebay("cat", "box/b").bytes, content)
        self.forebay("bucket", "create", "other")
        self.forebay("cp", "box/b", "other/dir/")
        self.assertEqual(self.forebay("cat", "other/dir/b").bytes, content)
        self.forebay("cp", "box/b", "box/part", "--offset", "1000", "--length", "4194304")
        self.assertEqual(self.forebay("cat", "box/part").bytes, content[1000:1000 + 4194304])
        self.fails("cp", "box/b", "box/part", "--if-absent", saying="box/part")
        self.fails("cp", "box/none", "box/c", saying="box/none")
        self.fails("cp", "box/b", "box/c", "--offset", "9999999", saying="box/b")

    def test_concat_joins_objects_and_can_add_to_one(self):
        first, second = b"".join(pieces(2 * MIB + 5, seed_value=8)), b"small"
        self.put("first", first)
        self.put("second", second)
        self.forebay("concat", "box/all", "box/first", "box/second", "box/first")
        self.assertEqual(self.forebay("cat", "box/all").bytes, first + second + first)
        self.forebay("concat", "box/all", "box/all", "box/second")
        self.assertEqual(self.forebay("cat", "box/all").bytes, first + second + first + second)

    def test_mv_renames_one_and_a_whole_prefix(self):
        for name in ("run/1", "run/2", "run/sub/3", "other"):
            self.put(name, name.encode())
        etag = self.etag("run/1")
        self.forebay("mv", "box/run/1", "box/first")
        self.assertEqual(self.etag("first"), etag)
        self.fails("cat", "box/run/1", saying="box/run/1")
        self.forebay("mv", "box/first", "box/run/")
        self.assertEqual(self.forebay("cat", "box/run/first").bytes, b"run/1")
        done = self.forebay("mv", "-r", "box/run/", "box/done/2024/")
        self.assertIn(b"renamed 3 objects", done.bytes)
        self.assertEqual(self.forebay("ls", "-r", "box").bytes.decode().split(),
                         ["done/2024/2", "done/2024/first", "done/2024/sub/3", "other"])
        self.put("done/2024/x", b"x")
        self.put("x", b"in the way")
        self.fails("mv", "-r", "box/done/2024/", "box/", saying=["box/x", "nothing was renamed"])
        self.fails("mv", "box/other", "box/x", "--if-absent", saying="box/x")
        self.fails("mv", "-r", "box/none/", "box/n/", saying="box/none/")
        self.forebay("mv", "box/other", "box/x")
        self.assertEqual(self.forebay("cat", "box/x").bytes, b"other")
        self.fails("mv", "box/x", "elsewhere/x", status=2, saying="forebay cp")

    def test_rm_goes_on_after_a_missing_one(self):
        self.put("b", b"x")
        self.fails("rm", "box/none", "box/b", saying="box/none")
        self.assertEqual(self.forebay("ls", "box").lines, [])

    def test_buckets(self):
        self.assertEqual(self.forebay("bucket", "create", "second").text, "created bucket second\n")
        self.fails("bucket", "create", "second", saying="second")
        self.assertEqual(self.forebay("bucket", "create", "second", "--if-missing").text, "kept bucket second\n")
        self.assertEqual(self.forebay("bucket", "ls").lines, ["box", "second"])
        row = self.forebay("bucket", "ls", "--json").json_lines[0]
        self.assertEqual((row["name"], row["class"]), ("box", "durable"))
        self.assertEqual(self.forebay("bucket", "create", "third", "--json").json, {"name": "third", "created": True})
        self.forebay("bucket", "rm", "second")
        self.fails("bucket", "rm", "second", saying="second")
        self.assertEqual(self.forebay("bucket", "ls").lines, ["box", "third"])

    def test_a_bucket_with_objects_stays(self):
        self.put("a", b"x")
        self.fails("bucket", "rm", "box", saying="box")
        self.forebay("rm", "box/a")
        self.forebay("bucket", "rm", "box")

    def test_bucket_names_have_rules(self):
        for wrong in ("ab", "Upper", "under_score", "a..b", "-a-", "10.0.0.1", 64 * "a"):
            finished = self.forebay("bucket", "create", "--", wrong, status=2)
            self.assertRegex(finished.errors, r"\Aforebay: [^\n]+\n\Z", wrong)


class UsageTest(ForebayTest):
    """What needs no server."""

    def test_wrong_usage_is_2_and_says_so_on_stderr(self):
        for wrong in ([], ["frobnicate"], ["put"], ["put", "file"], ["get"], ["get", "box/a"], ["cat"], ["stat"], ["rm"],
                      ["bucket"], ["bucket", "create"], ["bucket", "frobnicate"], ["fsck"], ["bench"],
                      ["--frobnicate", "version"], ["version", "surplus"], ["ls", "--limit", "many"]):
            finished = self.forebay(*wrong, status=2)
            self.assertNotEqual(finished.errors, "", wrong)
            self.assertEqual(finished.bytes, b"", wrong)

    def test_names_that_are_none_are_wrong_usage(self):
        for wrong in ("box", "box/", "/key", "Box/key", "b/key"):
            self.fails("stat", wrong, status=2, saying="")
            self.fails("put", "-", wrong, status=2, saying="")

    def test_help_is_no_error(self):
        for command in ([], ["put"], ["get"], ["bucket", "create"], ["serve"]):
            self.assertIn("forebay", self.forebay(*command, "--help").text)

    def test_version(self):
        self.assertRegex(self.forebay("version").text, r"\Aforebay \d+\.\d+\.\d+")
        self.assertRegex(self.forebay("version", "--json").json["version"], r"\A\d+\.\d+\.\d+")

    def test_without_a_server_it_says_how_to_start_one(self):
        self.fails("ls", saying=["forebay serve", "--credentials"])

    def test_a_server_that_is_gone_is_named(self):
        server = self.start_server()
        credentials = server.credentials
        server.terminate()
        self.fails("--server", server.control, "--credentials", credentials, "ls", saying=server.control)

    def test_missing_credentials_are_named(self):
        self.fails("--server", "127.0.0.1:1", "--credentials", "/nonexistent/credentials", "ls", saying="/nonexistent/credentials")

    def test_global_flags_stand_before_or_after(self):
        server = self.start_server(options=["--no-profile"])
        flags = ["--server", server.control, "--credentials", server.credentials, "--json"]
        self.forebay(*flags, "bucket", "create", "box")
        self.assertEqual(self.forebay("bucket", "ls", *flags).json["name"], "box")
        self.assertEqual(self.forebay("ls", *flags).json["name"], "box")


def crc32c(data):
    """CRC-32C by the book (reflected polynomial 0x82f63b78), eight bytes a step."""
    tables = [[0] * 256 for _ in range(8)]
    for value in range(256):
        crc = value
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        tables[0][value] = crc
    for value in range(256):
        for row in range(1, 8):
            previous = tables[row - 1][value]
            tables[row][value] = (previous >> 8) ^ tables[0][previous & 255]
    t0, t1, t2, t3, t4, t5, t6, t7 = tables
    crc = 0xFFFFFFFF
    whole = len(data) // 8 * 8
    words = memoryview(data[:whole]).cast("Q")
    for word in words:
        word ^= crc
        crc = (
            t7[word & 255] ^ t6[(word >> 8) & 255] ^ t5[(word >> 16) & 255] ^ t4[(word >> 24) & 255]
            ^ t3[(word >> 32) & 255] ^ t2[(word >> 40) & 255] ^ t1[(word >> 48) & 255] ^ t0[word >> 56])
    for byte in data[whole:]:
        crc = (crc >> 8) ^ t0[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


if __name__ == "__main__":
    forebay_process.main()
