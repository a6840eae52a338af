#include "lockstep/train/input/data_source.h"

#include <gmock/gmock.h>

#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "tests/support/child.h"
#include "tests/support/ordinary_user.h"
#include "tests/train/input/image_files.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

using toys::write_classes;
using toys::write_image;

// Else the first checkpoint would fail, at the end of an epoch.
TEST(OpenData, NamesThatNoCheckpointCanHoldAreRefused) {
  const toys::Folder folder;
  write_classes(folder.path + "/photos", 3);
  std::filesystem::rename(folder.path + "/photos/cat", folder.path + "/photos/k\xe4tzchen");
  EXPECT_THAT([&] { open_data({.data = folder.path + "/photos"}); },
              ::testing::ThrowsMessage<UsageError>(
                  ::testing::HasSubstr("the class 'k\xef\xbf\xbdtzchen' is not UTF-8")));
}

TEST(OpenData, WhatIsNoDataSaysWhatIsExpected) {
  const toys::Folder folder;
  const auto refused = [](const std::string& text) {
    return ::testing::ThrowsMessage<UsageError>(
        ::testing::AllOf(::testing::HasSubstr(text), ::testing::HasSubstr("HINT: ")));
  };
  std::filesystem::create_directories(folder.path + "/none");
  EXPECT_THAT([&] { open_data({.data = folder.path + "/none"}); }, refused("has nothing in it"));
  write_image(folder.path + "/flat/0.ppm", 1);
  EXPECT_THAT([&] { open_data({.data = folder.path + "/flat"}); },
              refused("has 1 file and no folder in it"));
  write_image(folder.path + "/parts/train/0.ppm", 1);
  write_classes(folder.path + "/parts/val", 1);
  EXPECT_THAT([&] { open_data({.data = folder.path + "/parts"}); }, refused("no folder in it"));
  for (const auto& [content, text] : {std::pair("", "no row of numbers in 0 lines"),
                                      {"\n \n", "no row of numbers in 2 lines"},
                                      {"a,b,class\n", "no row of numbers in 1 lines"},
                                      {"1,2,0\n", "has 1 sample,"},
                                      {"1,2,0\n1,3,1000000\n", "has the label 1000000"}}) {
    std::ofstream(folder.path + "/t.csv") << content;
    EXPECT_THAT([&] { open_data({.data = folder.path + "/t.csv"}); }, refused(text));
  }
}

TEST(OpenData, CifarWithoutItsTestIsToldSo) {
  const toys::Folder folder;
  std::ofstream(folder.path + "/data_batch_1.bin") << "0";
  EXPECT_THAT([&] { open_data({.data = folder.path}); },
              ::testing::ThrowsMessage<IoError>(::testing::HasSubstr("no test_batch.bin")));
}

TEST(OpenData, APipeIsRefusedInsteadOfWaitedFor) {
  const toys::Folder folder;
  ASSERT_EQ(::mkfifo((folder.path + "/points.csv").c_str(), 0600), 0);
  for (const auto& path : {folder.path + "/points.csv", std::string("/dev/zero")}) {
    EXPECT_THAT(
        [&] { open_data({.data = path}); },
        ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("is a pipe or a device")));
  }
}

TEST(OpenData, OneImageIsNoTable) {
  const toys::Folder folder;
  std::ofstream(folder.path + "/cat.JPG") << "0";
  EXPECT_THAT([&] { open_data({.data = folder.path + "/cat.JPG"}); },
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("is one image")));
}

TEST(OpenData, AFolderThatMayNotBeReadIsNamed) {
  const toys::Folder folder;
  std::filesystem::create_directories(folder.path + "/closed");
  std::filesystem::permissions(folder.path + "/closed", std::filesystem::perms::none);
  std::filesystem::permissions(folder.path, std::filesystem::perms::all);
  const auto status = test::run_in_child([&] {
    if (!testing::become_ordinary_user()) {
      return 2;
    }
    try {
      open_data({.data = folder.path + "/closed"});
    } catch (const IoError& error) {
      const std::string text = "reading '" + folder.path + "/closed': Permission denied";
      return error.what() == text ? 0 : 1;
    }
    return 3;
  });
  EXPECT_EQ(status, 0);  // Also not ended by an exception.
}

TEST(OpenData, WhatIsNotThereIsAnErrorWithTheNearestName) {
  EXPECT_THAT([] { open_data({.data = "fashion-minst"}); },
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("fashion-mnist")));
}

TEST(OpenData, WithoutANameItIsFashionMnistWhereDebianHasIt) {
  const bool is_installed =
      std::filesystem::exists("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz");
  EXPECT_EQ(open_data({}).name, is_installed ? "fashion-mnist" : "generated");
}

TEST(OpenData, GeneratedImagesNeedNoFiles) {
  const auto source = open_data({.data = "generated"});
  EXPECT_EQ(source.name, "generated");
  EXPECT_EQ(source.input, (std::vector<std::int64_t>{1, 28, 28}));
}

}  // namespace
}  // namespace lockstep::train
