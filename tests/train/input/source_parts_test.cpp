#include "lockstep/train/input/source_parts.h"

#include <gmock/gmock.h>

#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/train/input/data_source.h"
#include "tests/train/input/image_files.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

using toys::write_classes;

TEST(SplitBySeed, OfFewSamplesOneValidates) {
  const toys::Folder folder;
  write_classes(folder.path, 2);
  const auto source = open_data({.data = folder.path});
  EXPECT_EQ(source.train->size(), 3);
  EXPECT_EQ(source.validation->size(), 1);
  EXPECT_TRUE(source.is_split_by_seed);
  std::ofstream(folder.path + "/one.csv") << "a,b,class\n1,2,0\n";
  EXPECT_THAT([&] { open_data({.data = folder.path + "/one.csv"}); },
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("has 1 sample,")));
}

TEST(NameOf, ADotIsPartOfAFoldersName) {
  const toys::Folder folder;
  for (const char* name : {"photos.v1", "photos.v2"}) {
    write_classes(folder.path + "/" + name, 2);
    EXPECT_EQ(open_data({.data = folder.path + "/" + name}).name, name);
    EXPECT_EQ(open_data({.data = folder.path + "/" + name + "/"}).name, name);
  }
  std::ofstream(folder.path + "/points.v1.csv") << "1,2,0\n2,1,1\n1,2,0\n";
  EXPECT_EQ(open_data({.data = folder.path + "/points.v1.csv"}).name, "points.v1");
}

}  // namespace
}  // namespace lockstep::train
