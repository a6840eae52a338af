#include "lockstep/data/readers/folder_listing.h"

#include <gmock/gmock.h>

#include <cerrno>

#include "lockstep/base/error.h"
#include "tests/data/files.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ListFolder, TellsFoldersFromFilesAndLinksByWhatTheyPointTo) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("inner"));
  write_file(folder.file("file"), "");
  std::filesystem::create_directory_symlink(folder.file("inner"), folder.file("link"));
  std::vector<FolderEntry> entries;
  EXPECT_EQ(list_folder(folder.path, entries), 0);
  std::map<std::string, bool> found;
  for (const FolderEntry& entry : entries) {
    found[entry.name] = entry.is_folder;
  }
  EXPECT_EQ(found, (std::map<std::string, bool>{{"file", false}, {"inner", true}, {"link", true}}));
  EXPECT_EQ(list_folder(folder.file("file"), entries), ENOTDIR);
}

TEST(SkipFile, CountsAllAndKeepsTheFirstPaths) {
  SkippedByReason skipped;
  for (int i = 0; i < 7; ++i) {
    skip_file(skipped, "reason", std::to_string(i));
  }
  SkippedByReason all;
  skip_file(all, "reason", "first");
  merge_skipped(all, skipped);
  EXPECT_EQ(all["reason"].count, 8);
  EXPECT_THAT(all["reason"].examples, ElementsAre("first", "0", "1", "2", "3"));
}

TEST(SkipFile, NamesReachTheTerminalWithoutControlCharacters) {
  SkippedByReason skipped;
  skip_file(skipped, "reason", "a/\x1b[31m.txt");
  EXPECT_THAT(skipped["reason"].examples, ElementsAre("a/?[31m.txt"));
  const ImageFolderIndex index{.root = "photos", .classes = {"\x1b[2J"}, .class_counts = {0}};
  EXPECT_THAT([&] { require_images(index, {}, {}); },
              ThrowsMessage<IoError>(HasSubstr("no image of the class '?[2J'")));
}

TEST(WhyNoImage, GoesByTheEndOfTheNameInAnyCase) {
  EXPECT_EQ(why_no_image("x.JPEG", {}), "");
  EXPECT_EQ(why_no_image("x.webp", {}), "there is no decoder for .webp");
  EXPECT_EQ(why_no_image("jpeg", {}), "the name does not end like an image's");
}

TEST(RequireImages, NamesEmptyClassesWithWhatIsKnown) {
  const ImageFolderIndex index{.root = "r", .classes = {"a", "b", "c"}, .class_counts = {0, 1, 0}};
  EXPECT_THAT([&] { require_images(index, {}, {"Permission denied: a", "", ""}); },
              ThrowsMessage<IoError>(HasSubstr("of the class 'a' (Permission denied: a), 'c', ")));
  EXPECT_NO_THROW(require_images(index, {.allow_empty = true}, {}));
}

}  // namespace
}  // namespace lockstep::data
