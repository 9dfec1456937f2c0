# SPDX-License-Identifier: Apache-2.0
"""`forebay serve` from the outside: how it starts, is found, refuses, drains and ends."""

import os
import pathlib
import re
import select
import shutil
import socket
import subprocess
import threading
import time

import forebay_process
from forebay_process import MIB, Child, ForebayTest, Settings, pieces, seed

NOBODY = 65534


class StartTest(ForebayTest):
    def test_the_ready_line_says_where_everything_is(self):
        server = self.start_server()
        self.assertRegex(server.ready["control"], r"\A127\.0\.0\.1:[1-9]\d*\Z")
        self.assertRegex(server.ready["data"], r"\A127\.0\.0\.1:[1-9]\d*\Z")
        self.assertEqual(server.ready["store"], str(server.store))
        self.assertEqual(server.ready["credentials"], str(server.store / "credentials"))
        self.assertEqual(int(server.ready["pid"]), server.pid)

    def test_a_relative_directory_is_shown_absolute(self):
        process = self.start_command("serve", "here", "--listen", "127.0.0.1:0", "--size", "256MiB", "--no-profile",
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=self.directory)
        self.assertIn(f" store={self.directory}/here ", process.stdout.readline().decode())
        process.terminate()
        self.assertEqual(process.wait(60), 0)

    def test_sigint_and_sigterm_end_it_with_0(self):
        for send in ("terminate", "interrupt"):
            server = self.start_server(send)
            if send == "interrupt":
                server.process.send_signal(2)
                self.assertEqual(server.wait(), 0)
            else:
                self.assertEqual(server.terminate(), 0)

    def test_what_was_stored_is_there_after_a_restart(self):
        server = self.start_server()
        self.forebay("bucket", "create", "box")
        large = b"".join(pieces(5 * MIB, seed_value=1))
        self.forebay("put", "-", "box/small", "--metadata", "a=b", input=b"small")
        self.forebay("put", "-", "box/large", input=large)
        before = self.forebay("ls", "box", "-r", "--json").json_lines
        server.restart()
        self.assertEqual(self.forebay("ls", "box", "-r", "--json").json_lines, before)
        self.assertEqual(self.forebay("cat", "box/small").bytes, b"small")
        self.assertTrue(self.forebay("cat", "box/large").bytes == large)

    def test_fsck_of_a_stopped_store(self):
        server = self.start_server()
        self.forebay("bucket", "create", "box")
        self.forebay("put", "-", "box/a", input=b"x" * 100_000)
        self.fails("fsck", server.store, saying=str(server.store))
        server.terminate()
        self.forebay("fsck", server.store)
        self.forebay("fsck", server.store, "--data")
        self.assertIsInstance(self.forebay("fsck", server.store, "--data", "--json").json_lines, list)

    def test_fsck_of_no_store(self):
        self.fails("fsck", self.directory / "none", saying=str(self.directory / "none"))

    def test_serve_makes_no_store_among_other_files(self):
        other = self.directory / "other"
        other.mkdir()
        (other / "thesis.tex").write_text("years of work")
        server = self.make_server("other")
        with self.assertRaisesRegex(SystemError, r"exit status 1[^;]*; log:\nforebay: .*thesis.tex"):
            server.start()
        self.assertEqual(os.listdir(other), ["thesis.tex"])


class RefusalTest(ForebayTest):
    """What `serve` refuses is one line that says what to do; exit status 1 or 2, no ready line."""

    def refused(self, *options, saying, store=None):
        finished = self.forebay("serve", store or self.directory / "refused", "--size", "256MiB", *options, status=None, within_s=60)
        self.assertIn(finished.status, (1, 2))
        self.assertEqual(finished.bytes, b"")
        last = finished.errors.splitlines()[-1]
        self.assertTrue(last.startswith("forebay: "), finished.errors)
        for word in saying:
            self.assertIn(word, finished.errors)

    def test_a_second_server_on_the_same_store(self):
        server = self.start_server()
        self.refused("--listen", "127.0.0.1:0", store=server.store, saying=[str(server.store), "in use"])
        self.forebay("bucket", "create", "still-served")

    def test_a_port_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            self.refused("--listen", address, "--data-listen", "127.0.0.1:0", saying=[address])
            self.refused("--listen", "127.0.0.1:0", "--data-listen", address, saying=[address])

    def test_two_servers_do_not_share_a_port(self):
        server = self.start_server()
        self.refused("--listen", server.control, saying=[server.control])
        self.refused("--listen", "127.0.0.1:0", "--data-listen", server.data, saying=[server.data])

    def test_addresses_beyond_loopback(self):
        for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:7400", "10.0.0.1:0"):
            self.refused("--listen", address, saying=[address, "loopback"])
            self.refused("--listen", "127.0.0.1:0", "--data-listen", address, saying=[address, "loopback"])
            self.refused("--listen", "127.0.0.1:0", "--fabric", f"tcp={address}", saying=[address, "--allow-plaintext"])
            self.refused("--listen", address, "--allow-plaintext", saying=[address, "loopback"])
        self.assertFalse((self.directory / "refused").exists(), "nothing is made before the options are known to be good")

    def test_data_beyond_loopback_when_plaintext_is_allowed(self):
        self.refused("--data-listen", "0.0.0.0:0", "--allow-plaintext", saying=["0.0.0.0", "reach"])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))  # sends nothing; tells by which address this machine would go out
            except OSError as error:
                self.skipTest(f"this machine has no address beyond loopback: {error}")
            host = probe.getsockname()[0]
        server = self.start_server("open", options=["--data-listen", f"{host}:0", "--allow-plaintext"])
        self.assertTrue(server.data.startswith(host + ":"), server.data)
        self.forebay("bucket", "create", "box")
        self.forebay("put", "-", "box/a", input=b"over the network")
        self.assertEqual(self.forebay("cat", "box/a").bytes, b"over the network")

    def test_fabrics_that_are_none(self):
        self.refused("--fabric", "pigeon", saying=["`pigeon`", "tcp"])
        self.refused("--fabric", "tcp=", saying=["address"])
        self.refused("--fabric", "tcp", "--fabric", "tcp=127.0.0.1:0", saying=["twice"])

    def test_malformed_options(self):
        for options in (["--listen", "127.0.0.1"], ["--listen", "127.0.0.1:99999"], ["--listen", "localhost:http"],
                        ["--memory", "lots"], ["--reactors", "-1"], ["--log-level", "loud"]):
            finished = self.forebay("serve", self.directory / "refused", *options, status=2)
            self.assertIn(options[0].lstrip("-"), finished.errors)
        self.forebay("serve", self.directory / "refused", "--size", "small", status=2)
        self.refused("--lend", "100K", saying=["--lend 100.0 KiB", "2.0 MiB"])
        self.refused("--lend", "some", saying=["--lend"])

    def test_credentials_that_others_can_read(self):
        server = self.start_server()
        server.terminate()
        credentials = pathlib.Path(server.credentials)
        credentials.chmod(0o644)
        self.refused("--listen", "127.0.0.1:0", store=server.store, saying=[str(credentials), "chmod 600"])


class CredentialsTest(ForebayTest):
    def setUp(self):
        super().setUp()
        self.server = self.start_server()
        self.forebay("bucket", "create", "box")

    def test_the_file_is_for_its_owner_only(self):
        self.assertEqual(pathlib.Path(self.server.credentials).stat().st_mode & 0o7777, 0o600)

    def test_a_copy_works_elsewhere(self):
        copy = self.directory / "copy"
        shutil.copy(self.server.credentials, copy)
        copy.chmod(0o600)
        self.forebay("--credentials", copy, "ls")

    def test_a_copy_that_others_can_read_is_refused(self):
        copy = self.directory / "copy"
        shutil.copy(self.server.credentials, copy)
        copy.chmod(0o644)
        self.fails("--credentials", copy, "ls", saying=[str(copy), "chmod 600"])

    def test_another_servers_are_refused(self):
        other = self.start_server("other", options=["--no-profile"])
        refused = self.fails("--credentials", other.credentials, "ls", saying="credential")
        self.assertNotIn(secret_of(self.server), refused.errors)
        self.fails("--credentials", other.credentials, "put", "-", "box/a", input=b"x", saying="credential")

    def test_a_wrong_secret_with_the_right_name_is_refused(self):
        copy = self.directory / "copy"
        secret = secret_of(self.server)
        wrong = pathlib.Path(self.server.credentials).read_text().replace(secret, secret[::-1])
        copy.write_text(wrong)
        copy.chmod(0o600)
        refused = self.fails("--credentials", copy, "ls", saying="")
        self.assertNotIn(secret, refused.errors)

    def test_a_malformed_file_is_named(self):
        copy = self.directory / "copy"
        copy.write_text("what is this")
        copy.chmod(0o600)
        self.fails("--credentials", copy, "ls", saying=str(copy))

    def test_they_stay_the_same_over_a_restart_and_are_new_when_deleted(self):
        before = secret_of(self.server)
        self.server.restart()
        self.assertEqual(secret_of(self.server), before)
        self.server.terminate()
        old = self.directory / "old"
        shutil.move(self.server.credentials, old)
        self.server.start()
        self.assertNotEqual(secret_of(self.server), before)
        self.forebay("ls")
        self.fails("--credentials", old, "ls", saying="")

    def test_the_secret_is_nowhere_in_the_log(self):
        self.forebay("put", "-", "box/a", input=b"x")
        self.server.restart()
        self.assertNotIn(secret_of(self.server), self.server.log.read_text())


class ProfileTest(ForebayTest):
    """How the second terminal finds the server."""

    def test_of_the_home_directory(self):
        del self.environment["XDG_STATE_HOME"]
        server = self.start_server()
        profile = self.directory / "home/.local/state/forebay/profile.toml"
        self.assertEqual(profile.stat().st_mode & 0o7777, 0o600)
        self.assertIn(server.control, profile.read_text())
        self.forebay("bucket", "create", "box")
        self.assertEqual(self.forebay("ls").lines, ["box/"])

    def test_it_goes_with_the_server(self):
        server = self.start_server()
        profile = self.directory / "state/forebay/profile.toml"
        self.assertTrue(profile.exists())
        server.terminate()
        self.assertFalse(profile.exists())

    def test_the_last_server_wins_and_the_first_leaves_it_alone(self):
        first = self.start_server("first")
        self.forebay("bucket", "create", "of-first")
        self.start_server("second")
        self.assertEqual(self.forebay("ls").lines, [])
        first.terminate()
        self.assertEqual(self.forebay("ls").lines, [])

    def test_no_profile_writes_none(self):
        self.start_server(options=["--no-profile"])
        self.assertFalse((self.directory / "state/forebay/profile.toml").exists())

    def test_the_environment_goes_before_it_and_flags_before_that(self):
        servers = {name: self.start_server(name) for name in ("one", "two", "three")}
        for name, server in servers.items():
            self.forebay("--server", server.control, "--credentials", server.credentials, "bucket", "create", name)
        self.assertEqual(self.forebay("ls").lines, ["three/"])
        environment = self.environment | {
            "FOREBAY_SERVER": servers["two"].control, "FOREBAY_CREDENTIALS": servers["two"].credentials}
        self.assertEqual(self.forebay("ls", environment=environment).lines, ["two/"])
        flags = ["--server", servers["one"].control, "--credentials", servers["one"].credentials]
        self.assertEqual(self.forebay("ls", *flags, environment=environment).lines, ["one/"])

    def test_a_malformed_one_is_named(self):
        profile = self.directory / "state/forebay/profile.toml"
        profile.parent.mkdir(parents=True)
        profile.write_text("server = \n")
        self.fails("ls", saying=[str(profile), "line 1"])


class SlowServerTest(ForebayTest):
    """A machine that is busy lets its clients wait."""

    def test_a_server_that_greets_late_is_waited_for(self):
        server = self.start_server()
        with socket.create_server(("127.0.0.1", 0)) as late:
            forwarding = threading.Thread(target=self.forward_late, args=(late, server.control), daemon=True)
            forwarding.start()
            self.forebay("--server", "127.0.0.1:%d" % late.getsockname()[1], "bucket", "create", "box")
        forwarding.join(60)
        self.assertEqual(self.forebay("ls").lines, ["box/"])

    @staticmethod
    def forward_late(listener, address):
        """Passes one connection on, the first byte after a second."""
        client, _ = listener.accept()
        time.sleep(1)  # real time is the subject
        host, port = address.rsplit(":", 1)
        with client, socket.create_connection((host, int(port))) as server:
            other = {client: server, server: client}
            while True:
                for readable in select.select([client, server], [], [])[0]:
                    data = readable.recv(65536)
                    if not data:
                        return
                    other[readable].sendall(data)


class DrainTest(ForebayTest):
    """SIGTERM while a put is in progress: it ends whole or with an error, never half."""

    def setUp(self):
        super().setUp()
        self.server = self.start_server()
        self.forebay("bucket", "create", "box")
        self.forebay("put", "-", "box/before", input=b"acknowledged")
        self.content = b"".join(pieces(24 * MIB + 5, seed_value=9))
        self.put = self.start_command("put", "-", "box/during", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        self.put.stdin.write(self.content[: 20 * MIB])
        self.put.stdin.flush()

    def after_restart(self, acknowledged):
        self.forebay("fsck", self.server.store, "--data")
        self.server.start()
        self.assertEqual(self.forebay("cat", "box/before").bytes, b"acknowledged")
        there = "during" in self.forebay("ls", "box").lines
        if acknowledged:
            self.assertTrue(there)
        if there:
            self.assertTrue(self.forebay("cat", "box/during").bytes == self.content)

    def test_a_put_that_goes_on(self):
        self.server.process.terminate()
        try:
            self.put.stdin.write(self.content[20 * MIB :])
            self.put.stdin.close()
        except BrokenPipeError:
            pass  # it failed already
        status = self.put.wait(60)
        self.assertIn(status, (0, 1))
        if status == 1:
            self.assertRegex(self.put.stderr.read(), rb"\Aforebay: [^\n]+\n\Z")
        self.assertEqual(self.server.wait(), 0)
        self.after_restart(acknowledged=status == 0)

    def test_a_put_that_waits_for_ever(self):
        asked = time.monotonic()
        self.assertEqual(self.server.terminate(), 0)
        self.assertLess(time.monotonic() - asked, 40, "a client that gives nothing more holds it up for 10 s at most")
        try:
            self.put.stdin.close()
        except BrokenPipeError:
            pass
        self.assertEqual(self.put.wait(60), 1)
        self.after_restart(acknowledged=False)

    def test_a_client_that_is_frozen(self):
        self.put.send_signal(19)
        asked = time.monotonic()
        self.assertEqual(self.server.terminate(), 0)
        self.assertLess(time.monotonic() - asked, 40)
        self.put.kill()
        self.after_restart(acknowledged=False)


class DrainUnderLoadTest(ForebayTest):
    def test_acknowledged_puts_are_there_after_sigterm(self):
        server = self.start_server(size="2GiB")
        self.forebay("bucket", "create", "box")
        chosen = seed()
        writer = self.start_tool("write", *self.connection(server), "--bucket", "box", "--prefix", "load", "--writers", 8,
                                 "--seed", chosen, stdout=subprocess.PIPE)
        lines = [writer.stdout.readline() for _ in range(200)]
        self.assertEqual(server.terminate(), 0)
        lines += writer.stdout.readlines()
        self.assertEqual(writer.wait(60), 0)
        acknowledged = {line.split()[1].decode() for line in lines if line.startswith(b"put ")}
        touched = {line.split()[1].decode() for line in lines if line.startswith(b"deleting ")}
        self.forebay("fsck", server.store, "--data")
        server.start()
        audit = self.tool("audit", *self.connection(server), "--bucket", "box", "--seed", chosen).lines
        right = {line.split()[1] for line in audit if line.startswith("right ")}
        self.assertEqual([line for line in audit if not re.match("right |listed ", line)], [])
        self.assertEqual(acknowledged - touched - right, set())


class UnprivilegedTest(ForebayTest):
    """The first tour as a user without rights and with Debian's default of 8 MiB locked memory."""

    def test_serve_put_get_with_8_mib_of_locked_memory(self):
        program = Settings.program
        child = Child(memlock_bytes=8 * MIB)
        if os.geteuid() == 0:
            # The build directory may be closed to others: the program goes where they can run it.
            child = Child(user=NOBODY, memlock_bytes=8 * MIB)
            public = self.make_directory(pathlib.Path(f"/var/tmp/forebay-unprivileged-{os.getpid()}"))
            public.chmod(0o755)
            Settings.program = shutil.copy(program, public / "forebay")
            self.addCleanup(setattr, Settings, "program", program)
            self.directory = public / "work"
            for path in (self.directory, self.directory / "home"):
                path.mkdir()
                os.chown(path, NOBODY, NOBODY)
            self.environment |= {"HOME": str(self.directory / "home"), "XDG_STATE_HOME": str(self.directory / "state")}

        server = self.start_server(child=child)
        content = b"".join(pieces(20 * MIB + 3, seed_value=8))
        self.forebay("bucket", "create", "box", child=child)
        self.forebay("put", "-", "box/a", input=content, child=child)
        self.assertTrue(self.forebay("get", "box/a", "-", child=child).bytes == content)
        self.assertIn("sha256", self.forebay("get", "box/a", "--to-memory", child=child).text)
        if os.geteuid() == 0:
            self.assertEqual(os.stat(server.store).st_uid, NOBODY)
        server.restart()
        self.assertTrue(self.forebay("cat", "box/a", child=child).bytes == content)


def secret_of(server):
    return re.search(r'secret = "([0-9a-f]{64})"', pathlib.Path(server.credentials).read_text()).group(1)


if __name__ == "__main__":
    forebay_process.main()
