// SPDX-License-Identifier: Apache-2.0
#include "client/mover_choice.h"

#include <algorithm>

namespace forebay::client {

Result<MoverChoice> MoverChoice::Of(const fabric::Movers& movers, const std::string& name) {
  MoverChoice choice;
  if (!name.empty()) {
    FB_ASSIGN(const std::string parsed, fabric::ParseMoverName(name));
    fabric::Fabric* const only = movers.Find(parsed);
    if (only == nullptr) return movers.WhyNot(parsed);
    return Only(*only);
  }
  choice.fabrics = movers.automatic();
  for (const fabric::MoverKind& kind : fabric::MoverKinds())
    // Encryption is no faster: it is missed by nobody who did not ask for it.
    if (kind.automatic && !kind.encrypted && movers.Find(kind.name) == nullptr)
      choice.notes.push_back(fmt::format("{}: {}", kind.name, movers.Detail(kind.name)));
  return choice;
}

Result<std::vector<Way>> WaysTo(const MoverChoice& choice, const std::vector<control::DataEndpoint>& offered,
                                std::vector<std::string>& notes) {
  std::vector<Way> ways;
  for (fabric::Fabric* const fabric : choice.fabrics) {
    const auto found = std::ranges::find(offered, fabric->name(), &control::DataEndpoint::fabric);
    if (found != offered.end()) {
      ways.push_back({fabric, found->address});
    } else {
      notes.push_back(fmt::format("{}: the server does not offer it", fabric->name()));
    }
  }
  if (!ways.empty()) return ways;
  std::string ours;
  for (const fabric::Fabric* fabric : choice.fabrics) ours += fmt::format(" `{}`", fabric->name());
  std::string theirs;
  for (const control::DataEndpoint& endpoint : offered) theirs += fmt::format(" `{}`", endpoint.fabric);
  return Status::Unavailable(
      "the server moves data over{}, this client over{}: start it with --fabric, or use another one here",
      theirs.empty() ? " nothing" : theirs, ours.empty() ? " nothing" : ours);
}

std::string ReasonOf(const MoverChoice& choice, std::string_view taken,
                     const std::vector<std::string>& notes) {
  if (choice.forced) return fmt::format("{} was asked for", taken);
  std::string reason = fmt::format("{} is the best that both sides have", taken);
  for (const std::vector<std::string>* list : {&choice.notes, &notes})
    for (const std::string& note : *list) reason += "; " + note;
  return reason;
}

}  // namespace forebay::client
