# SPDX-License-Identifier: Apache-2.0
"""Tenants, quotas, rates and access keys as an operator uses them: commands, restarts, kill -9 at the quota."""

import random
import subprocess
import time

import forebay_process
from forebay_process import MIB, ForebayTest, seed, sized


class TenantTest(ForebayTest):
    def setUp(self):
        super().setUp()
        self.server = self.start_server(size="512MiB")

    def tenant(self, name):
        return self.forebay("tenant", "show", name, "--json").json

    def put(self, name, size, **more):
        return self.forebay("put", "-", name, input=size * b"x", **more)

    def start_put(self, name, size):
        """A put that goes on while the test does."""
        source = self.directory / f"content-{size}"
        source.write_bytes(size * b"x")
        return self.start_command("put", source, name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def test_create_show_set_list_remove(self):
        made = self.forebay("tenant", "create", "alice", "--max-bytes", "1MiB", "--json").json
        self.assertEqual((made["id"], made["name"], made["max_bytes"], made["max_objects"]), (3, "alice", 1 << 20, 0))
        self.assertRegex(made["created"], r"\A2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
        self.forebay("tenant", "create", "bob", "--max-bytes", "100MiB", "--max-objects", "7")
        self.assertEqual(self.forebay("tenant", "ls").lines,
                         ["3 alice: 0 buckets, 0 objects, 0 B of at most 1.0 MiB", "4 bob: 0 buckets, 0 of at most 7 objects, 0 B of at most 100.0 MiB"])
        changed = self.forebay("tenant", "set", "4", "--max-objects", "2", "--json").json
        self.assertEqual((changed["max_objects"], changed["max_bytes"]), (2, 100 << 20))
        self.assertEqual(self.forebay("tenant", "set", "4", "--max-objects", "0", "--json").json["max_objects"], 0)
        limited = self.forebay("tenant", "set", "bob", "--rate", "8MiB", "--operations", "5", "--transfers", "2", "--json").json
        self.assertEqual((limited["bytes_per_s"], limited["operations_per_s"], limited["transfers"]), (8 * MIB, 5, 2))
        self.assertEqual(self.forebay("tenant", "show", "bob").lines,
                         ["4 bob: 0 buckets, 0 objects, 0 B of at most 100.0 MiB; at most 8.0 MiB/s, 5 operations/s, 2 transfers at once"])
        self.fails("tenant", "set", "bob", "--rate", "fast", status=2, saying=["--rate", "fast"])
        self.fails("tenant", "set", "root", "--rate", "8MiB", saying="root")
        self.fails("tenant", "create", "bob", saying=["bob", "exists"])
        self.fails("tenant", "create", "Bob", status=2, saying="Bob")
        self.fails("tenant", "create", "carol", "--max-bytes", "lots", status=2, saying=["--max-bytes", "lots"])
        self.fails("tenant", "show", "carol", saying=["carol", "forebay tenant ls"])
        self.fails("tenant", "rm", "root", saying="root")
        self.forebay("tenant", "rm", "bob")
        self.server.restart()
        self.assertEqual([one["name"] for one in self.forebay("tenant", "ls", "--json").json_lines], ["alice"])
        self.assertEqual(self.forebay("tenant", "create", "bob", "--json").json["id"], 5, "numbers are not used again")

    def test_the_quota_is_held_and_says_the_way_out(self):
        self.forebay("tenant", "create", "alice", "--max-bytes", "100000", "--max-objects", "3")
        self.forebay("bucket", "create", "hers", "--tenant", "alice")
        self.fails("bucket", "create", "his", "--tenant", "bob", saying="bob")
        self.put("hers/a", 60_000)
        self.fails("put", "-", "hers/b", input=50_000 * b"x", saying=["tenant 3", "100000", "forebay tenant set 3 --max-bytes"])
        self.fails("stat", "hers/b", saying="hers/b")
        self.put("hers/a", 100_000)
        self.put("hers/empty", 0)
        self.put("hers/empty2", 0)
        self.fails("put", "-", "hers/empty3", input=b"", saying=["3 objects", "forebay tenant set 3 --max-objects"])
        shown = self.tenant("alice")
        self.assertEqual((shown["buckets"], shown["objects"], shown["bytes"]), (1, 3, 100_000))
        self.forebay("bucket", "create", "mine")
        self.put("mine/large", 200_000)
        self.assertEqual(self.tenant("root")["bytes"], 200_000)
        self.forebay("rm", "hers/a")
        self.put("hers/b", 50_000)
        self.forebay("tenant", "set", "alice", "--max-objects", "0", "--max-bytes", "0")
        self.put("hers/c", 500_000)
        self.fails("tenant", "rm", "alice", saying=["owns 1 buckets", "forebay bucket rm"])
        self.assertEqual(self.server.terminate(), 0)
        self.forebay("fsck", self.server.store)
        self.server.start()
        self.assertEqual(self.tenant("alice")["bytes"], 550_000)

    def test_the_servers_own_bucket_is_out_of_reach(self):
        self.forebay("tenant", "create", "alice")
        self.assertEqual(self.forebay("bucket", "ls").lines, [])
        for command in (("ls", "_forebay"), ("bucket", "create", "_forebay"), ("cat", "_forebay/tenant/0000000000000003")):
            self.fails(*command, status=2, saying="_forebay")
        self.fails("bucket", "rm", "_forebay", saying="_forebay")

    def test_bench_fair_compares_two_tenants_and_leaves_nothing(self):
        before = self.forebay("tenant", "ls").lines
        report = self.forebay("bench", "fair", "--no-yield", "--seconds", "0.2", "--greedy-connections", "4", "--greedy-depth", "8",
                              "--modest-connections", "1", "--modest-depth", "4", "--json").json
        both = report["both_operations_per_second"]
        for load in ("single_alone", "single_beside", "steady_alone", "steady_beside"):
            self.assertGreater(report[f"{load}_operations_per_second"], 0)
            self.assertEqual(report[f"{load}_greedy_operations_per_second"] > 0, load.endswith("beside"))
            self.assertGreaterEqual(report[f"{load}_p99_us"], report[f"{load}_p50_us"])
            self.assertGreater(report[f"{load}_machine_late_p99_us"], 0)
            # It asked for half at a steady rate, so that it cannot have got more than that, but for rounding.
            if load.startswith("steady"):
                self.assertLess(report[f"{load}_operations_per_second"], 0.5 * both + 10)
        self.assertEqual(self.forebay("tenant", "ls").lines, before)
        self.assertEqual(self.forebay("bucket", "ls").lines, [])

    def test_a_keys_secret_is_shown_once(self):
        self.forebay("tenant", "create", "alice")
        made = self.forebay("key", "create", "alice", "--json").json
        self.assertRegex(made["id"], r"\AFB[A-Z2-9]{18}\Z")
        self.assertRegex(made["secret"], r"\A[0-9a-f]{64}\Z")
        other = self.forebay("key", "create", "alice")
        self.assertIn("not shown again", other.errors)
        for options in ((), ("alice",), ("--json",)):
            listed = self.forebay("key", "ls", *options).text
            self.assertEqual(listed.count("FB"), 2)
            self.assertNotIn(made["secret"], listed)
        self.forebay("key", "rm", made["id"])
        self.fails("key", "rm", made["id"], saying=made["id"])
        self.forebay("tenant", "rm", "alice")
        self.assertEqual(self.forebay("key", "ls").lines, [])
        self.assertEqual(self.server.terminate(), 0)
        at_rest = b"".join(path.read_bytes() for path in (self.server.store / "meta").iterdir() if path.is_file())
        for form in (made["secret"].encode(), bytes.fromhex(made["secret"])):
            self.assertNotIn(form, at_rest)

    def test_usage_is_exact_after_kill_9(self):
        dice = random.Random(seed())
        self.forebay("tenant", "create", "alice", "--max-objects", "12", "--max-bytes", "400000")
        self.forebay("bucket", "create", "hers", "--tenant", "alice")
        for _ in range(sized(12, 4)):
            puts = [self.start_put(f"hers/{dice.randrange(20)}", dice.randrange(90_000)) for _ in range(6)]
            for _ in range(dice.randrange(4)):
                self.forebay("rm", f"hers/{dice.randrange(20)}", status=None)
            self.server.kill()
            for put in puts:
                put.kill()
            self.forebay("fsck", self.server.store)
            self.server.start()
            sizes = [one["size_bytes"] for one in self.forebay("ls", "hers", "-r", "--json").json_lines]
            shown = self.tenant("alice")
            self.assertEqual((shown["objects"], shown["bytes"]), (len(sizes), sum(sizes)))
            self.assertLessEqual(len(sizes), 12)
            self.assertLessEqual(sum(sizes), 400_000)

class RatesTest(ForebayTest):
    """A tenant with a bucket, and what its rates do. Only the least time is asserted: machines may be slow."""

    def setUp(self):
        super().setUp()
        self.server = self.start_server(size="512MiB")
        self.forebay("tenant", "create", "alice", "--rate", "8MiB")
        self.forebay("bucket", "create", "hers", "--tenant", "alice")

    def issue(self, *options, name="cap"):
        path = self.directory / name
        path.write_bytes(self.forebay("cap", "issue", "--tenant", "alice", "--rights", "get,put,list", "--ttl", "10m", *options).bytes)
        return path

    def seconds_of(self, *commands):
        started = time.monotonic()
        for command in commands:
            self.forebay(*command)
        return time.monotonic() - started

    def test_the_tenants_rate_holds_for_all_that_it_moves_until_it_is_lifted(self):
        source = self.directory / "source"
        source.write_bytes(12 * MIB * b"x")
        caps = [self.issue(name=name) for name in ("one", "other")]  # two chains, one tenant
        commands = [("--cap", caps[0], "put", source, "hers/x"), ("--cap", caps[1], "get", "hers/x", self.directory / "target")]
        # 24 MiB at 8 MiB/s are 3 s, but for the burst and the last chunk.
        self.assertGreater(self.seconds_of(*commands), 2.5)
        self.assertEqual((self.directory / "target").read_bytes(), source.read_bytes())
        self.forebay("tenant", "set", "alice", "--rate", "1")
        self.fails(*commands[0], saying="tenant 3 may move 1 B a second")
        self.forebay("tenant", "set", "alice", "--rate", "0")
        self.seconds_of(*commands)

    def test_rates_outlive_a_restart(self):
        self.forebay("tenant", "set", "alice", "--rate", "0", "--operations", "1")
        self.server.restart()
        cap = self.issue()
        self.forebay("--cap", cap, "put", "-", "hers/x", input=b"x")
        self.assertGreater(self.seconds_of(*[("--cap", cap, "stat", "hers/x")] * 3), 1.8)

    def test_a_capability_counts_each_item_of_a_batch_on_both_planes(self):
        cap = self.issue("--operations", "5")
        started = time.monotonic()
        self.tool("load", "--server", self.server.control, "--cap", cap, "--bucket", "hers", "--count", 16, "--size", 100, "--seed", 1)
        self.forebay("--cap", cap, "ls", "hers")
        self.assertGreater(time.monotonic() - started, 3.0)  # 16 puts use up 3.2 s, of which the burst forgives 0.1

        self.tool("load", "--server", self.server.control, "--cap", cap, "--bucket", "hers", "--count", 250, "--size", 100, "--seed", 1)
        self.fails("--cap", cap, "ls", "hers", saying=["capability", "5 operations a second"])  # 50 s are longer than a call waits
        self.forebay("ls", "hers")  # it is the capability's rate


if __name__ == "__main__":
    forebay_process.main()
