// SPDX-License-Identifier: Apache-2.0
// hold: opens sessions, proves with a request that they work, says `holding COUNT`, and keeps them idle until stdin ends.
#include <unistd.h>

#include <vector>

#include "tool.h"

namespace forebay::integration {

int RunHold(const Options& options) {
  const uint64_t clients = options.Number("clients");
  const uint64_t connections = options.Number("connections");
  const std::string bucket = options.Text("bucket");
  std::vector<std::unique_ptr<Client>> held;
  for (uint64_t i = 0; i < clients; ++i) {
    held.push_back(Connect(options, static_cast<unsigned>(connections)));
    const ObjectName missing{bucket, "none"};
    for (uint64_t connection = 0; connection < connections; ++connection) {  // calls are spread over them
      const auto found = held.back()->ExistsBatch(std::span(&missing, 1));
      if (!found) Die("exists: " + Describe(found.error()));
    }
  }
  Say("holding {}", clients * connections);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

}  // namespace forebay::integration
