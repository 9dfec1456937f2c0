# SPDX-License-Identifier: Apache-2.0
"""TLS as its users see it: `forebay certs`, a server that asks for certificates, and what each side says when one is wrong.
The peers that are wrong, and the certificates that `forebay certs` would not make, come from the openssl command and from Python."""

import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import threading
import unittest

import forebay_process
from forebay_process import MIB, ForebayTest, pieces, wait_until


def own_address():
    """An address of this machine beyond loopback; none where there is no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            address = probe.getsockname()[0]
        except OSError:
            return None
    return None if address.startswith("127.") else address


class TlsTest(ForebayTest):
    def setUp(self):
        super().setUp()
        self.authority = self.directory / "ca"
        self.forebay("certs", "init", self.authority)

    def certificate(self, kind, *options, authority=None):
        """The directory with a new certificate."""
        return self.forebay("--json", "certs", kind, authority or self.authority, *options).json["tls"]

    def tls_server(self, *options, **more):
        self.server_tls = self.certificate("server", "--host", "store.example")
        return self.start_server(options=["--tls", self.server_tls, *options], **more)

    def by_openssl(self, name, *, subject, extension, dates=()):
        """A certificate of our authority by the openssl command, in a directory as --tls takes it."""
        if not shutil.which("openssl"):
            self.skipTest("there is no openssl command")
        made = self.directory / name
        made.mkdir()

        def openssl(*arguments):
            subprocess.run(["openssl", *map(str, arguments)], cwd=made, check=True, capture_output=True, timeout=60)

        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "tls.key", "-out", "request",
                "-subj", f"/CN={subject}")
        (made / "index").touch()
        (made / "serial").write_text("4711\n")
        (made / "extensions").write_text(extension)
        (made / "ca.conf").write_text(
            "[ca]\ndefault_ca=here\n[here]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\npolicy=any\n"
            "[any]\ncommonName=supplied\n")
        openssl("ca", "-batch", "-notext", "-config", "ca.conf", "-cert", self.authority / "ca.crt", "-keyfile",
                self.authority / "ca.key", "-extfile", "extensions", "-in", "request", "-out", "tls.crt", *(dates or ("-days", "30")))
        shutil.copy(self.authority / "ca.crt", made / "ca.crt")
        os.chmod(made / "tls.key", 0o600)
        return made

    def shake(self, address, directory):
        """A handshake by Python; what the server says to it: bytes, or an error."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.authority / "ca.crt")
        context.set_alpn_protocols(["h2"])
        if directory:
            context.load_cert_chain(f"{directory}/tls.crt", f"{directory}/tls.key")
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=20) as plain:
            with context.wrap_socket(plain, server_hostname="store.example") as channel:
                return channel.recv(64)

    def refused(self, address, directory):
        try:
            return self.shake(address, directory) == b""  # closed in its face
        except (ssl.SSLError, ConnectionError):
            return True


class CertsTest(TlsTest):
    def test_what_is_made_holds_before_openssl(self):
        server = self.certificate("server", "--host", "store1", "--host", "10.0.0.5", "--days", "30")
        client = self.certificate("client", "--name", "alice")
        self.assertEqual((server, client), (f"{self.authority}/server-store1", f"{self.authority}/client-alice"))
        for key in (f"{server}/tls.key", f"{client}/tls.key", self.authority / "ca.key"):
            self.assertEqual(os.stat(key).st_mode & 0o777, 0o600, key)
        if not shutil.which("openssl"):
            self.skipTest("there is no openssl command")
        for directory, purpose, good in ((server, "sslserver", True), (server, "sslclient", True), (client, "sslclient", True),
                                         (client, "sslserver", False)):
            done = subprocess.run(["openssl", "verify", "-x509_strict", "-CAfile", f"{directory}/ca.crt", "-purpose", purpose,
                                   f"{directory}/tls.crt"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode == 0, good, done.stdout + done.stderr)

        shown = self.forebay("--json", "certs", "show", server).json_lines
        self.assertEqual([line["file"] for line in shown], [f"{server}/tls.crt", f"{server}/ca.crt"])
        self.assertEqual(shown[0]["hosts"], "store1, 10.0.0.5, localhost, 127.0.0.1, ::1")
        theirs = subprocess.run(["openssl", "x509", "-in", f"{server}/tls.crt", "-noout", "-fingerprint", "-sha256", "-enddate",
                                 "-dateopt", "iso_8601"], capture_output=True, text=True, check=True, timeout=60).stdout
        self.assertIn(shown[0]["sha256"].upper(), theirs.replace(":", ""))
        self.assertIn(shown[0]["not_after"].replace("T", " "), theirs)
        self.assertIn("until    " + shown[0]["not_after"], self.forebay("certs", "show", f"{server}/tls.crt").text)

    def test_nothing_is_overwritten(self):
        client = self.certificate("client", "--name", "alice")
        before = pathlib.Path(client, "tls.key").read_bytes()
        self.fails("certs", "client", self.authority, "--name", "alice", saying=[client, "--out"])
        self.fails("certs", "init", self.authority, saying=[f"{self.authority}/ca.key", "never overwritten"])
        self.assertEqual(pathlib.Path(client, "tls.key").read_bytes(), before)
        self.forebay("certs", "client", self.authority, "--name", "alice", "--out", self.directory / "new")

    def test_what_is_wrong_is_said(self):
        self.fails("certs", "client", self.authority, "--name", "a/b", status=2, saying="`a/b`")
        self.fails("certs", "server", self.authority, "--host", "a,b", status=2, saying="`a,b`")
        self.fails("certs", "client", self.authority, "--name", "a", "--days", "9999", status=2, saying="--days")
        self.fails("certs", "client", self.directory, "--name", "a", saying=f"{self.directory}/ca.crt")
        self.fails("certs", "show", self.directory / "state", saying="state")
        os.chmod(self.authority / "ca.key", 0o644)
        self.fails("certs", "client", self.authority, "--name", "a", saying="chmod 600")


class CryptoBenchTest(ForebayTest):
    def test_it_measures_without_a_server(self):
        lines = self.forebay("--json", "bench", "crypto").json_lines
        mac, request = lines[0], lines[1]
        self.assertEqual(mac["bytes"], 160)
        self.assertAlmostEqual(request["microseconds"], 4 * mac["microseconds"])
        self.assertGreater(mac["microseconds"], 0.02)  # of 160 bytes: no processor is faster
        tls = {line["bytes"]: line["microseconds"] for line in lines if line["what"].startswith("TLS of")}
        self.assertEqual(sorted(tls), [4096, MIB, 64 * MIB])
        self.assertGreater(tls[64 * MIB], 16 * tls[MIB])


class ControlTlsTest(TlsTest):
    def test_commands_of_the_same_user_need_no_flags(self):
        server = self.tls_server()
        self.forebay("bucket", "create", "box")
        content = b"".join(pieces(3 * MIB, seed_value=4))
        self.forebay("put", "-", "box/a", input=content)
        self.assertTrue(self.forebay("cat", "box/a").bytes == content)
        client = self.certificate("client", "--name", "alice")
        flags = ["--server", server.control, "--credentials", server.credentials]
        self.forebay("ls", *flags, "--tls", client)
        self.forebay("ls", *flags, environment=self.environment | {"FOREBAY_TLS": client})
        self.assertNotEqual(self.shake(server.control, client), b"")

    def test_without_a_certificate(self):
        server = self.tls_server()
        flags = ["--server", server.control, "--credentials", server.credentials]
        environment = self.environment | {"XDG_STATE_HOME": str(self.directory / "nothing")}
        self.fails("ls", *flags, environment=environment, saying=[server.control, "--tls DIR"])
        self.assertTrue(self.refused(server.control, None))
        wait_until(lambda: "the client has no certificate" in server.log.read_text(), "the server's log says so")
        self.assertIn("the client does not speak TLS", server.log.read_text())
        self.forebay("ls")

    def test_a_client_of_another_authority(self):
        server = self.tls_server()
        stranger = self.directory / "stranger"
        self.forebay("certs", "init", stranger)
        client = pathlib.Path(self.certificate("client", "--name", "mallory", authority=stranger))
        flags = ["--server", server.control, "--credentials", server.credentials, "--tls", client]
        self.fails("ls", *flags, saying=[server.control, "certificate", "not accepted"])  # it does not believe the server
        believing = self.by_openssl("believing", subject="x", extension="extendedKeyUsage=clientAuth")
        for name in ("tls.crt", "tls.key"):
            shutil.copy(client / name, believing / name)
        self.fails("ls", *flags[:-1], believing, saying=["tls.crt is not of the authority in"])  # found before it is tried
        self.assertTrue(self.refused(server.control, client))
        wait_until(lambda: "the client's certificate is not accepted" in server.log.read_text(), "the server's log says so")
        self.assertIn("the client does not accept this server's certificate", server.log.read_text())
        self.forebay("ls")

    def test_expired_ones(self):
        past = ("-startdate", "20200101000000Z", "-enddate", "20200201000000Z")
        client = self.by_openssl("client", subject="old", extension="extendedKeyUsage=clientAuth", dates=past)
        host = self.by_openssl("host", subject="old", dates=past,
                               extension="extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=IP:127.0.0.1")
        server = self.tls_server()
        self.fails("ls", "--tls", client, saying=[f"{client}/tls.crt expired 2020-02-01", "forebay certs"])
        self.assertTrue(self.refused(server.control, client))
        self.assertNotEqual(self.shake(server.control, self.server_tls), b"")
        self.fails("serve", self.directory / "second", "--listen", "127.0.0.1:0", "--tls", host,
                   saying=f"{host}/tls.crt expired 2020-02-01")
        self.assertFalse((self.directory / "second").exists(), "nothing is touched")
        with self.stand_in(host) as address:
            self.fails("--server", address, "--credentials", server.credentials, "--tls", self.server_tls, "ls",
                       saying=[address, "`old`", "expired"])

    def stand_in(self, directory):
        """A server that has nothing but a certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
        context.set_alpn_protocols(["h2"])
        return StandIn(context)

    def test_a_server_by_another_name(self):
        server = self.tls_server()
        port = server.control.rsplit(":", 1)[1]
        client = self.certificate("client", "--name", "alice")
        rest = ["--credentials", server.credentials, "--tls", client]
        self.fails("--server", f"127.0.0.2:{port}", *rest, "ls", saying="no Forebay server answers")
        self.forebay("--server", f"localhost:{port}", *rest, "ls")
        other = self.by_openssl("other", subject="other", extension="extendedKeyUsage=serverAuth\nsubjectAltName=DNS:other.example")
        with self.stand_in(other) as address:
            self.fails("--server", address, *rest, "ls", saying=["`other`, other.example, not for 127.0.0.1", "--host 127.0.0.1"])

    def test_a_clients_certificate_is_no_servers(self):
        client = self.certificate("client", "--name", "alice")
        self.fails("serve", self.directory / "second", "--listen", "127.0.0.1:0", "--tls", client, saying=["is not for a server"])
        with self.stand_in(self.by_openssl("posing", subject="posing",
                                           extension="extendedKeyUsage=clientAuth\nsubjectAltName=IP:127.0.0.1")) as address:
            server = self.start_server()
            self.fails("--server", address, "--credentials", server.credentials, "--tls", client, "ls", saying=["purpose"])

    def test_a_server_without_tls(self):
        server = self.start_server()
        client = self.certificate("client", "--name", "alice")
        self.fails("ls", "--tls", client, saying=[server.control, "does not speak TLS"])

    def test_keys_that_others_can_read(self):
        server = self.certificate("server", "--host", "store1")
        client = self.certificate("client", "--name", "alice")
        for directory in (server, client):
            os.chmod(f"{directory}/tls.key", 0o640)
        self.fails("serve", self.directory / "store", "--listen", "127.0.0.1:0", "--tls", server,
                   saying=[f"chmod 600 {server}/tls.key"])
        self.start_server()
        self.fails("ls", "--tls", client, saying=[f"chmod 600 {client}/tls.key"])

    def test_tls_for_data_on_loopback_is_there_for_who_asks(self):
        self.server_tls = self.certificate("server", "--host", "store.example")
        server = self.start_server(options=["--tls", self.server_tls, "--fabric", "tcp", "--fabric", "tcp:tls"])
        self.assertEqual(server.ready["fabrics"], "tcp,tcp;tls")
        self.forebay("bucket", "create", "box")
        for fabric in ("tcp:tls", "tcp", "tcp:tls"):
            self.forebay("--fabric", fabric, "put", "-", "box/a", input=b"content")
            self.assertEqual(self.forebay("--fabric", fabric, "cat", "box/a").bytes, b"content")
        self.assertIn("tcp to 127.0.0.1", self.forebay("get", "box/a", "--to-memory").errors)
        self.fails("--fabric", "tcp:tls", "--server", server.control, "--credentials", server.credentials, "ls",
                   saying="--tls DIR")

    def test_new_certificates_are_used_without_a_restart(self):
        server = self.tls_server()
        new = pathlib.Path(self.certificate("server", "--host", "new.example", "--out", str(self.directory / "new")))
        for name in ("tls.key", "tls.crt"):
            os.replace(new / name, pathlib.Path(self.server_tls) / name)

        def serves_the_new_one():
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(self.authority / "ca.crt")
            context.set_alpn_protocols(["h2"])
            host, port = server.control.rsplit(":", 1)
            try:
                with socket.create_connection((host, int(port)), timeout=20) as plain:
                    context.wrap_socket(plain, server_hostname="new.example").close()
                return True
            except (ssl.SSLError, ConnectionError):
                return False

        wait_until(serves_the_new_one, "the server uses its new certificate", within_s=60)
        self.forebay("ls")


class BeyondLoopbackTest(TlsTest):
    def setUp(self):
        super().setUp()
        self.address = own_address()
        if self.address is None:
            self.skipTest("this machine has no address beyond loopback")

    def refuses(self, *options, saying):
        self.fails("serve", self.directory / "refused", *options, status=2, saying=saying)
        self.assertFalse((self.directory / "refused").exists(), "nothing is touched")

    def test_plaintext_has_to_be_said_twice(self):
        listen = ["--listen", f"{self.address}:0"]
        self.refuses(*listen, saying=[self.address, "--tls DIR", "--allow-plaintext"])
        self.refuses(*listen, "--allow-plaintext", saying=[self.address, "--allow-plaintext-control"])
        self.refuses(*listen, "--allow-plaintext-control", saying="counts only with --allow-plaintext")
        server = self.start_server(listen=listen[1], options=["--allow-plaintext", "--allow-plaintext-control"])
        self.assertTrue(server.control.startswith(self.address))
        self.forebay("bucket", "create", "box")
        tls = self.certificate("server", "--host", self.address)
        self.refuses(*listen, "--tls", tls, "--allow-plaintext", "--allow-plaintext-control", saying="contradict")


    def test_the_data_plane_is_encrypted(self):
        tls = self.certificate("server", "--host", self.address)
        server = self.start_server(listen=f"{self.address}:0", options=["--tls", tls])
        self.assertEqual(server.ready["fabrics"], "shm,tcp;tls")
        self.forebay("bucket", "create", "box")
        content = b"".join(pieces(20 * MIB + 3, seed_value=7))
        client = self.certificate("client", "--name", "alice")
        flags = ["--tls", client, "--fabric", "tcp:tls"]
        done = self.forebay("put", "-", "box/a", *flags, input=content)
        self.assertIn(f"tcp;tls to {self.address}:", done.errors + done.text)
        self.assertTrue(self.forebay("cat", "box/a", *flags).bytes == content)
        self.fails("--fabric", "tcp", "cat", "box/a", saying=["this client over `tcp`"])
        self.forebay("--tls", client, "doctor")
        self.assertTrue(self.refused(server.data, client), "another protocol inside of TLS")

    def test_every_address_and_rdma_movers_in_the_clear(self):
        tls = self.certificate("server", "--host", self.address)
        self.refuses("--listen", "0.0.0.0:0", "--tls", tls, saying=["name one that they can reach", "--data-listen"])
        server = self.start_server(listen="0.0.0.0:0", options=["--tls", tls, "--data-listen", f"{self.address}:0"])
        self.forebay("bucket", "create", "box")  # by the profile: over loopback
        port = server.control.rsplit(":", 1)[1]
        self.forebay("--server", f"{self.address}:{port}", "--credentials", server.credentials, "--tls", tls, "--fabric", "tcp:tls",
                     "put", "-", "box/a", input=b"content")
        plain = ["--listen", "127.0.0.1:0", "--tls", tls, "--data-listen", f"{self.address}:0"]
        for fabric in ("tcp", "ofi:tcp"):
            self.refuses(*plain, "--fabric", fabric, saying=["would not be encrypted"])
        self.start_server("third", options=["--data-listen", f"{self.address}:0", "--allow-plaintext", "--tls", tls])


class StandIn:
    """Accepts TLS connections and says nothing more."""

    def __init__(self, context):
        self.context = context
        self.listener = socket.create_server(("127.0.0.1", 0))

    def __enter__(self):
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        return "127.0.0.1:%d" % self.listener.getsockname()[1]

    def serve(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            plain.settimeout(20)
            try:
                with self.context.wrap_socket(plain, server_side=True) as channel:
                    channel.recv(1)
            except OSError:
                plain.close()

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(30)


if __name__ == "__main__":
    forebay_process.main()
