# SPDX-License-Identifier: Apache-2.0
"""Many objects: a million of 1 KiB and a hundred thousand of 40 KiB. Takes minutes and gigabytes; ctest runs it alone."""

import os
import time

import forebay_process
from forebay_process import GIB, ForebayTest, report, seed, sized


RESTARTS = 3  # of which the best counts: a busy machine is no fault of the server's
RESTART_WITHIN_S = 5
# A machine so slow that it took longer than this times as long to store the objects may take longer to restart too.
LOADING_OVER_RESTARTING = 20


def drop_page_cache():
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as caches:
            caches.write("3\n")
    except OSError as error:
        print(f"the page cache is warm: {error}")


class ScaleTest(ForebayTest):
    def restart_seconds(self, server):
        """After kill -9."""
        server.kill()
        drop_page_cache()
        server.start()
        report("restart after kill -9", server.ready_seconds, "s")
        return server.ready_seconds

    def test_a_million_small_and_a_hundred_thousand_of_40_kib(self):
        self.need_disk(sized(14 * GIB, 2 * GIB))
        chosen = seed()
        small = ["--bucket", "small", "--count", sized(1_000_000, 20_000), "--size", 1024, "--seed", chosen]
        large = ["--bucket", "large", "--count", sized(100_000, 2_000), "--size", 40 * 1024, "--seed", chosen]
        server = self.start_server(size=sized("6GiB", "512MiB"), memory="256MiB")
        loading = 0.0
        for name, objects in (("small", small), ("large", large)):
            self.forebay("bucket", "create", name)
            started = time.monotonic()
            self.tool("load", *self.connection(server), *objects, within_s=1500)
            loading += time.monotonic() - started
            report(f"loading the {name} ones", time.monotonic() - started, "s")

        limit = max(sized(RESTART_WITHIN_S, 30), loading / LOADING_OVER_RESTARTING)
        restarts = []
        while len(restarts) < RESTARTS and min(restarts, default=limit) >= limit:
            restarts.append(self.restart_seconds(server))

        for objects in (small, large):
            started = time.monotonic()
            self.tool("check", *self.connection(server), *objects, "--gets", sized(20_000, 2_000))
            report(f"listing and random gets of {objects[1]}", time.monotonic() - started, "s")
        self.assertLess(min(restarts), limit)


if __name__ == "__main__":
    forebay_process.main()
