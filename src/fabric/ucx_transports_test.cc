// SPDX-License-Identifier: Apache-2.0
// Which transports of UCX's may carry a connection, and the reason: where UCX moves memory by its own
// program, a key for one small window opens every address of the process. That is shown here over UCX itself;
// should it ever change, these tests fail and the refusal can be thought over.
#include <string>

#include <gtest/gtest.h>

#include "base/random.h"
#include "fabric/ucx_context.h"
#include "fabric/ucx_fabric.h"

namespace forebay::fabric {
namespace {

TEST(UcxTransportsTest, ThoseThatCheckNoKeysAreRefusedWithTheReason) {
  base::SecureRandom random;
  for (const char* transports :
       {"tcp", "posix", "sysv", "cma", "self", "shm", "sm", "all", "rc,tcp", "sysv,rc_verbs"}) {
    const Status status = UcxFabric::Open(random, transports).status();
    EXPECT_EQ(status.code(), Code::kPermissionDenied) << transports;
    EXPECT_NE(status.message().find("checks no memory key"), std::string_view::npos) << status.ToString();
  }
}

TEST(UcxTransportsTest, UnknownOnesAreNamed) {
  base::SecureRandom random;
  for (const char* transports : {"", "rc,", "RC", "ib", "rc_verbs,quic", "ud", "dc"}) {
    EXPECT_EQ(UcxFabric::Open(random, transports).status().code(), Code::kInvalidArgument) << transports;
  }
}

TEST(UcxTransportsTest, WithoutADeviceTheWayOutIsNamed) {
  base::SecureRandom random;
  const auto fabric = UcxFabric::Open(random, "rc");
  if (fabric.ok()) GTEST_SKIP() << "this machine has an RDMA device";
  EXPECT_EQ(fabric.status().code(), Code::kFailedPrecondition) << fabric.status().ToString();
  EXPECT_NE(fabric.status().message().find("rdma link"), std::string_view::npos)
      << fabric.status().ToString();
}

/// Two workers of plain UCX in this process, over any transport, and an endpoint from one to the other.
class PlainUcx {
 public:
  explicit PlainUcx(const char* transports) {
    ucp_config_t* config = nullptr;
    EXPECT_EQ(ucp_config_read(nullptr, nullptr, &config), UCS_OK);
    EXPECT_EQ(ucp_config_modify(config, "TLS", transports), UCS_OK);
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_RMA | UCP_FEATURE_AM;
    EXPECT_EQ(ucp_init(&params, config, &context_), UCS_OK);
    ucp_config_release(config);
    ucp_worker_params_t worker{};
    EXPECT_EQ(ucp_worker_create(context_, &worker, &from_), UCS_OK);
    EXPECT_EQ(ucp_worker_create(context_, &worker, &to_), UCS_OK);
    ucp_address_t* address = nullptr;
    size_t size = 0;
    EXPECT_EQ(ucp_worker_get_address(to_, &address, &size), UCS_OK);
    ucp_ep_params_t endpoint{};
    endpoint.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    endpoint.address = address;
    EXPECT_EQ(ucp_ep_create(from_, &endpoint, &endpoint_), UCS_OK);
    ucp_worker_release_address(to_, address);
  }
  ~PlainUcx() {
    ucp_request_param_t params{};
    Await(ucp_ep_close_nbx(endpoint_, &params));
    ucp_worker_destroy(from_);
    ucp_worker_destroy(to_);
    ucp_cleanup(context_);
  }

  ucp_ep_h endpoint() const { return endpoint_; }

  /// Offers `window` and writes `data` to `address` with its key.
  void WriteWithKeyOf(MutableByteView window, ByteView data, std::byte* address) {
    ucp_mem_map_params_t map{};
    map.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    map.address = window.data();
    map.length = window.size();
    ucp_mem_h mapped = nullptr;
    ASSERT_EQ(ucp_mem_map(context_, &map, &mapped), UCS_OK);
    void* packed = nullptr;
    size_t size = 0;
    ASSERT_EQ(ucp_rkey_pack(context_, mapped, &packed, &size), UCS_OK);
    ucp_rkey_h key = nullptr;
    ASSERT_EQ(ucp_ep_rkey_unpack(endpoint_, packed, &key), UCS_OK);
    ucp_rkey_buffer_release(packed);
    ucp_request_param_t params{};
    Await(
        ucp_put_nbx(endpoint_, data.data(), data.size(), reinterpret_cast<uintptr_t>(address), key, &params));
    Await(ucp_ep_flush_nbx(endpoint_, &params));
    ucp_rkey_destroy(key);
    ASSERT_EQ(ucp_mem_unmap(context_, mapped), UCS_OK);
  }

 private:
  void Await(ucs_status_ptr_t request) {
    if (!UCS_PTR_IS_PTR(request)) return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
      ucp_worker_progress(from_);
      ucp_worker_progress(to_);
    }
    ucp_request_free(request);
  }

  ucp_context_h context_ = nullptr;
  ucp_worker_h from_ = nullptr;
  ucp_worker_h to_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
};

class UncheckedTransports : public testing::TestWithParam<const char*> {};

TEST_P(UncheckedTransports, KeyOfASmallWindowOpensOtherMemory) {
  PlainUcx plain(GetParam());
  Bytes window(4096), elsewhere(4096);
  plain.WriteWithKeyOf(window, Bytes(64, std::byte{7}), elsewhere.data());
  EXPECT_EQ(elsewhere[0], std::byte{7});
  EXPECT_EQ(elsewhere[63], std::byte{7});
}

TEST_P(UncheckedTransports, EndpointThatUsesThemIsFoundOut) {
  PlainUcx plain(GetParam());
  const auto lanes = VerifyUcxLanes(plain.endpoint());
  EXPECT_EQ(lanes.status().code(), Code::kPermissionDenied);
  EXPECT_NE(lanes.status().message().find(GetParam()), std::string_view::npos) << lanes.status().ToString();
}

INSTANTIATE_TEST_SUITE_P(Ucx, UncheckedTransports, testing::Values("tcp", "posix", "sysv"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace forebay::fabric
