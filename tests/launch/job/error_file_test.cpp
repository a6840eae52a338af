#include "lockstep/launch/job/error_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "lockstep/base/process/crash_report.h"
#include "tests/launch/job.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launch {
namespace {

TEST(ErrorNote, TorchelasticsFormat) {
  const auto note = parse_error_note(
      R"({"message": {"message": "E: m", "extraInfo": {"py_callstack": "a\nb", "timestamp": "12"}}})");
  EXPECT_EQ(note.message, "E: m");
  EXPECT_EQ(note.traceback, "a\nb");
  EXPECT_EQ(note.timestamp, 12);
}

TEST(ErrorNote, PlainText) {
  const auto note = parse_error_note(R"({"message": "m", "timestamp": 5})");
  EXPECT_EQ(note.message, "m");
  EXPECT_EQ(note.timestamp, 5);
}

TEST(ErrorNote, GarbageIsNothing) {
  for (const char* text :
       {"", "x", "[]", "{}", R"({"message": 1})", R"({"message": {"message": []}})",
        R"({"message": {"extraInfo": 1}})", R"({"message": "a)", "\xff\xfe"}) {
    EXPECT_TRUE(parse_error_note(text).empty()) << text;
  }
  EXPECT_TRUE(parse_error_note(std::string(100000, '[')).empty());
}

TEST(ReadErrorNote, WhatOurOwnProgramsWrite) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(write_error_file(folder.file("error.json"), "what \"happened\"", "frame 1\nframe 2"));
  EXPECT_EQ(read_error_note(folder.file("error.json")).message, "what \"happened\"");
  EXPECT_EQ(read_error_note(folder.file("error.json")).traceback, "frame 1\nframe 2");
}

TEST(ReadErrorNote, AbsentLinkedPipedAndHugeFilesAreNothing) {
  const test::TemporaryFolder folder;
  const std::string good = folder.write("good", R"({"message": "m"})");
  EXPECT_FALSE(read_error_note(good).empty());
  EXPECT_TRUE(read_error_note(folder.file("absent")).empty());
  std::filesystem::create_symlink(good, folder.file("link"));
  EXPECT_TRUE(read_error_note(folder.file("link")).empty());
  ::mkfifo(folder.file("pipe").c_str(), 0600);
  EXPECT_TRUE(read_error_note(folder.file("pipe")).empty());
  const std::string huge =
      folder.write("huge", R"({"message": ")" + std::string(2 << 20, 'x') + "\"}");
  EXPECT_TRUE(read_error_note(huge).empty());
}

TEST(WriteErrorNote, IsReadBack) {
  const test::TemporaryFolder folder;
  ErrorNote note;
  note.message = "what \"happened\"\xff";
  note.traceback = "frame 1";
  note.timestamp = 12;
  ASSERT_TRUE(write_error_note(folder.file("error.json"), note, 7));
  const ErrorNote read = read_error_note(folder.file("error.json"));
  EXPECT_THAT(read.message, ::testing::StartsWith("what \"happened\""));
  EXPECT_EQ(read.traceback, "frame 1");
  EXPECT_EQ(read.timestamp, 12);
  EXPECT_THAT(folder.read("error.json"), ::testing::HasSubstr("\"errorCode\":7"));
  EXPECT_FALSE(write_error_note(folder.file("no/such/folder"), note, 7));
}

TEST(NoteOfAFailure, SaysWhoHowAndWhy) {
  Failure failure;
  failure.rank = 3;
  failure.host = "h";
  failure.pid = 9;
  failure.exit_code = 4;
  failure.stderr_tail = "first\nlast";
  EXPECT_EQ(note_of(failure, false).message,
            "rank 3 (local rank 0) on 'h', pid 9: exit code 4: last");
  EXPECT_GT(note_of(failure, false).timestamp, 0);
  failure.message = "E: m";
  failure.timestamp = 5;
  EXPECT_EQ(note_of(failure, false).message,
            "rank 3 (local rank 0) on 'h', pid 9: exit code 4: E: m");
  EXPECT_EQ(note_of(failure, false).timestamp, 5);
}

}  // namespace
}  // namespace lockstep::launch
