// SPDX-License-Identifier: Apache-2.0
#include "auth/key_ring.h"

#include <algorithm>
#include <charconv>

#include "auth/capability.h"
#include "auth/secret_file.h"

namespace forebay::auth {

namespace {

constexpr std::string_view kHead =
    "# Signing keys of a Forebay server, oldest first: whoever can read this file can make capabilities.\n"
    "version = 1\n";
constexpr std::string_view kKeyStart = "key = \"";

int64_t UnixMs(base::WallTime time) {
  return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

/// `key = "<unix ms> <64 hex digits>"`
bool ParseKey(std::string_view line, base::WallTime* made, Secret* seed) {
  if (!line.starts_with(kKeyStart) || !line.ends_with('"')) return false;
  line = line.substr(kKeyStart.size(), line.size() - kKeyStart.size() - 1);
  int64_t ms = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), ms);
  const auto digits = static_cast<size_t>(end - line.data());
  if (error != std::errc() || ms < 0 || digits > 15 || digits == line.size() || *end != ' ') return false;
  *made = base::WallTime(std::chrono::milliseconds(std::min<int64_t>(ms, 9'000'000'000'000)));
  return base::FromHex(line.substr(digits + 1), seed->mutable_view());
}

}  // namespace

Result<std::unique_ptr<KeyRing>> KeyRing::Open(std::string path, const base::Clock& clock, base::Random& random) {
  std::unique_ptr<KeyRing> ring(new KeyRing(std::move(path), clock, random));
  Result<std::vector<Key>> loaded = ring->Load();
  if (!loaded.ok() && loaded.status().code() != Code::kNotFound) return loaded.status();
  std::vector<Key> keys;
  if (loaded.ok()) {
    keys = *std::move(loaded);
  } else {
    keys.push_back(ring->Make());
    FB_TRY(ring->Save(keys));
  }
  const base::MutexLock lock(ring->mutex_);
  ring->keys_ = std::move(keys);
  return ring;
}

KeyRing::Key KeyRing::Make() const {
  Secret seed = Secret::Generate(random_);
  const PublicKey key = SigningKeyOf(seed);
  return {.made = clock_.WallNow(), .seed = std::move(seed), .key = key};
}

Result<std::vector<KeyRing::Key>> KeyRing::Load() const {
  SecretText text;
  FB_TRY(ReadSecretFile("signing-key file", path_, true, &text));
  std::string_view rest = text.view();
  std::vector<Key> keys;
  bool versioned = false;
  for (size_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.empty() || line.front() == '#') continue;
    if (line == "version = 1" && !versioned) {
      versioned = true;
      continue;
    }
    Key key;
    if (!versioned || keys.size() == kMaxSigningKeys || !ParseKey(line, &key.made, &key.seed))
      return Status::InvalidArgument("signing-key file {} line {} is neither `version = 1` nor a key; restore the "
                                     "file, or remove it to start anew: every capability is void then",
                                     path_, number);
    key.key = SigningKeyOf(key.seed);
    keys.push_back(std::move(key));
  }
  if (keys.empty())
    return Status::InvalidArgument("signing-key file {} holds no key; restore it, or remove it to start anew", path_);
  return keys;
}

Status KeyRing::Save(const std::vector<Key>& keys) {
  SecretText text;
  text.Append(kHead);
  for (const Key& key : keys) {
    text.Append(kKeyStart);
    text.Append(fmt::format("{} ", UnixMs(key.made)));
    text.AppendHex(key.seed.view());
    text.Append("\"\n");
  }
  return WriteSecretFile(path_, text, random_).WithContext("cannot save the signing keys");
}

PublicKey KeyRing::current() const {
  const base::MutexLock lock(mutex_);
  return keys_.back().key;
}

bool KeyRing::Holds(const PublicKey& key) const {
  const base::MutexLock lock(mutex_);
  return std::ranges::find(keys_, key, &Key::key) != keys_.end();
}

Result<Signature> KeyRing::SignWith(const PublicKey& key, ByteView message) const {
  const base::MutexLock lock(mutex_);
  const auto found = std::ranges::find(keys_, key, &Key::key);
  if (found == keys_.end())
    return Status::NotFound("the signing key of that capability was dropped; issue a new capability");
  return Sign(found->seed, message);
}

Status KeyRing::Rotate(bool drop_old) {
  const base::MutexLock turn(rotating_);  // not mutex_: signing goes on while the disk works
  const base::WallTime now = clock_.WallNow();
  std::vector<Key> keys;
  {
    const base::MutexLock lock(mutex_);
    for (size_t i = 0; i < keys_.size() && !drop_old; ++i) {
      // A key signed until the next one came.
      const bool retired = i + 1 < keys_.size() && keys_[i + 1].made + kMaxCapabilityLifetime < now;
      if (!retired) keys.push_back(keys_[i]);
    }
  }
  if (keys.size() == kMaxSigningKeys)
    return Status::ResourceExhausted(
        "{} signing keys are still needed for what they signed; wait, or drop the old ones and all they signed",
        keys.size());
  keys.push_back(Make());
  FB_TRY(Save(keys));
  const base::MutexLock lock(mutex_);
  keys_ = std::move(keys);
  return {};
}

size_t KeyRing::size() const {
  const base::MutexLock lock(mutex_);
  return keys_.size();
}

}  // namespace forebay::auth
