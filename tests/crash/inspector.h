// SPDX-License-Identifier: Apache-2.0
// Inspector: looks at a store that may be damaged, and fails the test where something is missing without an error or has other
// bytes than it should. An error is fine if it says DataLoss and names the thing.
// Belongs to one thread.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>

#include "client.h"
#include "lab.h"
#include "oracle.h"

namespace forebay::crash {

/// What became of damaged stores.
struct Counts {
  int refused = 0, failed = 0, intact = 0;
  void Add(const Counts& other) {
    refused += other.refused;
    failed += other.failed;
    intact += other.intact;
  }
  void Report(const std::string& what) const {
    std::printf("%s: %d states: %d refused to open, %d failed to read, %d intact\n", what.c_str(),
                refused + failed + intact, refused, failed, intact);
  }
};

/// Looks at the store of a lab.
class Inspector {
 public:
  Inspector(Lab& lab, const Oracle& oracle) : lab_(lab), oracle_(oracle) {}

  /// Looks at one object: true when it is right, false when it fails by name; all else is a failure of the test.
  bool IsRight(const std::string& key, const std::string& what) {
    const Result<Object> object = lab_.Run(GetObject(lab_, key));
    if (object.ok()) {
      EXPECT_EQ(oracle_.CheckObject(key, object->info, object->content), "") << what;
      EXPECT_EQ(oracle_.CheckValue(key, GenerationOf(object->info)), "") << what;
      return true;
    }
    if (object.status().code() == Code::kNotFound) {
      EXPECT_EQ(oracle_.CheckValue(key, Value()), "") << what;
      return true;
    }
    EXPECT_EQ(object.status().code(), Code::kDataLoss) << what << ": " << key << ": " << object.status().ToString();
    EXPECT_NE(object.status().message().find(key), std::string_view::npos) << what << ": " << object.status().ToString();
    return false;
  }
  /// Looks at the listing: true when it is complete, false when it fails.
  bool ListingIsRight(const std::string& what) {
    const auto listed = lab_.Run(ListAll(lab_, 1000));
    if (!listed.ok()) {
      EXPECT_EQ(listed.status().code(), Code::kDataLoss) << what << ": " << listed.status().ToString();
      return false;
    }
    std::set<std::string> found;
    for (const store::ObjectInfo& info : *listed) {
      EXPECT_TRUE(found.insert(info.key).second) << what << ": " << info.key << " is listed twice";
      EXPECT_EQ(oracle_.CheckValue(info.key, GenerationOf(info)), "") << what;
    }
    for (const auto& [key, operations] : oracle_.keys()) {
      if (!found.contains(key)) EXPECT_EQ(oracle_.CheckValue(key, Value()), "") << what << ": not listed";
    }
    return true;
  }
  /// Opens the damaged store and looks at everything.
  void OpenAndLook(const std::string& what) {
    const Status opened = lab_.Open();
    if (!opened.ok()) {
      ++counts.refused;
      EXPECT_TRUE(opened.code() == Code::kDataLoss || opened.code() == Code::kFailedPrecondition)
          << what << ": " << opened.ToString();
      return;
    }
    bool right = ListingIsRight(what);
    for (const auto& [key, operations] : oracle_.keys()) right &= IsRight(key, what);
    ++(right ? counts.intact : counts.failed);
    lab_.Close();
  }

  Counts counts;

 private:
  Lab& lab_;
  const Oracle& oracle_;
};

}  // namespace forebay::crash
