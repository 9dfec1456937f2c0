// SPDX-License-Identifier: Apache-2.0
// The server as a whole: where it listens, its limits, deadlines, and how it stops.
#include "control/server.h"

#include <atomic>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include "control/control_suite.h"
#include "control/grpc_status.h"

namespace forebay::control {
namespace {

using ::testing::HasSubstr;

class ControlServerTest : public ControlTest {
 protected:
  /// A call that is inside of the store when this returns.
  std::future<Status> StartHeldCall() {
    store_->Hold();
    auto call = std::async(std::launch::async, [this] { return client_->GetBucket("models").status(); });
    store_->AwaitCall();
    return call;
  }
};

TEST_F(ControlServerTest, TellsThePortItGot) {
  EXPECT_NE(server_->port(), 0);
  EXPECT_EQ(server_->address(), "127.0.0.1:" + std::to_string(server_->port()));
}

TEST_F(ControlServerTest, ListensOnThisMachineOnly) {
  for (const char* listen : {"0.0.0.0:0", "[::]:0", "192.0.2.1:7400"}) {
    const Status status = StartAnother({.listen = listen}).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr(listen));
    EXPECT_THAT(std::string(status.message()), HasSubstr("use 127.0.0.1:"));
  }
  EXPECT_TRUE(StartAnother({.listen = "localhost:0"}).ok());
  EXPECT_FALSE(StartAnother({.listen = "127.0.0.1"}).ok());
}

TEST_F(ControlServerTest, APortInUseIsRefusedWithTheWayOut) {
  const Status status = StartAnother({.listen = server_->address()}).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(server_->address()));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--listen"));
}

TEST_F(ControlServerTest, NoServerIsSaidInWordsThatHelp) {
  const std::string address = server_->address();
  server_->Shutdown(5s);
  const Status status = client_->GetBucket("models").status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_EQ(status.message(), "no Forebay server answers at " + address + "; start one with: forebay serve");
}

TEST_F(ControlServerTest, AnAddressThatIsNoneIsRefusedByTheClient) {
  for (const char* server : {"", "localhost", "unix:/tmp/x", "127.0.0.1:99999"}) {
    EXPECT_EQ(ControlClient::Create({.server = server}, root_, clock_, random_).status().code(),
              Code::kInvalidArgument)
        << server;
  }
}

TEST_F(ControlServerTest, TheStoreIsToldTheDeadline) {
  EXPECT_EQ(client_->GetBucket("models", 10s).status().code(), Code::kNotFound);
  EXPECT_LE(store_->last().deadline, clock_.Now() + 11s);  // gRPC sends two or three digits, rounded up
  EXPECT_GT(store_->last().deadline, clock_.Now() + 1s);   // unless this machine stood still for nine seconds
  EXPECT_EQ(client_->GetBucket("models", 24h).status().code(), Code::kNotFound);
  EXPECT_EQ(store_->last().deadline, clock_.Now() + kMaxCallTime);
}

TEST_F(ControlServerTest, ACallEndsAtItsDeadlineWhateverTheStoreDoes) {
  store_->Hold();
  const Status status = client_->GetBucket("models", 20ms).status();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("20 ms"));
  store_->LetGo();
}

TEST_F(ControlServerTest, TooManyCallsAtOnceAreRefusedAndTheServerGoesOn) {
  Start({.listen = "127.0.0.1:0", .max_calls = 1});
  std::future<Status> held = StartHeldCall();
  const Status status = client_->Stat("models", "k").status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1 calls are in progress"));
  store_->LetGo();
  EXPECT_EQ(held.get().code(), Code::kNotFound);
  // The place is free as soon as gRPC has let go of the call, a moment after its answer.
  Status next;
  do {
    next = client_->Stat("models", "k").status();
  } while (next.code() == Code::kResourceExhausted);
  EXPECT_EQ(next.code(), Code::kNotFound);
}

/// A call that brings its proof and then nothing.
class SilentCall final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  SilentCall(const std::string& address, const std::string& method, const std::string& proof)
      : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {
    context_.AddMetadata(std::string(auth::kRpcAuthKey), proof);
    stub_.PrepareBidiStreamingCall(&context_, method, grpc::StubOptions(), this);
    StartCall();  // which sends the headers
  }
  void OnDone(const grpc::Status& status) override {
    ended_ = true;
    done_.set_value(FromGrpc(status));
  }
  bool ended() const { return ended_; }
  Status Wait() { return done_.get_future().get(); }

 private:
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::atomic<bool> ended_ = false;
  std::promise<Status> done_;
};

TEST_F(ControlServerTest, ACallWhoseRequestDoesNotComeLosesItsPlace) {
  Start({.listen = "127.0.0.1:0", .max_calls = 1});
  const std::string method = "/forebay.control.v1.Namespace/Stat";
  SilentCall silent(server_->address(), method, Proof(method));
  while (server_->calls_in_progress() == 0) std::this_thread::yield();
  const auto pass = [&](base::Duration time) {
    clock_.Advance(time);
    thread_->reactor().Post([] {});  // to look at the clock
  };
  pass(kMaxRequestTime - 1ms);
  EXPECT_EQ(client_->Stat("models", "k").status().code(), Code::kResourceExhausted);
  while (!silent.ended()) pass(1ms);  // its time may have begun after the clock was moved
  const Status status = silent.Wait();
  EXPECT_EQ(status.code(), Code::kUnavailable) << status.ToString();
  EXPECT_THAT(std::string(status.message()), HasSubstr("did not come within 10 s"));
  while (server_->calls_in_progress() != 0) std::this_thread::yield();
  EXPECT_EQ(client_->Stat("models", "k").status().code(), Code::kNotFound);
}

TEST_F(ControlServerTest, AServerStopsWhileACallsRequestDoesNotCome) {
  const std::string method = "/forebay.control.v1.Namespace/Stat";
  SilentCall silent(server_->address(), method, Proof(method));
  while (server_->calls_in_progress() == 0) std::this_thread::yield();
  server_->Shutdown(base::Duration::zero());
  EXPECT_FALSE(silent.Wait().ok());
}

TEST_F(ControlServerTest, ARequestBeyondTheLimitIsRefused) {
  const std::string method = "/forebay.control.v1.Buckets/Get";
  EXPECT_EQ(Call(method, {Proof(method)}, std::string(kMaxRequestBytes + 1, 'x')).code(),
            Code::kResourceExhausted);
  EXPECT_EQ(store_->calls(), 0);
  EXPECT_EQ(client_->GetBucket("models").status().code(), Code::kNotFound);
}

TEST_F(ControlServerTest, ACompressedRequestIsRefusedWhateverItWouldGrowTo) {
  const std::string method = "/forebay.control.v1.Buckets/Get";
  EXPECT_EQ(Call(method, {Proof(method)}, std::string(100 * kMaxRequestBytes, 'x'), true).code(),
            Code::kUnimplemented);
  EXPECT_EQ(store_->calls(), 0);
}

TEST_F(ControlServerTest, ShutdownWaitsForCallsInProgress) {
  std::future<Status> held = StartHeldCall();
  std::thread stopper([this] { server_->Shutdown(30s); });
  EXPECT_EQ(held.wait_for(10ms), std::future_status::timeout);
  store_->LetGo();
  EXPECT_EQ(held.get().code(), Code::kNotFound);  // the store's answer, not a broken connection
  stopper.join();
  EXPECT_EQ(client_->GetBucket("models").status().code(), Code::kUnavailable);
}

TEST_F(ControlServerTest, ShutdownCancelsForCallersWhatIsLeftAfterItsGrace) {
  std::future<Status> held = StartHeldCall();
  std::thread stopper([this] { server_->Shutdown(10ms); });
  EXPECT_FALSE(held.get().ok());  // although the store still has the call
  store_->LetGo();
  stopper.join();
}

TEST_F(ControlServerTest, ShutdownMayBeCalledAgain) {
  server_->Shutdown(1s);
  server_->Shutdown(1s);
  server_.reset();
}

}  // namespace
}  // namespace forebay::control
