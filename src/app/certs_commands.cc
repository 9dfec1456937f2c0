// SPDX-License-Identifier: Apache-2.0
// certs init, certs server, certs client, certs show: the certificates that --tls takes.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ranges>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/json.h"
#include "auth/certificates.h"
#include "auth/tls_files.h"
#include "base/clock.h"

namespace forebay::app {
namespace {

struct CertsArguments {
  std::string directory;
  std::string out;
  std::string authority_name = "forebay-ca";
  uint32_t authority_days = 3650;
  auth::CertificateRequest request;
};

/// What a server answers to on its own machine, whatever others call it.
constexpr std::array<std::string_view, 3> kLocalHosts = {"localhost", "127.0.0.1", "::1"};

Status SaveCertificate(const std::string& path, const std::string& pem) {
  std::ofstream file(path, std::ios::binary);
  file << pem << std::flush;
  if (file) return {};
  return Status::FromErrno(errno, "write the certificate " + path);
}

/// Makes the directory, which must not be there yet unless `may_exist`; closed to other users.
Status MakeDirectory(const std::string& path, bool may_exist) {
  if (mkdir(path.c_str(), 0700) == 0) return {};
  if (errno == EEXIST && may_exist) return {};
  if (errno == EEXIST)
    return Status::AlreadyExists(
        "{} is there already, and no certificate is overwritten; make the new one elsewhere with --out, then "
        "move it",
        path);
  return Status::FromErrno(errno, "make the directory " + path);
}

Status Init(const CertsArguments& arguments) {
  const std::string& directory = arguments.directory;
  FB_ASSIGN(
      const auth::CertifiedKey authority,
      auth::MakeAuthority(arguments.authority_name, arguments.authority_days, base::SystemClock().WallNow()));
  FB_TRY(MakeDirectory(directory, true));
  FB_TRY(authority.key_pem.SaveNew(directory + "/ca.key"));
  return SaveCertificate(directory + "/ca.crt", authority.certificate_pem);
}

Status SaveLeaf(const std::string& out, const std::string& authority_pem, const auth::CertifiedKey& leaf) {
  FB_TRY(leaf.key_pem.SaveNew(out + "/tls.key"));
  FB_TRY(SaveCertificate(out + "/tls.crt", leaf.certificate_pem));
  return SaveCertificate(out + "/ca.crt", authority_pem);
}

/// Gives the directory that it made.
Result<std::string> IssueLeaf(const CertsArguments& arguments) {
  auth::CertificateRequest request = arguments.request;
  const bool server = request.use == auth::CertificateUse::kServer;
  if (server) {
    request.name = request.hosts.front();
    std::ranges::replace(request.name, ':', '-');  // of IPv6
    for (const std::string_view host : kLocalHosts)
      if (std::ranges::find(request.hosts, host) == request.hosts.end()) request.hosts.emplace_back(host);
  }
  auth::CertifiedKey authority;
  FB_ASSIGN(authority.certificate_pem, auth::LoadCertificateFile(arguments.directory + "/ca.crt"));
  FB_ASSIGN(authority.key_pem, auth::PrivateText::Load(arguments.directory + "/ca.key"));
  FB_ASSIGN(const auth::CertifiedKey leaf, auth::Issue(authority, request, base::SystemClock().WallNow()));
  std::string out = arguments.out;
  if (out.empty())
    out = fmt::format("{}/{}-{}", arguments.directory, server ? "server" : "client", request.name);
  FB_TRY(MakeDirectory(out, false));
  const Status saved = SaveLeaf(out, authority.certificate_pem, leaf);
  if (saved.ok()) return out;
  std::error_code error;
  std::filesystem::remove_all(out, error);  // ours: half a certificate is none
  return saved;
}

int RunInit(const CertsArguments& arguments, const Invocation& invocation) {
  const Status made = Init(arguments);
  if (!made.ok()) {
    const std::string_view way = made.code() == Code::kNotFound ? "; its parent must exist" : "";
    return Fail(std::string(made.message()) + std::string(way));
  }
  if (invocation.json)
    fmt::print("{}\n", ToJson({{"authority", arguments.directory}}));
  else
    fmt::print(
        "made an authority in {0}; whoever has {0}/ca.key can make certificates: keep it off the servers\n",
        arguments.directory);
  return kDone;
}

int RunIssue(const CertsArguments& arguments, const Invocation& invocation) {
  const Result<std::string> made = IssueLeaf(arguments);
  if (!made.ok()) {
    if (made.status().code() == Code::kInvalidArgument) return RefuseUsage(made.status().message());
    return Fail(made.status().message());
  }
  if (invocation.json)
    fmt::print("{}\n", ToJson({{"tls", *made}}));
  else
    fmt::print(
        "made {0}: give it to {1} with --tls {0}\n", *made,
        arguments.request.use == auth::CertificateUse::kServer ? "the server" : "the client's commands");
  return kDone;
}

std::string UseOf(const auth::CertificateInfo& info) {
  if (info.authority) return "authority";
  if (info.server) return info.client ? "server, client" : "server";
  return info.client ? "client" : "none";
}

void Print(const std::string& path, const auth::CertificateInfo& info, bool json) {
  const bool expired = base::SystemClock().WallNow() > info.not_after;
  const std::string hosts = fmt::format("{}", fmt::join(info.hosts, ", "));
  if (json) {
    fmt::print("{}\n", ToJson({{"file", path},
                               {"subject", info.subject},
                               {"issuer", info.issuer},
                               {"use", UseOf(info)},
                               {"hosts", hosts},
                               {"not_before", auth::FormatCertificateTime(info.not_before)},
                               {"not_after", auth::FormatCertificateTime(info.not_after)},
                               {"expired", expired},
                               {"sha256", info.sha256}}));
    return;
  }
  fmt::print("{}\n  subject  {}\n  issuer   {}\n  use      {}\n", path, info.subject, info.issuer,
             UseOf(info));
  if (!info.hosts.empty()) fmt::print("  hosts    {}\n", hosts);
  fmt::print("  from     {}\n  until    {}{}\n  sha256   {}\n", auth::FormatCertificateTime(info.not_before),
             auth::FormatCertificateTime(info.not_after), expired ? " (expired)" : "", info.sha256);
}

int RunShow(const std::string& path, const Invocation& invocation) {
  std::vector<std::string> files = {path};
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    files.clear();
    for (const std::string name : {"/tls.crt", "/ca.crt"})
      if (std::filesystem::exists(path + name, error)) files.push_back(path + name);
    if (files.empty()) return Fail(path + " holds neither tls.crt nor ca.crt; `forebay certs` makes them");
  }
  for (const std::string& file : files) {
    const Result<std::string> pem = auth::LoadCertificateFile(file);
    if (!pem.ok()) return Fail(pem.status().message());
    const auto info = auth::DescribeCertificate(*pem, file);
    if (!info.ok()) return Fail(info.status().message());
    Print(file, *info, invocation.json);
  }
  return kDone;
}

void AddIssueCommand(CLI::App& certs, Invocation& invocation, auth::CertificateUse use) {
  const bool server = use == auth::CertificateUse::kServer;
  auto arguments = std::make_shared<CertsArguments>();
  arguments->request.use = use;
  CLI::App* command = certs.add_subcommand(
      server ? "server" : "client",
      server ? "Make a server's certificate: the directory for `forebay serve --tls`"
             : "Make a client's certificate: the directory for --tls of the other commands");
  command->add_option("directory", arguments->directory, "The authority's directory")->required();
  if (server) {
    command
        ->add_option(
            "--host", arguments->request.hosts,
            "A name or address by which clients reach it; may be repeated (localhost is always in it)")
        ->required()
        ->allow_extra_args(false);
  } else {
    command->add_option("--name", arguments->request.name, "Who it is for")->required();
  }
  command->add_option(
      "--out", arguments->out,
      fmt::format("The directory to make (default: DIRECTORY/{}-NAME)", server ? "server" : "client"));
  command->add_option("--days", arguments->request.days, "How long it is good (default 365)");
  command->callback([arguments, &invocation] {
    invocation.run = [arguments, &invocation] { return RunIssue(*arguments, invocation); };
  });
}

}  // namespace

void AddCertsCommands(CLI::App& root, Invocation& invocation) {
  CLI::App* certs = root.add_subcommand("certs", "Make and show the certificates that TLS needs");
  certs->require_subcommand(1);

  auto init = std::make_shared<CertsArguments>();
  CLI::App* init_command = certs->add_subcommand("init", "Make an authority, which signs certificates");
  init_command->add_option("directory", init->directory, "Where to keep it")->required();
  init_command->add_option("--name", init->authority_name, "What it is called (default forebay-ca)");
  init_command->add_option("--days", init->authority_days, "How long it is good (default 3650)");
  init_command->callback(
      [init, &invocation] { invocation.run = [init, &invocation] { return RunInit(*init, invocation); }; });

  AddIssueCommand(*certs, invocation, auth::CertificateUse::kServer);
  AddIssueCommand(*certs, invocation, auth::CertificateUse::kClient);

  auto path = std::make_shared<std::string>();
  CLI::App* show = certs->add_subcommand("show", "Say what certificates are for, and until when");
  show->add_option("path", *path, "A directory of certificates, or one file")->required();
  show->callback(
      [path, &invocation] { invocation.run = [path, &invocation] { return RunShow(*path, invocation); }; });
}

}  // namespace forebay::app
