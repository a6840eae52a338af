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
              ThrowsMessage<IoError>(AllOf(
                  HasSubstr("no image of the class 'b' (the name does not end like an image's: "
                            "b/2.txt)"),
                  HasSubstr(".jpg, .jpeg, .png"), Not(HasSubstr("'a'")))));
  const auto index = index_image_folder(root(), {.allow_empty = true});
  EXPECT_THAT(index.class_counts, ElementsAre(1, 0));
  EXPECT_THAT(index.summary(), HasSubstr("skipped 1: there is no image in the folder (b)"));
}

TEST_F(ImageFolderIndexTest, FoldersWithoutImagesAreListed) {
  add("a/1.jpg");
  add("a/notes/only/text.txt");
  fs::create_directories(folder_.file("a/deep/and/empty"));
  add("a/deep/2.jpg");
  fs::create_directories(folder_.file("b/nothing"));
  const auto summary = index_image_folder(root(), {.allow_empty = true}).summary();
  // One for each branch: what is below it has no images either.
  EXPECT_THAT(summary,
              HasSubstr("skipped 3: there is no image in the folder (a/deep/and, a/notes, b)"));
}

// A path that is too long cannot be read by anybody, root included.
TEST_F(ImageFolderIndexTest, AClassThatCannotBeReadHasTheReason) {
  std::string deep = folder_.path;
  while (deep.size() + 202 < 4090) {
    deep += "/" + std::string(200, 'x');
  }
  deep += "/" + std::string(4090 - deep.size() - 1, 'y');
  const auto before = fs::current_path();
  fs::create_directories(deep);
  fs::current_path(deep);
  fs::create_directory("class_of_much");
  fs::create_directory("a");
  write_file("a/1.jpg", "");
  fs::current_path(before);
  EXPECT_THAT([&] { index_image_folder(deep); },
              ThrowsMessage<IoError>(
                  HasSubstr("of the class 'class_of_much' (File name too long: class_of_much)")));
  EXPECT_THAT(index_image_folder(deep, {.allow_empty = true}).summary(),
              AllOf(HasSubstr("skipped 1: File name too long (class_of_much)"),
                    Not(HasSubstr("there is no image in the folder"))));
  fs::current_path(deep);
  fs::remove("class_of_much");  // Not everybody who removes a folder gets at it.
  fs::current_path(before);
}

TEST_F(ImageFolderIndexTest, ARootThatIsNoneIsNamed) {
  EXPECT_THAT([&] { index_image_folder(folder_.file("none")); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("/none'"), HasSubstr("No such file"))));
  EXPECT_THAT([&] { index_image_folder(root()); },
              ThrowsMessage<IoError>(HasSubstr("there is no folder in it")));
}

}  // namespace
}  // namespace lockstep::data
