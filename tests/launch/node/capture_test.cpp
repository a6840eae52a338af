#include "lockstep/launch/node/capture.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "tests/launch/job.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class CaptureTest : public ::testing::Test {
 protected:
  // Writes all of `pieces` through a capture with this prefix.
  Capture capture(const std::vector<std::string>& pieces, const std::string& prefix) {
    Pipe pipe = make_pipe();
    Capture capture(std::move(pipe.read_end), {folder_.file("log"), &consoles_.get().out, prefix});
    for (const auto& piece : pieces) {
      write_all(pipe.write_end.get(), piece);
      EXPECT_TRUE(capture.read_some());
    }
    EXPECT_TRUE(capture.read_some()) << "nothing to read is not the end";
    pipe.write_end.reset();
    EXPECT_FALSE(capture.read_some());
    capture.finish();
    return capture;
  }

  test::TemporaryFolder folder_;
  TestConsoles consoles_{folder_};
};

TEST_F(CaptureTest, PassesBytesOnUnchanged) {
  const Capture done = capture({"a\nb", "c\r", std::string("\0\xff", 2)}, "");
  const std::string all("a\nbc\r\0\xff", 8);
  EXPECT_EQ(consoles_.out(), all.substr(0, 7));
  EXPECT_EQ(folder_.read("log").size(), 7U);
  EXPECT_EQ(done.tail().size(), 7U);
}

TEST_F(CaptureTest, PrefixesWholeLines) {
  capture({"a\nb", "c\n\nd"}, "[0]:");
  EXPECT_EQ(consoles_.out(), "[0]:a\n[0]:bc\n[0]:\n[0]:d\n");
  EXPECT_EQ(folder_.read("log"), "a\nbc\n\nd") << "the file has no prefixes";
}

TEST_F(CaptureTest, KeepsTheEndOfALongStream) {
  std::vector<std::string> pieces(20, std::string(32 << 10, 'x'));
  pieces.emplace_back("the end");
  const Capture done = capture(pieces, "");
  EXPECT_GE(done.tail().size(), std::size_t{64} << 10);
  EXPECT_LE(done.tail().size(), std::size_t{128} << 10);
  EXPECT_TRUE(done.tail().ends_with("the end"));
}

TEST_F(CaptureTest, CutsAnEndlessLine) {
  capture(std::vector<std::string>(8, std::string(16 << 10, 'x')), "P");
  EXPECT_EQ(consoles_.out().size(), (std::size_t{128} << 10) + 4);
}

TEST_F(CaptureTest, AFullDiskIsSaidOnce) {
  Pipe pipe = make_pipe();
  Capture capture(std::move(pipe.read_end),
                  {"/dev/full", &consoles_.get().out, "", &consoles_.get().err});
  for (int i = 0; i < 3; ++i) {
    write_all(pipe.write_end.get(), "line\n");
    capture.read_some();
  }
  EXPECT_THAT(consoles_.err(),
              HasSubstr("the log '/dev/full' ends here: No space left on device\n"));
  EXPECT_EQ(consoles_.out(), "line\nline\nline\n");
}

TEST_F(CaptureTest, AFileThatIsFoundLaterHasWhatCameBefore) {
  Pipe pipe = make_pipe();
  std::string found;
  Capture capture(std::move(pipe.read_end),
                  {"", &consoles_.get().out, "", &consoles_.get().err, [&] { return found; }});
  const auto write = [&](const std::string& text) {
    write_all(pipe.write_end.get(), text);
    capture.read_some();
  };
  write("a\n");
  EXPECT_EQ(capture.file(), "");
  found = folder_.file("late");
  write("b\n");
  found = "";
  write("c\n");
  EXPECT_EQ(capture.file(), folder_.file("late"));
  EXPECT_EQ(folder_.read("late"), "a\nb\nc\n");
  EXPECT_EQ(consoles_.out(), "a\nb\nc\n");
}

TEST_F(CaptureTest, WhatWasSilentHasAnEmptyFile) {
  Pipe pipe = make_pipe();
  Capture capture(std::move(pipe.read_end),
                  {"", nullptr, "", nullptr, [&] { return folder_.file("late"); }});
  capture.finish();
  EXPECT_TRUE(std::filesystem::exists(folder_.file("late")));
}

TEST_F(CaptureTest, AFileThatCannotBeMadeIsSaidOnceAndCostsNoOutput) {
  Pipe pipe = make_pipe();
  Capture capture(std::move(pipe.read_end), {"", &consoles_.get().out, "", &consoles_.get().err,
                                             [] { return "/proc/nothing/log"; }});
  for (int i = 0; i < 2; ++i) {
    write_all(pipe.write_end.get(), "line\n");
    capture.read_some();
  }
  EXPECT_EQ(capture.file(), "");
  EXPECT_EQ(consoles_.out(), "line\nline\n");
  const auto text = consoles_.err();
  EXPECT_THAT(text, ::testing::StartsWith("lockstep run: making the log file '/proc/nothing/log'"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(LogFile, IsPrivateAndFollowsNoLink) {
  const test::TemporaryFolder folder;
  create_log_file(folder.file("log"));
  struct stat info{};
  ASSERT_EQ(::stat(folder.file("log").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  std::filesystem::create_symlink(folder.file("log"), folder.file("link"));
  EXPECT_THAT([&] { create_log_file(folder.file("link")); },
              ThrowsMessage<IoError>(HasSubstr("making the log file '")));
}

}  // namespace
}  // namespace lockstep::launch
