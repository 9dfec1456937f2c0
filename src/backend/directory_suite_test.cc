// SPDX-License-Identifier: Apache-2.0
// The behaviour suite of ObjectStore over a directory.
#include <gtest/gtest.h>

#include "backend/directory_fixture.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

class DirectoryFixture final : public StoreFixture {
 public:
  /// Nothing temporary is left, whatever a test did.
  ~DirectoryFixture() override {
    directory_.Close();
    EXPECT_TRUE(std::filesystem::is_empty(directory_.File(".forebay/tmp")));
  }
  ObjectStore& store() override { return directory_.store(); }
  rt::Reactor& reactor() override { return directory_.reactor(); }
  bool Reopen() override {
    directory_.Reopen();
    return true;
  }

 private:
  backend::OpenDirectory directory_;
};

INSTANTIATE_TEST_SUITE_P(
    Directory, StoreSuite,
    testing::Values(StoreBackend{"directory", [] { return std::make_unique<DirectoryFixture>(); },
                                 {Refusal::kVersioning, Refusal::kCacheClass, Refusal::kRenamePrefix}}),
    BackendName);

}  // namespace
}  // namespace forebay::store
