# SPDX-License-Identifier: Apache-2.0
"""Many objects: a million of 1 KiB and a hundred thousand of 40 KiB. Takes minutes and gigabytes; ctest runs it alone."""

import os
import time

import forebay_process
from forebay_process import GIB, ForebayTest, report, seed, sized


class ScaleTest(ForebayTest):
    def test_a_million_small_and_a_hundred_thousand_of_40_kib(self):
        self.need_disk(sized(14 * GIB, 2 * GIB))
        chosen = seed()
        small = ["--bucket", "small", "--count", sized(1_000_000, 20_000), "--size", 1024, "--seed", chosen]
        large = ["--bucket", "large", "--count", sized(100_000, 2_000), "--size", 40 * 1024, "--seed", chosen]
        server = self.start_server(size=sized("6GiB", "512MiB"), memory="256MiB")
        for name, objects in (("small", small), ("large", large)):
            self.forebay("bucket", "create", name)
            started = time.monotonic()
            self.tool("load", *self.connection(server), *objects)
            report(f"loading the {name} ones", time.monotonic() - started, "s")

        server.kill()
        if os.geteuid() == 0:
            os.sync()
            with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as caches:
                caches.write("3\n")
        else:
            print("the page cache is warm: only root can drop it")
        server.start()
        report("restart after kill -9", server.ready_seconds, "s")

        for objects in (small, large):
            started = time.monotonic()
            self.tool("check", *self.connection(server), *objects, "--gets", sized(20_000, 2_000))
            report(f"listing and random gets of {objects[1]}", time.monotonic() - started, "s")
        self.assertLess(server.ready_seconds, sized(5, 30))


if __name__ == "__main__":
    forebay_process.main()
