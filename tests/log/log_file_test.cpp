#include "lockstep/log/log_file.h"

#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::log {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

// From now on these system calls of this process fail, as those of a broken disk do.
void refuse_calls(std::initializer_list<int> calls, int error) {
  std::vector<sock_filter> filter;
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  for (const int call : calls) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    throw_errno("refusing system calls");
  }
}

class LogFileTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name = "log") const {
    return folder_.file(name);
  }
  [[nodiscard]] std::string content() const { return read_file(path()); }
  LogFile open(OpenLog how) {
    return {path(), how, [this](const std::string& warning) { warnings_.push_back(warning); }};
  }
  std::vector<std::string> warnings_;

 private:
  test::TemporaryFolder folder_;
};

TEST_F(LogFileTest, ARecordIsInTheFileWhenTheCallReturns) {
  auto file = open(OpenLog::kNew);
  file.append("one");
  EXPECT_EQ(content(), "one");
  file.append("two");
  EXPECT_EQ(content(), "onetwo");
  file.flush();
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(LogFileTest, TheUserAloneMayReadIt) {
  open(OpenLog::kNew);
  EXPECT_EQ(std::filesystem::status(path()).permissions(), std::filesystem::perms(0600));
}

TEST_F(LogFileTest, WhatIsCutIsGoneAndTheNextRecordFollowsTheRest) {
  auto file = open(OpenLog::kLines);
  file.append("one\n");
  file.append("two\n");
  EXPECT_EQ(file.content(), "one\ntwo\n");
  file.cut(100);
  EXPECT_EQ(file.content(), "one\ntwo\n");
  file.cut(4);
  EXPECT_EQ(content(), "one\n");
  file.append("three\n");
  EXPECT_EQ(content(), "one\nthree\n");
  file.close();
  EXPECT_THROW(file.cut(0), UsageError);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(LogFileTest, ADiskThatRefusesToCutKeepsMore) {
  const int status = test::run_in_child([&] {
    auto file = open(OpenLog::kLines);
    file.append("one\ntwo\n");
    refuse_calls({SYS_ftruncate}, EIO);
    file.cut(4);
    file.append("three\n");
    const bool well = warnings_.size() == 1 && content() == "one\ntwo\nthree\n" &&
                      warnings_[0] == "writing '" + path() +
                                          "': cannot be cut to what a resumed run has done: "
                                          "Input/output error";
    return well ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(LogFileTest, ANewFileMustNotBeThere) {
  std::ofstream(path()) << "precious";
  EXPECT_THAT([&] { open(OpenLog::kNew); }, ThrowsMessage<IoError>(HasSubstr(path())));
  EXPECT_EQ(content(), "precious");
}

TEST_F(LogFileTest, LinksAreNotFollowed) {
  std::ofstream(path("other")) << "precious\n";
  std::filesystem::create_symlink(path("other"), path());
  EXPECT_THROW(open(OpenLog::kLines), IoError);
}

TEST_F(LogFileTest, GoesOnBehindTheLastWholeLine) {
  std::ofstream(path()) << "one\ntwo\nthr";
  open(OpenLog::kLines).append("three\n");
  EXPECT_EQ(content(), "one\ntwo\nthree\n");
}

TEST_F(LogFileTest, ADiskThatCannotBeReadLosesNothing) {
  std::ofstream(path()) << "one\ntwo\nthr";
  const int status = test::run_in_child([this] {
    refuse_calls({SYS_pread64}, EIO);
    try {
      open(OpenLog::kLines);
    } catch (const IoError& error) {
      return error.what() == "reading the log file '" + path() + "': Input/output error" ? 0 : 2;
    }
    return 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(content(), "one\ntwo\nthr");
}

TEST_F(LogFileTest, ASecondWriterOfLinesIsRefusedWhileTheFirstLives) {
  {
    auto file = open(OpenLog::kLines);
    file.append("one\nhalf");
    EXPECT_THAT([&] { open(OpenLog::kLines); },
                ThrowsMessage<IoError>(HasSubstr("'" + path() + "': another writer has it open")));
    EXPECT_EQ(content(), "one\nhalf") << "what the first writes is not cut";
  }
  open(OpenLog::kLines).append("two\n");
  EXPECT_EQ(content(), "one\ntwo\n");
}

// A limit on the size of files is a full disk: short writes, then errors.
TEST_F(LogFileTest, AFullDiskCostsWholeRecordsAndOneWarning) {
  const int status = test::run_in_child([this] {
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    auto file = open(OpenLog::kNew);
    file.append("12345678");
    limit.rlim_cur = 12;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    file.append("abcdefgh");
    file.append("ijklmnop");
    const bool kept = content() == "12345678";
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    file.append("space again");
    return kept && content() == "12345678space again" && warnings_.size() == 1 &&
                   warnings_[0].find("writing '" + path() + "': File too large; ") == 0
               ? 0
               : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(LogFileTest, ARemovedFileIsOneWarning) {
  auto file = open(OpenLog::kNew);
  std::filesystem::remove(path());
  file.append("one");
  file.append("two");
  file.flush();
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("'" + path() + "': the file was removed")));
}

// As a network's file system that lost it.
TEST_F(LogFileTest, AFileThatCannotBeReachedIsOneWarning) {
  const int status = test::run_in_child([this] {
    auto file = open(OpenLog::kNew);
    refuse_calls({SYS_fstat, SYS_newfstatat}, ESTALE);
    file.append("one");
    file.append("two");
    file.flush();
    return warnings_.size() == 1 &&
                   warnings_[0].find("writing '" + path() + "': Stale file handle; ") == 0
               ? 0
               : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(LogFileTest, AWarningMayUseTheFile) {
  const int status = test::run_in_child([this] {
    ::alarm(20);  // A lock that is held ends the child, not the test.
    LogFile* used = nullptr;
    int warnings = 0;
    LogFile file(path(), OpenLog::kNew, [&](const std::string& warning) {
      ++warnings;
      used->append(warning);
      used->flush();
    });
    used = &file;
    std::filesystem::remove(path());
    file.append("one");
    return warnings == 1 ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(LogFileTest, WhatAWarningThrowsDoesNotEndTheRun) {
  LogFile file(path(), OpenLog::kNew,
               [](const std::string& warning) { throw std::runtime_error(warning); });
  std::filesystem::remove(path());
  EXPECT_NO_THROW(file.append("one"));
}

TEST_F(LogFileTest, NothingIsAppendedAfterClose) {
  auto file = open(OpenLog::kNew);
  file.append("one");
  file.close();
  file.close();
  file.flush();
  EXPECT_THAT([&] { file.append("two"); },
              ThrowsMessage<UsageError>(HasSubstr("'" + path() + "' is closed; make a new one")));
  EXPECT_EQ(content(), "one");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(LogFileTest, ThreadsMayShareIt) {
  auto file = open(OpenLog::kNew);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&file] {
      for (int record = 0; record < 100; ++record) {
        file.append("0123456\n");
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  std::string expected;
  for (int i = 0; i < 400; ++i) {
    expected += "0123456\n";
  }
  EXPECT_EQ(content(), expected);
}

}  // namespace
}  // namespace lockstep::log
