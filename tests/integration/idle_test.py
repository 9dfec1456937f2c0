# SPDX-License-Identifier: Apache-2.0
"""What a server costs while nothing happens. Measures: ctest runs it alone."""

import pathlib
import re
import subprocess
import time

import forebay_process
from forebay_process import KIB, Child, ForebayTest, Settings, report


LIMIT = 0.005  # of a core
WINDOWS = 3  # at most: on a busy machine the work of connecting may reach into the first


def cpu_seconds(pid):
    """Of all threads, those of io_uring included, in nanoseconds' resolution."""
    total = 0
    for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(stat.read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total / 1e9


def memory_bytes(pid):
    """Proportional share: what the process costs the machine."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss: +(\d+) kB", text, re.MULTILINE).group(1)) * KIB


class IdleTest(ForebayTest):
    def setUp(self):
        super().setUp()
        # Debian's default soft limit of open files, which a thousand sessions need more than.
        self.server = self.start_server(child=Child(open_files=1024))
        self.forebay("bucket", "create", "box")

    def hold(self, clients, connections):
        holder = self.start_tool("hold", *self.connection(self.server), "--bucket", "box", "--clients", clients,
                                 "--connections", connections, child=Child(open_files=20_000), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(holder.stdout.readline(), b"holding %d\n" % (clients * connections))
        return holder

    def release(self, holder):
        holder.stdin.close()
        self.assertEqual(holder.wait(60), 0)

    def measure_cpu(self, processes, windows=WINDOWS):
        """What each of the processes by name uses of a core while nothing happens."""
        used = {}
        for _ in range(windows):
            time.sleep(1)  # what is left of connecting
            before, started = {name: cpu_seconds(pid) for name, pid in processes.items()}, time.monotonic()
            time.sleep(10)  # real time is the subject
            seconds = time.monotonic() - started
            used = {name: (cpu_seconds(pid) - before[name]) / seconds for name, pid in processes.items()}
            for name, share in used.items():
                report(f"CPU of an idle {name}", 100 * share, "% of a core")
            if max(used.values()) < LIMIT:
                break
        return used

    def test_an_idle_server_uses_under_half_a_percent_of_a_core(self):
        holder = self.hold(1, 1)
        for name, used in self.measure_cpu({"server with one session": self.server.pid}).items():
            self.assertLess(used, LIMIT, name)
        self.release(holder)

    def test_neither_end_uses_cpu_over_any_mover(self):
        """All pairs of a server and a client idle at once, for as long as one would be watched."""
        usable = [finding["what"] for finding in self.forebay("doctor", "--json").json_lines
                  if finding["about"].startswith("movers") and finding["verdict"] == "good"]
        self.assertGreaterEqual(set(usable), {"shm", "tcp"})
        processes = {}
        for number, mover in enumerate(usable):
            server = self.start_server(f"store-{number}", options=["--fabric", mover, "--no-profile"])
            self.forebay(*self.connection(server), "--fabric", mover, "bucket", "create", "box")
            holder = self.start_tool("hold", *self.connection(server), "--bucket", "box", "--clients", 1, "--connections", 1,
                                     "--fabric", mover, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.assertEqual(holder.stdout.readline(), b"holding 1\n")
            processes[f"server over {mover}"] = server.pid
            processes[f"client over {mover}"] = holder.pid
        for name, used in self.measure_cpu(processes).items():
            self.assertLess(used, LIMIT, name)

    def test_a_thousand_idle_sessions_cost_at_most_64_kib_each(self):
        self.release(self.hold(1, 8))  # what the first connections cost once
        before = memory_bytes(self.server.pid)
        holder = self.hold(16, 64)
        per_session = (memory_bytes(self.server.pid) - before) / (16 * 64)
        report("memory of an idle session", per_session / KIB, "KiB")
        self.measure_cpu({"server with 1,024 sessions": self.server.pid}, windows=1)
        self.forebay("ls")  # and it still serves others
        if not Settings.sanitized:
            self.assertLessEqual(per_session, 64 * KIB)
        self.release(holder)
        if Settings.sanitized:
            self.skipTest("served, but memory under a sanitizer says nothing about the program's")


if __name__ == "__main__":
    forebay_process.main()
