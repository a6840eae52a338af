#include "lockstep/data/readers/bad_files.h"

#include <gmock/gmock.h>

#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

TEST(BadFiles, OneSummaryHasNumbersPathsAndReasons) {
  BadFiles bad;
  EXPECT_EQ(bad.summary(), "");
  bad.add(3, "a/1.jpg", "image 'a/1.jpg': JPEG: the data end in row 17 of 375");
  bad.add(9, "a/2.jpg", "image 'a/2.jpg': JPEG: the data end in row 120 of 300");
  bad.add(4, "b/3.png", "the file has 0 bytes, expected an image");
  EXPECT_EQ(bad.count(), 3);
  EXPECT_EQ(bad.summary(),
            "3 files cannot be read; other samples take their places\n"
            "2: image '...': JPEG: the data end in row N of N\n"
            "  image 'a/1.jpg': JPEG: the data end in row 17 of 375\n"
            "  image 'a/2.jpg': JPEG: the data end in row 120 of 300\n"
            "1: the file has N bytes, expected an image\n"
            "  'b/3.png': the file has 0 bytes, expected an image");
}

TEST(BadFiles, ListsTheFilesThatTheSummaryNames) {
  BadFiles bad;
  EXPECT_THAT(bad.listed(), IsEmpty());
  bad.add(4, "b/3.png", "the file has 0 bytes, expected an image");
  for (int i = 0; i < 9; ++i) {
    const std::string path = "a/" + std::to_string(i) + ".jpg";
    bad.add(10 + i, path, "image '" + path + "': no JPEG");
  }
  EXPECT_THAT(bad.listed(), ElementsAre("image 'a/0.jpg': no JPEG", "image 'a/1.jpg': no JPEG",
                                        "image 'a/2.jpg': no JPEG", "image 'a/3.jpg': no JPEG",
                                        "image 'a/4.jpg': no JPEG",
                                        "'b/3.png': the file has 0 bytes, expected an image"));
}

TEST(BadFiles, AFileThatIsMetInEveryEpochCountsOnce) {
  BadFiles bad(1);
  for (int epoch = 0; epoch < 5; ++epoch) {
    bad.add(7, "x", "reason");
  }
  EXPECT_EQ(bad.count(), 1);
}

TEST(BadFiles, MoreThanTheLimitAreAnError) {
  BadFiles bad(2);
  bad.add(1, "x", "reason");
  bad.add(2, "y", "reason");
  EXPECT_THAT([&] { bad.add(3, "z", "reason"); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("3 files cannot be read"), HasSubstr("'z'"),
                                           HasSubstr("expected at most 2 (max_bad)"),
                                           HasSubstr("raise max_bad (--max-bad)"))));
  EXPECT_THROW(bad.add(1, "x", "reason"), IoError);  // One that is known, in the next epoch.
}

TEST(BadFiles, WithoutAllowanceTheErrorIsTheFilesOwnEachTime) {
  BadFiles none(0);
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_THAT([&] { none.add(0, "x", "image 'x': reason"); },
                ThrowsMessage<IoError>(AllOf(StartsWith("image 'x': reason; "),
                                             HasSubstr("set max_bad (--max-bad)"))));
  }
}

// As ranks do that have met some files in common.
TEST(BadFiles, ThoseOfSeveralProcessesCountOnce) {
  BadFiles first;
  first.add(3, "a/1.jpg", "'a/1.jpg': cut in row 17");
  first.add(70, "a/2.jpg", "'a/2.jpg': cut in row 1");
  BadFiles second;
  second.add(70, "a/2.jpg", "'a/2.jpg': cut in row 1");
  second.add(900, "b/3.png", "it is empty");
  BadFiles all(0);  // Which has met none itself, so that its limit does not count.
  for (const BadFiles* one : {&first, &second, &first}) {
    all.merge(one->packed());
  }
  EXPECT_EQ(all.count(), 3);
  EXPECT_EQ(all.summary(),
            "3 files cannot be read; other samples take their places\n"
            "2: '...': cut in row N\n"
            "  'a/1.jpg': cut in row 17\n"
            "  'a/2.jpg': cut in row 1\n"
            "1: it is empty\n"
            "  'b/3.png': it is empty");
  EXPECT_EQ(all.first_not_bad(70, 1000), 71);
  all.merge(BadFiles().packed());
  EXPECT_EQ(all.count(), 3);
  EXPECT_THROW(all.merge(std::string_view("kind\0x\0\0", 8)), IoError);
}

// As when the rank that reads a file over a network sees less of it than another one.
TEST(BadFiles, TheLimitOfSeveralProcessesTogetherIsLookedAtWhenAsked) {
  BadFiles first(1);
  first.add(3, "a/1.jpg", "it is empty");
  BadFiles second(1);
  second.add(70, "a/2.jpg", "it is empty");
  for (const std::int64_t limit : {-1, 0, 1, 2}) {
    BadFiles all(limit);
    all.require_few();
    all.merge(first.packed());
    all.merge(second.packed());
    all.merge(second.packed());
    if (limit == -1 || limit == 2) {
      EXPECT_NO_THROW(all.require_few());
    } else {
      EXPECT_THAT([&] { all.require_few(); },
                  ThrowsMessage<IoError>(AllOf(
                      HasSubstr("2 files cannot be read"), HasSubstr("'a/2.jpg'"),
                      HasSubstr("expected at most " + std::to_string(limit) + " (max_bad)"))));
    }
  }
}

TEST(BadFiles, AFileHasTheReasonOfWhoeverIsMergedFirst) {
  BadFiles first;
  first.add(3, "a", "it is cut");
  BadFiles second;
  second.add(3, "a", "it is empty");
  BadFiles all;
  all.merge(first.packed());
  all.merge(second.packed());
  EXPECT_EQ(all.summary(),
            "1 file cannot be read; other samples take their places\n"
            "1: it is cut\n"
            "  'a': it is cut");
}

// Paths and reasons of 100,000 files would be some 20 MB.
TEST(BadFiles, MemoryStaysFlatOver100000Files) {
  BadFiles bad;
  const auto add = [&](int i) {
    bad.add(i, "folder/of/class/" + std::to_string(i) + ".jpg",
            std::string("reason ") + static_cast<char>('A' + i % 26) +
                static_cast<char>('A' + i / 26 % 26) + ", " + std::string(50, 'x'));
  };
  for (int i = 0; i < 20'000; ++i) {
    add(i);
  }
  const std::size_t text = bad.summary().size();
  for (int i = 20'000; i < 100'000; ++i) {
    add(i);
  }
  EXPECT_EQ(bad.count(), 100'000);
  EXPECT_LT(bad.summary().size(), text + 100);  // Longer counts and no more.
  EXPECT_THAT(bad.summary(), HasSubstr("other reasons"));
}

TEST(BadFiles, ThreadsShareIt) {
  BadFiles bad;
  {
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < 4; ++worker) {
      threads.emplace_back([&bad, worker] {
        for (int i = 0; i < 500; ++i) {
          bad.add(i * 2 + worker % 2, "path", "reason");
        }
      });
    }
  }
  EXPECT_EQ(bad.count(), 1000);
}

TEST(BadFiles, TheFirstThatIsNotBadIsFoundAroundTheEnd) {
  BadFiles bad;
  EXPECT_EQ(bad.first_not_bad(199, 200), 199);
  for (std::int64_t i = 60; i < 200; ++i) {
    bad.add(i, "x", "reason");
  }
  for (std::int64_t i = 0; i < 3; ++i) {
    bad.add(i, "x", "reason");
  }
  EXPECT_EQ(bad.first_not_bad(59, 200), 59);
  EXPECT_EQ(bad.first_not_bad(60, 200), 3);
  EXPECT_EQ(bad.first_not_bad(199, 200), 3);
  EXPECT_EQ(bad.first_not_bad(60, 1000), 200);
  for (std::int64_t i = 3; i < 60; ++i) {
    bad.add(i, "x", "reason");
  }
  EXPECT_EQ(bad.first_not_bad(77, 200), std::nullopt);
  EXPECT_EQ(bad.first_not_bad(0, 200), std::nullopt);
}

std::string path_of(std::int64_t index) { return std::to_string(index); }

TEST(ReadOrReplace, TakesTheNextFileThatCanBeRead) {
  const std::set<std::int64_t> broken = {2, 3, 9};
  const auto read = [&](std::int64_t i) {
    if (broken.contains(i)) {
      throw IoError("broken");
    }
    return i;
  };
  BadFiles bad;
  EXPECT_EQ(read_or_replace(1, 10, bad, read, read, path_of), 1);
  EXPECT_EQ(bad.count(), 0);
  EXPECT_EQ(read_or_replace(2, 10, bad, read, read, path_of), 4);
  EXPECT_EQ(read_or_replace(9, 10, bad, read, read, path_of), 0);
  EXPECT_EQ(bad.count(), 3);
  EXPECT_THAT(bad.summary(), AllOf(HasSubstr("'9': broken"), Not(HasSubstr("'4'"))));
}

// Else an epoch over n bad files in a row would read n * n / 2 of them.
TEST(ReadOrReplace, KnownBadFilesAreNotReadAgainInPlaceOfOthers) {
  constexpr std::int64_t kBad = 2000;
  std::int64_t reads = 0;
  const auto read = [&](std::int64_t i) {
    ++reads;
    if (i < kBad) {
      throw IoError("broken");
    }
    return i;
  };
  BadFiles bad;
  for (std::int64_t i = 0; i < kBad; ++i) {
    EXPECT_EQ(read_or_replace(i, kBad + 1, bad, read, read, path_of), kBad);
  }
  EXPECT_EQ(reads, kBad + kBad + kBad - 1);  // Itself, the good one; each of the others once.
}

// Once the trouble is over, the file is read.
TEST(ReadOrReplace, WhatIsNoFaultOfAFileIsPassedOn) {
  BadFiles bad;
  const auto good = [](std::int64_t i) { return i; };
  const auto trouble = [](std::int64_t) -> std::int64_t { throw NotTheFile("too many files"); };
  const auto broken = [](std::int64_t) -> std::int64_t { throw IoError("broken"); };
  EXPECT_THROW(read_or_replace(1, 3, bad, trouble, good, path_of), NotTheFile);
  EXPECT_EQ(bad.count(), 0);
  EXPECT_THROW(read_or_replace(1, 3, bad, broken, trouble, path_of), NotTheFile);
  EXPECT_EQ(bad.count(), 1);
  EXPECT_EQ(read_or_replace(1, 3, bad, broken, good, path_of), 2);
}

TEST(ReadOrReplace, OnlyWhatMayTakesAnotherOnesPlace) {
  const std::set<std::int64_t> broken = {2, 4, 9};
  const auto read = [&](std::int64_t i) {
    if (broken.contains(i)) {
      throw IoError("broken");
    }
    return i;
  };
  const auto is_even = [](std::int64_t i) { return i % 2 == 0; };
  BadFiles bad;
  EXPECT_EQ(read_or_replace(2, 10, bad, read, read, path_of, is_even), 6);
  EXPECT_EQ(read_or_replace(9, 10, bad, read, read, path_of, is_even), 0);
  EXPECT_EQ(bad.count(), 3);
  const auto is_bad = [&](std::int64_t i) { return broken.contains(i); };
  const auto is_none = [](std::int64_t) { return false; };
  using MayReplace = std::function<bool(std::int64_t)>;
  for (const auto& may : {MayReplace(is_bad), MayReplace(is_none)}) {
    EXPECT_THAT([&] { read_or_replace(4, 10, bad, read, read, path_of, may); },
                ThrowsMessage<IoError>(HasSubstr("none of its part's files can be read")));
  }
}

TEST(BadFiles, ShowsNothingThatATerminalObeys) {
  BadFiles bad(1);
  bad.add(0, "a\n\x1b[2J.png", "image 'a\n\x1b[2J.png': broken");
  EXPECT_THAT(bad.summary(), HasSubstr("\n  image 'a??[2J.png': broken"));
  BadFiles none(0);
  EXPECT_THAT([&] { none.add(0, "\x1b", "image '\x1b\xff' is broken"); },
              ThrowsMessage<IoError>(HasSubstr("image '?\xef\xbf\xbd' is broken")));
}

TEST(BadFiles, TooManyDoNotPromiseReplacements) {
  BadFiles bad(1);
  bad.add(0, "a", "broken");
  EXPECT_THAT(bad.summary(), HasSubstr("other samples take their places"));
  EXPECT_EQ(bad.summary(" in 'val'"), "1 file cannot be read in 'val'\n1: broken\n  'a': broken");
  EXPECT_THAT([&] { bad.add(1, "b", "broken"); },
              ThrowsMessage<IoError>(::testing::Not(HasSubstr("take their places"))));
}

TEST(ReadOrReplace, NoFileAtAllIsAnError) {
  BadFiles bad;
  const auto read = [](std::int64_t) -> int { throw IoError("broken"); };
  EXPECT_THAT([&] { read_or_replace(1, 3, bad, read, read, path_of); },
              ThrowsMessage<IoError>(HasSubstr("none of 3 files can be read")));
}

}  // namespace
}  // namespace lockstep::data
