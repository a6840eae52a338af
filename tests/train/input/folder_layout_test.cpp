#include "lockstep/train/input/folder_layout.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

class FolderLayoutTest : public ::testing::Test {
 protected:
  void write(const std::string& file) const {
    const std::filesystem::path path = folder_.file(file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "x";
  }
  void write_classes(const std::string& part) const {
    write(part + "/cat/0.jpg");
    write(part + "/dog/0.jpg");
  }
  [[nodiscard]] std::string path(const std::string& file) const { return folder_.file(file); }
  [[nodiscard]] FolderLayout layout(const std::string& root) const {
    return folder_layout(path(root));
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(FolderLayoutTest, ClassesWithoutPartsAreInTheFolderItself) {
  write_classes("photos");
  const auto found = layout("photos");
  EXPECT_EQ(found.train, path("photos"));
  EXPECT_EQ(found.validation, "");
  EXPECT_EQ(found.test, "");
  EXPECT_THAT(found.warnings, IsEmpty());
}

TEST_F(FolderLayoutTest, EachNameOfAPart) {
  for (const char* name : {"val", "valid", "validation"}) {
    const std::string root = std::string("with_") + name;
    write_classes(root + "/train");
    write_classes(root + "/" + name);
    EXPECT_EQ(layout(root).validation, path(root + "/" + name));
    EXPECT_EQ(layout(root).test, "");
    write_classes(root + "/test");
    EXPECT_EQ(layout(root).train, path(root + "/train"));
    EXPECT_EQ(layout(root).validation, path(root + "/" + name));
    EXPECT_EQ(layout(root).test, path(root + "/test"));
    EXPECT_THAT(layout(root).warnings, IsEmpty());
  }
  write_classes("two/train");
  write_classes("two/test");
  EXPECT_EQ(layout("two").validation, path("two/test"));
  EXPECT_EQ(layout("two").test, "");
}

TEST_F(FolderLayoutTest, LargeLettersMeanTheSame) {
  write_classes("photos/Train");
  write_classes("photos/VAL");
  write_classes("photos/Test");
  const auto found = layout("photos");
  EXPECT_EQ(found.train, path("photos/Train"));
  EXPECT_EQ(found.validation, path("photos/VAL"));
  EXPECT_EQ(found.test, path("photos/Test"));
  write_classes("photos/train");
  EXPECT_EQ(layout("photos").train, path("photos/train"));
  EXPECT_THAT(layout("photos").warnings, ElementsAre(HasSubstr("photos/Train'; ")));
}

TEST_F(FolderLayoutTest, WhatIsNotUsedIsNamed) {
  write_classes("photos/train");
  write_classes("photos/val");
  write_classes("photos/valid");
  write_classes("photos/more");
  write_classes("photos/.cache");
  const auto found = layout("photos");
  EXPECT_EQ(found.validation, path("photos/val"));
  EXPECT_THAT(
      found.warnings,
      ElementsAre(AllOf(HasSubstr("not used: '"), HasSubstr("photos/more', '"),
                        HasSubstr("photos/valid'; '"), HasSubstr("photos/train' trains and"),
                        EndsWith("photos/val' validates"))));
  for (int i = 0; i < 10; ++i) {
    write_classes("photos/" + std::to_string(i));
  }
  EXPECT_THAT(layout("photos").warnings, ElementsAre(HasSubstr("photos/4' and 7 others; ")));
  write_classes("two/train");
  write_classes("two/more");
  EXPECT_EQ(layout("two").validation, "");
  EXPECT_THAT(layout("two").warnings, ElementsAre(EndsWith("two/train' trains")));
}

TEST_F(FolderLayoutTest, TrainsAreAClassBesideOtherVehicles) {
  for (const char* vehicle : {"bus", "car", "train"}) {
    write(std::string("vehicles/") + vehicle + "/0.jpg");
  }
  EXPECT_EQ(layout("vehicles").train, path("vehicles"));
  EXPECT_THAT(layout("vehicles").warnings, IsEmpty());
}

TEST_F(FolderLayoutTest, ATrainingPartWithoutClassesIsNoClass) {
  write("cats_dogs/train/cat.0.jpg");
  write("cats_dogs/test1/1.jpg");
  EXPECT_EQ(layout("cats_dogs").train, path("cats_dogs/train"));
  write("cats_dogs/more/1.jpg");
  EXPECT_EQ(layout("cats_dogs").train, path("cats_dogs/train"));
}

TEST_F(FolderLayoutTest, PartsOfWhichNoneTrainsAreRefused) {
  write_classes("photos/Testing");
  EXPECT_THAT([&] { (void)layout("photos"); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("photos/Testing' and no part that trains"),
                                              EndsWith("photos/train/cat/1.jpg"))));
  write_classes("photos/Training");
  EXPECT_EQ(layout("photos").train, path("photos/Training"));
  EXPECT_EQ(layout("photos").validation, path("photos/Testing"));
}

TEST_F(FolderLayoutTest, AFolderAboveThatOfTheDataIsRefusedWithItsPath) {
  for (const char* file :
       {"data_batch_1.bin", "train.bin", "train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"}) {
    const std::string root = std::string("above_") + file;
    write(root + "/unpacked/" + file);
    write(root + "/unpacked/test.bin");
    EXPECT_THAT([&] { (void)layout(root); },
                ThrowsMessage<UsageError>(EndsWith("HINT: " + path(root + "/unpacked"))));
    write_classes(root + "/train");
    EXPECT_EQ(layout(root).train, path(root + "/train")) << "another set beside it does no harm";
  }
}

TEST_F(FolderLayoutTest, OneClassIsRefused) {
  write("one/cat/0.jpg");
  EXPECT_THAT([&] { require_class_folders(path("one")); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("has one folder in it, 'cat'"),
                                              HasSubstr("HINT: "), HasSubstr("dog/2.jpg"))));
  write_classes("above/photos");
  EXPECT_THAT([&] { require_class_folders(path("above")); },
              ThrowsMessage<UsageError>(EndsWith("HINT: " + path("above/photos"))));
  EXPECT_NO_THROW(require_class_folders(path("above/photos")));
  EXPECT_NO_THROW(require_class_folders(path("not there"))) << "the reader says so";
}

}  // namespace
}  // namespace lockstep::train
