// SPDX-License-Identifier: Apache-2.0
// Holds the tree to the folder table in docs/layers.txt, and shows on planted trees that it would notice.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layer_check.h"

namespace forebay::integration {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream) << path;
  return {std::istreambuf_iterator<char>(stream), {}};
}

LayerTable RealTable() {
  auto table = LayerTable::Parse(ReadFile(std::filesystem::path(FOREBAY_SOURCE_DIR) / "docs/layers.txt"));
  EXPECT_TRUE(table) << "docs/layers.txt " << table.error();
  return table.value_or(LayerTable());
}

// A tree in a directory of its own, removed at the end.
class PlantedTree {
 public:
  PlantedTree() {
    std::string name = (std::filesystem::temp_directory_path() / "forebay-layers-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "mkdtemp " << name;
    root_ = name;
  }
  ~PlantedTree() { std::filesystem::remove_all(root_); }
  PlantedTree(const PlantedTree&) = delete;
  PlantedTree& operator=(const PlantedTree&) = delete;

  void Add(const std::string& path, const std::string& content) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content;
  }
  const std::filesystem::path& root() const { return root_; }

 private:
  std::filesystem::path root_;
};

TEST(LayersTest, TheTreeKeepsToTheTable) {
  const TreeReport report = CheckTree(RealTable(), FOREBAY_SOURCE_DIR);
  EXPECT_GT(report.files, 0) << "no file found below " << FOREBAY_SOURCE_DIR;
  for (const std::string& violation : report.violations) ADD_FAILURE() << violation;
}

TEST(LayersTest, ThePlantedViolationIsFoundByFileAndLine) {
  PlantedTree tree;
  tree.Add("src/store/object_store.h", "#pragma once\n\n#include <vector>\n\n#include \"rt/task.h\"\n");
  tree.Add("src/store/memory/memory_store.cc",
           "#include \"store/object_store.h\"\n#include \"engine/engine.h\"\n");
  const TreeReport report = CheckTree(RealTable(), tree.root());
  EXPECT_EQ(report.files, 2);
  EXPECT_THAT(report.violations,
              ElementsAre(HasSubstr("src/store/memory/memory_store.cc:2: `store` may not include `engine`")));
}

TEST(LayersTest, ThirdPartyHeadersStayInTheirLeafFolder) {
  const LayerTable table = RealTable();
  EXPECT_THAT(table.Check("src/meta/rocks_meta.cc", "#include <rocksdb/db.h>\n"), IsEmpty());
  EXPECT_THAT(table.Check("src/engine/engine.cc", "#include <rocksdb/db.h>\n"),
              ElementsAre(HasSubstr("src/engine/engine.cc:1: <rocksdb/db.h> belongs in `meta` only")));
  EXPECT_THAT(table.Check("src/native/server.cc", "#include <grpcpp/grpcpp.h>\n"),
              ElementsAre(HasSubstr("control")));
  EXPECT_THAT(
      table.Check("include/forebay/client.h", "#include <fmt/format.h>\n#include <spdlog/spdlog.h>\n"),
      ElementsAre(HasSubstr("include/forebay/client.h:2:")));
  EXPECT_THAT(table.Check("src/rt/a.cc", "#include <boost/asio.hpp>\n"),
              ElementsAre(HasSubstr("no line of the table")));
}

TEST(LayersTest, GoogleTestStaysInTestsAndSuites) {
  const LayerTable table = RealTable();
  const std::string content = "#include <gtest/gtest.h>\n";
  EXPECT_THAT(table.Check("src/rt/task_test.cc", content), IsEmpty());
  EXPECT_THAT(table.Check("src/store/object_store_suite.h", content), IsEmpty());
  EXPECT_THAT(table.Check("src/rt/task.cc", content), ElementsAre(HasSubstr("_test.cc")));
}

TEST(LayersTest, StandardAndSystemHeadersAreFree) {
  EXPECT_THAT(
      RealTable().Check("src/base/a.cc", "#include <vector>\n#include <unistd.h>\n# include <sys/mman.h>\n"),
      IsEmpty());
}

TEST(LayersTest, OurHeadersAreSpeltFromTheRoot) {
  const LayerTable table = RealTable();
  EXPECT_THAT(table.Check("src/rt/task.cc", "#include \"task.h\"\n"),
              ElementsAre(HasSubstr("not spelt from")));
  EXPECT_THAT(table.Check("src/rt/task.cc", "#include \"../base/status.h\"\n"),
              ElementsAre(HasSubstr("no folder")));
  EXPECT_THAT(table.Check("src/rt/task.cc", "#define X \"engine/engine.h\"\n#include X\n"),
              ElementsAre(HasSubstr("src/rt/task.cc:2: `X` is an include this check cannot follow")));
}

TEST(LayersTest, GeneratedHeadersBelongToWireAndStubsNeedGrpc) {
  const LayerTable table = RealTable();
  const std::string messages = "#include \"forebay/control/v1/sessions.pb.h\"\n";
  const std::string stubs = "#include \"forebay/control/v1/sessions.grpc.pb.h\"\n";
  EXPECT_THAT(table.Check("src/control/a.cc", messages + stubs), IsEmpty());
  EXPECT_THAT(table.Check("src/wire/a.cc", messages), IsEmpty());
  EXPECT_THAT(table.Check("src/wire/a.cc", stubs), ElementsAre(HasSubstr("gRPC stubs")));
  EXPECT_THAT(table.Check("src/engine/a.cc", messages),
              ElementsAre(HasSubstr("`engine` may not include `wire`")));
}

TEST(LayersTest, VocabularyIsInheritedAndNothingElse) {
  const LayerTable table = RealTable();
  EXPECT_TRUE(table.MayInclude("engine", "base"));
  EXPECT_TRUE(table.MayInclude("engine", "rt")) << "store brings rt";
  EXPECT_TRUE(table.MayInclude("bench", "rt")) << "client has rt by way of store";
  EXPECT_FALSE(table.MayInclude("auth", "rt")) << "neither base nor wire has rt";
  EXPECT_FALSE(table.MayInclude("bench", "fabric"));
  EXPECT_FALSE(table.MayInclude("base", "rt"));
  EXPECT_FALSE(table.MayInclude("include", "base")) << "the installed API names std types only";
  EXPECT_TRUE(table.MayInclude("app", "engine"));
}

TEST(LayersTest, AFolderWithoutALineIsAViolation) {
  EXPECT_THAT(RealTable().Check("src/util/strings.h", "#include <string>\n"),
              ElementsAre(HasSubstr("folder `util` has no line")));
}

TEST(LayersTest, ACycleCannotBeWritten) {
  const auto table = LayerTable::Parse("base : ;\nrt : store ;\nstore : rt ;\n");
  ASSERT_FALSE(table);
  EXPECT_THAT(table.error(), HasSubstr("line 2: `rt` includes `store`"));
  EXPECT_THAT(LayerTable::Parse("base : ;\nbase : ;\n").error(), HasSubstr("line 2"));
  EXPECT_THAT(LayerTable::Parse("base include\n").error(), HasSubstr("line 1"));
}

}  // namespace
}  // namespace forebay::integration
