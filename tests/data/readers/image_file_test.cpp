#include "lockstep/data/readers/image_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <exception>

#include "lockstep/base/error.h"
#include "lockstep/data/readers/bad_files.h"
#include "tests/data/files.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ReadImageFile, GivesAllBytes) {
  const test::TemporaryFolder folder;
  const std::string bytes = "P6" + std::string(100'000, 'x') + '\0' + "end";
  write_file(folder.file("a"), bytes);
  EXPECT_EQ(read_image_file(folder.file("a")), bytes);
  write_file(folder.file("b"), "");
  EXPECT_EQ(read_image_file(folder.file("b")), "");
}

TEST(ReadImageFile, TakesNoMemoryForALargeFileThatIsNoImage) {
  const test::TemporaryFolder folder;
  write_file(folder.file("film.jpg"), "RIFF");
  ASSERT_EQ(::truncate(folder.file("film.jpg").c_str(), off_t{1} << 30), 0);
  const std::string bytes = read_image_file(folder.file("film.jpg"));
  EXPECT_EQ(bytes.substr(0, 4), "RIFF");
  EXPECT_LT(bytes.capacity(), 10'000U);
}

TEST(ReadImageFile, DoesNotWaitForAPipe) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.file("pipe.jpg").c_str(), 0600), 0);
  EXPECT_THAT([&] { (void)read_image_file(folder.file("pipe.jpg")); },
              ThrowsMessage<IoError>(HasSubstr("it is a folder, pipe or device")));
}

TEST(ReadImageFile, SaysWhyItCannotBeRead) {
  const test::TemporaryFolder folder;
  EXPECT_THAT([&] { (void)read_image_file(folder.file("none.jpg")); },
              ThrowsMessage<IoError>(HasSubstr("No such file")));
  write_file(folder.file("large.jpg"), "");
  ASSERT_EQ(::truncate(folder.file("large.jpg").c_str(), off_t{1} << 40), 0);
  EXPECT_THAT([&] { (void)read_image_file(folder.file("large.jpg")); },
              ThrowsMessage<IoError>(HasSubstr("it has 1.0 TiB")));
}

TEST(ReadImageFile, TellsTroubleOfTheProcessFromABadFile) {
  const test::TemporaryFolder folder;
  write_file(folder.file("a.jpg"), "good");
  std::exception_ptr error;
  {
    const NoMoreFiles limit;
    try {
      (void)read_image_file(folder.file("a.jpg"));
    } catch (...) {
      error = std::current_exception();
    }
  }
  ASSERT_TRUE(error);
  EXPECT_THAT([&] { std::rethrow_exception(error); },
              ThrowsMessage<NotTheFile>(HasSubstr("opening it: Too many open files")));
  EXPECT_EQ(read_image_file(folder.file("a.jpg")), "good");
  try {
    (void)read_image_file(folder.file("none.jpg"));
    FAIL();
  } catch (const NotTheFile&) {
    FAIL() << "a file that is not there is a bad one";
  } catch (const IoError&) {
  }
}

}  // namespace
}  // namespace lockstep::data
