#include "lockstep/data/readers/image_folder.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "tests/data/files.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

class ImageFolderIndexTest : public ::testing::Test {
 protected:
  void add(const std::string& name) {
    fs::create_directories(fs::path(folder_.file(name)).parent_path());
    write_file(folder_.file(name), "no image: files are not opened");
  }
  [[nodiscard]] std::string root() const { return folder_.file("."); }

  test::TemporaryFolder folder_;
};

std::vector<std::string> paths_of(const ImageFolderIndex& index) {
  std::vector<std::string> paths;
  for (const FolderImage& image : index.images) {
    paths.push_back(std::to_string(image.label) + " " + image.path);
  }
  return paths;
}

TEST_F(ImageFolderIndexTest, NumbersClassesByName) {
  for (const char* name :
       {"dog/b.jpg", "dog/a.JPEG", "Cat/x.png", "ant/1.ppm", "ant/deep/er/0.pgm"}) {
    add(name);
  }
  for (const int threads : {0, 1, 3}) {
    const auto index = index_image_folder(root(), {.num_threads = threads});
    EXPECT_THAT(index.classes, ElementsAre("Cat", "ant", "dog"));
    EXPECT_THAT(index.class_counts, ElementsAre(1, 2, 2));
    EXPECT_THAT(paths_of(index), ElementsAre("0 Cat/x.png", "1 ant/1.ppm", "1 ant/deep/er/0.pgm",
                                             "2 dog/a.JPEG", "2 dog/b.jpg"));
  }
}

TEST_F(ImageFolderIndexTest, SaysWhatItSkippedAndWhy) {
  for (const char* name : {"a/1.jpg", "a/notes.txt", "a/jpg", "a/2.webp", "readme.jpg"}) {
    add(name);
  }
  for (int i = 0; i < 20; ++i) {
    add("b/" + std::to_string(i) + ".tif");
  }
  add("b/x.png");
  const std::string summary = index_image_folder(root()).summary();
  EXPECT_THAT(summary, HasSubstr("2 images in 2 classes, 1 to 1 in a class"));
  EXPECT_THAT(summary, HasSubstr("skipped 1: it is not in the folder of a class (readme.jpg)"));
  EXPECT_THAT(summary, HasSubstr("skipped 2: the name does not end like an image's (a/"));
  EXPECT_THAT(summary, HasSubstr("skipped 1: there is no decoder for .webp (a/2.webp)"));
  EXPECT_THAT(summary, AllOf(HasSubstr("skipped 20: there is no decoder for .tif (b/"),
                             HasSubstr(", ...)")));
}

TEST_F(ImageFolderIndexTest, FollowsLinksButNotInCircles) {
  add("a/1.jpg");
  add("elsewhere.d/sub/2.jpg");
  fs::create_directory_symlink(folder_.file("elsewhere.d/sub"), folder_.file("a/link"));
  fs::create_directory_symlink(folder_.file("a"), folder_.file("a/link2"));
  fs::create_symlink(folder_.file("nowhere"), folder_.file("a/lost.jpg"));
  const auto index = index_image_folder(root());
  EXPECT_THAT(paths_of(index), ElementsAre("0 a/1.jpg", "0 a/lost.jpg", "0 a/link/2.jpg",
                                           "1 elsewhere.d/sub/2.jpg"));
  EXPECT_THAT(index.summary(), HasSubstr("skipped 1: a link to a folder above it (a/link2)"));
}

TEST_F(ImageFolderIndexTest, EmptyClassesAreNamedUnlessAllowed) {
  add("a/1.jpg");
  add("b/2.txt");
  EXPECT_THAT([&] { index_image_folder(root()); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("no image of the class 'b'"),
                                           HasSubstr(".jpg, .jpeg, .png"), Not(HasSubstr("'a'")))));
  EXPECT_THAT(index_image_folder(root(), {.allow_empty = true}).class_counts, ElementsAre(1, 0));
}

TEST_F(ImageFolderIndexTest, ARootThatIsNoneIsNamed) {
  EXPECT_THAT([&] { index_image_folder(folder_.file("none")); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("/none'"), HasSubstr("No such file"))));
  EXPECT_THAT([&] { index_image_folder(root()); },
              ThrowsMessage<IoError>(HasSubstr("there is no folder in it")));
}

}  // namespace
}  // namespace lockstep::data
