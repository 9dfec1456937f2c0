# SPDX-License-Identifier: Apache-2.0
"""Peers that mean no good against a real server's ports, over raw TCP: it drops them in bounded time, gives nothing away, and
serves a good client all the while. Formats by docs/formats/fabric-tcp.md and data-plane.md, written down here once more."""

import os
import random
import socket
import struct
import time

import forebay_process
from forebay_process import MIB, ForebayTest, pieces, seed, sized, wait_until

MESSAGE, WRITE, READ = 1, 3, 5
SILENT_S = 15  # are allowed to a connection
DROPPED_WITHIN_S = 60  # a loaded machine adds to it


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sealed(fields):
    return fields + struct.pack("<I", crc32c(fields))


def preamble(version=1, role=1, max_message=256 * 1024, max_transfer=MIB, max_transfers=64):
    return sealed(struct.pack("<IHBxIII16x", 0x46594246, version, role, max_message, max_transfer, max_transfers))


def frame(kind, payload=b"", *, code=0, length=None, identity=0, key=0, offset=0, count=0):
    length = len(payload) if length is None else length
    return sealed(struct.pack("<BxHIQQQI", kind, code, length, identity, key, offset, count)) + payload


def data_message(kind, body=b"", session=0x1234567890ABCDEF, counter=1, body_bytes=None, payload_bytes=0, mac=bytes(16)):
    length = len(body) if body_bytes is None else body_bytes
    return struct.pack("<IBBHHHIIIQQQ16sQQ16s", 0x31594246, 1, kind, 0, 96, 0, length, payload_bytes, 0, session, counter, 1,
                       bytes(range(16)), 0, 1, mac) + body


class HostileClientTest(ForebayTest):
    def setUp(self):
        super().setUp()
        self.dice = random.Random(seed())
        self.server = self.start_server(options=["--lend", "0"])  # lent memory is descriptors, too
        self.forebay("bucket", "create", "box")
        self.content = b"".join(pieces(2 * MIB, seed_value=6))
        self.forebay("put", "-", "box/a", input=self.content)
        self.descriptors = self.count_descriptors()

    def count_descriptors(self):
        return len(os.listdir(f"/proc/{self.server.pid}/fd"))

    def connect(self, address=None):
        host, port = (address or self.server.data).rsplit(":", 1)
        peer = socket.create_connection((host, int(port)), timeout=DROPPED_WITHIN_S)
        self.addCleanup(peer.close)
        return peer

    def greeted(self):
        """A connection whose preambles are exchanged: what comes next is frames."""
        peer = self.connect()
        peer.sendall(preamble())
        answer = b""
        while len(answer) < 40:
            more = peer.recv(40 - len(answer))
            self.assertNotEqual(more, b"", "the server closed a connection with a good preamble")
            answer += more
        self.assertEqual(answer[:4], b"FBYF")
        return peer

    @staticmethod
    def send(peer, data):
        try:
            peer.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # dropped already

    def received_until_dropped(self, peer):
        received = b""
        deadline = time.monotonic() + DROPPED_WITHIN_S
        while time.monotonic() < deadline:
            try:
                more = peer.recv(65536)
            except ConnectionResetError:
                return received
            except TimeoutError:
                break
            if not more:
                return received
            received += more
        self.fail(f"the server kept the connection for {DROPPED_WITHIN_S} s")

    def assert_dropped(self, peer, data):
        """And nothing of what is stored came back."""
        self.send(peer, data)
        received = self.received_until_dropped(peer)
        self.assertLess(len(received), 1024)
        peer.close()

    def assert_well(self):
        """Serves a good client, and has given back what the others cost."""
        self.assertTrue(self.server.running(), self.server.log_tail())
        self.assertTrue(self.forebay("cat", "box/a").bytes == self.content)
        self.forebay("put", "-", "box/b", input=b"still writable")
        wait_until(lambda: self.count_descriptors() <= self.descriptors + 2, "its descriptors are given back", within_s=DROPPED_WITHIN_S)

    def test_garbage_instead_of_a_preamble(self):
        for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(40), bytes(40), b"\xff" * 4096, b"FBYF" + b"\xff" * 36,
                     preamble(version=2), preamble(role=2), preamble(role=9), preamble()[:-1] + b"\x00",
                     self.dice.randbytes(100_000)):
            self.assert_dropped(self.connect(), data)
        self.assert_well()

    def test_limits_of_nothing_and_of_everything_in_the_preamble(self):
        for limit in (0, 1, 0xFFFFFFFF):
            peer = self.connect()
            self.assert_dropped(peer, preamble(max_message=limit, max_transfer=limit, max_transfers=limit) + b"\xff" * 200)
        self.assert_well()

    def test_connections_that_close_half_way(self):
        whole = preamble() + frame(MESSAGE, data_message(1, b"\x04\x00evil"))
        for length in list(range(0, len(whole), sized(3, 17))):
            peer = self.connect()
            self.send(peer, whole[:length])
            peer.close()
        self.assert_well()

    def test_frames_that_break_the_rules(self):
        for data in (
            bytes(40),
            self.dice.randbytes(400),
            frame(MESSAGE, b"x")[:-2] + b"!!" + bytes(40),
            frame(MESSAGE, length=0xFFFFFFFF) + bytes(1000),
            frame(MESSAGE, length=256 * 1024 + 1) + bytes(1000),
            frame(99),
            frame(MESSAGE, b"x", identity=1),
            frame(READ, identity=1, key=1, count=0xFFFFFFFF),
            frame(WRITE, length=2 * MIB, identity=1, key=1) + bytes(1000),
            frame(4, code=1, identity=77),  # the end of a transfer that nobody began
            frame(6, b"x" * 1000, identity=77),  # data of a read that nobody asked for
            frame(7, code=0, identity=77),
            frame(2, count=0xFFFFFFFF),  # more credit than was ever used
        ):
            self.assert_dropped(self.greeted(), data)
        self.assert_well()

    def test_messages_that_break_the_rules(self):
        hello = b"\x04\x00evil"
        for message in (
            b"",
            b"x",
            self.dice.randbytes(96),
            self.dice.randbytes(5000),
            data_message(1, hello),  # a session that does not exist
            data_message(1, hello, session=0),
            data_message(2, self.dice.randbytes(200)),  # Get before Hello
            data_message(3, self.dice.randbytes(200)),
            data_message(1, hello, body_bytes=0xFFFFFFFF),
            data_message(1, hello, body_bytes=0),
            data_message(1, hello, payload_bytes=0xFFFFFFFF),
            data_message(255, hello),
            data_message(1, hello, counter=0),
            data_message(1, hello)[:95],
        ):
            self.assert_dropped(self.greeted(), frame(MESSAGE, message))
        self.assert_well()

    def test_memory_of_the_server_is_never_offered(self):
        """Reads and writes with guessed keys are refused, and no byte comes back."""
        for key in (1, 2, 0x7FFF00000000, *(self.dice.getrandbits(64) | 1 for _ in range(20))):
            peer = self.greeted()
            self.send(peer, frame(READ, identity=1, key=key, count=4096))
            self.send(peer, frame(WRITE, b"x" * 64, identity=2, key=key))
            self.assertLess(len(self.received_until_dropped_or(peer, 2 * 40)), 1024)
            peer.close()
        self.assert_well()

    def received_until_dropped_or(self, peer, enough):
        received = b""
        while len(received) < enough:
            try:
                more = peer.recv(65536)
            except ConnectionResetError:
                break
            if not more:
                break
            received += more
        return received

    def test_two_hundred_connections_opened_and_reset(self):
        for number in range(200):
            peer = self.connect()
            if number % 3:
                self.send(peer, preamble()[: 40 if number % 3 == 1 else 13])
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
        self.assert_well()

    def test_silent_connections_are_dropped_in_bounded_time(self):
        """More of them than the server greets at once, and in each state short of a session."""
        silent = [self.connect() for _ in range(300)]
        half = [self.connect() for _ in range(20)]
        for peer in half:
            self.send(peer, preamble()[:20])
        no_hello = [self.greeted() for _ in range(20)]
        started = time.monotonic()
        self.assertTrue(self.forebay("cat", "box/a").bytes == self.content)
        self.assertLess(time.monotonic() - started, SILENT_S, "a good client does not wait for the silent ones")
        for peer in silent + half + no_hello:
            self.received_until_dropped(peer)
            self.assertLess(time.monotonic() - started, DROPPED_WITHIN_S)
        self.assert_well()

    def test_one_that_dribbles_is_dropped_in_bounded_time(self):
        """A byte now and then is not progress."""
        peer = self.connect()
        peer.settimeout(0.5)
        started = time.monotonic()
        for byte in preamble()[:-1] * 10:
            self.assertLess(time.monotonic() - started, DROPPED_WITHIN_S)
            try:
                peer.sendall(bytes([byte]))
                if peer.recv(4096) == b"":
                    break
            except TimeoutError:
                continue
            except (BrokenPipeError, ConnectionResetError):
                break
        else:
            self.fail("the server took all of it")
        self.assert_well()

    def test_messages_that_never_end(self):
        """Big messages that are never finished do not add up to memory."""
        before = self.resident_bytes()
        peers = [self.greeted() for _ in range(100)]
        for peer in peers:
            self.send(peer, frame(MESSAGE, length=256 * 1024) + bytes(200))
        self.assertTrue(self.forebay("cat", "box/a").bytes == self.content)
        self.assertLess(self.resident_bytes() - before, sized(100, 400) * 300 * 1024)
        for peer in peers:
            self.received_until_dropped(peer)
        self.assert_well()

    def resident_bytes(self):
        with open(f"/proc/{self.server.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def test_the_control_port(self):
        for data in (b"GET / HTTP/1.1\r\n\r\n", bytes(1000), self.dice.randbytes(100_000),
                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self.dice.randbytes(1000)):
            peer = self.connect(self.server.control)
            self.send(peer, data)
            peer.close()
        for _ in range(200):
            peer = self.connect(self.server.control)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
        self.assert_well()


if __name__ == "__main__":
    forebay_process.main()
