// Every crash here happens in a forked child, after a sanitizer's own signal handlers were taken
// out of it (see tests/support/child.h): with them in place they are foreign handlers, and ours are
// not installed.
#include "lockstep/base/process/crash_report.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// Writes to a page that must not be written: no compiler and no sanitizer sees it coming.
void segfault() {
  void* page = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *static_cast<volatile int*>(page) = 1;
}

void throw_peer_error() { throw PeerError("rank 1 is \"gone\"\nfor good"); }

// Frames of 16 KiB, so that the stack ends after some hundred calls.
int overflow_stack(int depth) {  // NOLINT(misc-no-recursion): recursion is the point.
  volatile char frame[16384];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : overflow_stack(depth + 1) + frame[0];
}

class CrashReport : public ::testing::Test {
 protected:
  // The wait status of a worker that installs the report and then runs `body`.
  int run_worker(const std::function<void()>& body) {
    return test::run_in_child([&] {
      silence_stderr();
      if (!install_crash_report(worker_environment())) {
        return 99;
      }
      body();
      return 0;
    });
  }

  Environment worker_environment() const {
    return Environment({{"TORCHELASTIC_ERROR_FILE", path_}, {"RANK", "3"}});
  }

  nlohmann::json report() const { return nlohmann::json::parse(read_file(path_)).at("message"); }
  std::string message() const { return report().at("message"); }
  bool was_written() const { return std::filesystem::exists(path_); }

  // The handler speaks of the exception; test output stays readable.
  static void silence_stderr() {
    if (::freopen("/dev/null", "w", stderr) == nullptr) {
      ::_exit(98);
    }
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_.file("error.json");
};

TEST_F(CrashReport, AnUncaughtExceptionIsReportedWithTypeAndText) {
  const int status = run_worker([] { throw_peer_error(); });
  EXPECT_EQ(WTERMSIG(status), SIGABRT);
  EXPECT_EQ(message(), "rank 3: lockstep::PeerError: rank 1 is \"gone\"\nfor good");
}

TEST_F(CrashReport, AnExceptionThatIsNoStdExceptionIsReportedByType) {
  run_worker([] { throw 7; });
  EXPECT_EQ(message(), "rank 3: int (no std::exception)");
}

TEST_F(CrashReport, ARemarkStandsBehindTheText) {
  run_worker([] {
    set_crash_remark([](const std::string& text) -> std::string {
      return text.find("rank 1") == std::string::npos ? "" : "; it was late";
    });
    throw_peer_error();
  });
  EXPECT_THAT(message(), ::testing::EndsWith("for good; it was late"));
}

TEST_F(CrashReport, HasTheFieldsTorchelasticReads) {
  run_worker([] { throw_peer_error(); });
  const auto extra = report().at("extraInfo");
  EXPECT_THAT(extra.at("timestamp").get<std::string>(), MatchesRegex("1[0-9]+"));
  EXPECT_THAT(extra.at("py_callstack").get<std::string>(),
              AllOf(HasSubstr("#0 "), HasSubstr("base_test+0x")));
}

TEST_F(CrashReport, ASegmentationFaultIsReportedAndKeepsItsSignal) {
  const int status = run_worker([] { segfault(); });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  EXPECT_THAT(message(), MatchesRegex("rank 3: Signal 11 \\(SIGSEGV\\) received by PID [0-9]+"));
}

TEST_F(CrashReport, AStackOverflowIsReported) {
  const int status = run_worker([] { overflow_stack(0); });
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  EXPECT_THAT(message(), HasSubstr("SIGSEGV"));
}

TEST_F(CrashReport, AbortIsReported) {
  EXPECT_EQ(WTERMSIG(run_worker([] { std::abort(); })), SIGABRT);
  EXPECT_THAT(message(), HasSubstr("SIGABRT"));
}

TEST_F(CrashReport, ManyThreadsThatDieTogetherWriteOneWholeReport) {
  for (int round = 0; round < 10; ++round) {
    const int status = run_worker([] {
      std::atomic<int> waiting{4};
      const auto die = [&] {
        --waiting;
        while (waiting > 0) {
        }
        segfault();
      };
      std::vector<std::thread> threads;
      threads.reserve(4);
      for (int i = 0; i < 4; ++i) {
        threads.emplace_back(die);
      }
      for (auto& thread : threads) {
        thread.join();
      }
    });
    EXPECT_EQ(WTERMSIG(status), SIGSEGV);
    EXPECT_THAT(message(), HasSubstr("SIGSEGV"));
  }
}

TEST_F(CrashReport, CanBeInstalledTwice) {
  const int status = run_worker([&] {
    install_crash_report(worker_environment());
    throw_peer_error();
  });
  EXPECT_EQ(WTERMSIG(status), SIGABRT);
  EXPECT_THAT(message(), HasSubstr("PeerError"));
}

TEST_F(CrashReport, AForeignHandlerStays) {
  const int status = test::run_in_child([&] {
    ::signal(SIGSEGV, [](int) { ::_exit(42); });
    install_crash_report(worker_environment());
    segfault();
    return 0;
  });
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_FALSE(was_written());
}

TEST_F(CrashReport, AForeignTerminateHandlerStays) {
  const int status = test::run_in_child([&]() -> int {
    std::set_terminate([] { ::_exit(43); });
    install_crash_report(worker_environment());
    throw PeerError("x");
  });
  EXPECT_EQ(WEXITSTATUS(status), 43);
  EXPECT_FALSE(was_written());
}

TEST_F(CrashReport, NothingIsInstalledWithoutTheVariable) {
  const int status = test::run_in_child([] {
    const bool active = install_crash_report(Environment({{"RANK", "3"}}));
    struct sigaction now{};
    ::sigaction(SIGSEGV, nullptr, &now);
    return !active && now.sa_handler == SIG_DFL ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(CrashReport, NothingIsInstalledInsidePython) {
  const int status = test::run_in_child([&] {
    if (::dlopen(FAKE_PYTHON, RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      return 2;
    }
    return install_crash_report(worker_environment()) ? 1 : 0;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(CrashReport, AFolderThatIsMissingChangesNothingElse) {
  path_ = folder_.file("no/such/folder/error.json");
  EXPECT_EQ(WTERMSIG(run_worker([] { segfault(); })), SIGSEGV);
}

TEST_F(CrashReport, WriteErrorFileEscapesWhatJsonCannotHold) {
  ASSERT_TRUE(write_error_file(path_, "a\tb\x01 \xff\xc3\xa9\xe2\x82 \\", "line 1\nline 2"));
  EXPECT_EQ(message(), "a b  ?\xc3\xa9?? \\");
  EXPECT_EQ(report().at("extraInfo").at("py_callstack"), "line 1\nline 2");
}

TEST_F(CrashReport, TellLauncherWritesTheErrorFileOfALauncher) {
  tell_launcher(worker_environment(), "the disk is full");
  EXPECT_EQ(message(), "the disk is full");
}

TEST_F(CrashReport, TellLauncherIsSilentWithoutOne) {
  tell_launcher({}, "the disk is full");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(CrashReport, WriteErrorFileIsForTheOwnerAlone) {
  ASSERT_TRUE(write_error_file(path_, "x", ""));
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(CrashReport, WriteErrorFileFollowsNoLink) {
  std::filesystem::create_symlink(folder_.file("target"), path_);
  EXPECT_FALSE(write_error_file(path_, "x", ""));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("target")));
}

TEST_F(CrashReport, WriteErrorFileSaysWhenTheDiskIsFull) {
  EXPECT_FALSE(write_error_file("/dev/full", "x", ""));
}

}  // namespace
}  // namespace lockstep
