# SPDX-License-Identifier: Apache-2.0
"""A server that is stopped in mid transfer and goes on after the call has timed out: the caller's memory is the caller's."""

import forebay_process
from forebay_process import MIB, ForebayTest, seed, sized


class StoppedServerTest(ForebayTest):
    def run_stalled(self, command):
        server = self.start_server(size="2GiB", memory="128MiB")
        self.forebay("bucket", "create", "box")
        done = self.tool(command, *self.connection(server), "--bucket", "box", "--pid", server.pid,
                         "--size", sized(96, 64) * MIB, "--seed", seed())
        print(done.text)

    def test_a_buffer_does_not_change_after_its_get_timed_out(self):
        self.run_stalled("stalled-get")

    def test_a_source_may_be_unmapped_after_its_put_timed_out(self):
        self.run_stalled("stalled-put")


if __name__ == "__main__":
    forebay_process.main()
