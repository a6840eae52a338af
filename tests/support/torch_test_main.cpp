// main() of the test programs that load LibTorch: to do so and to end takes 0.3 s of a core.
//
//   x_test [GoogleTest's flags]    all cases in this process
//   x_test --shard INDEX OF        every OF-th case from INDEX on, each in a fork of this process
//
// A fork has LibTorch loaded already. A case still has a process of its own, so it starts with
// nothing that another left, and its crash or its hang is that of no other. What it printed is
// shown if it failed. The last case of a suite leaves through exit(); the others do not wait for
// the end of LibTorch's globals, which takes 0.13 s. Python is beside them in the same way, from
// the first case on that asks it.
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/fd.h"
#include "tests/support/oracle_process.h"

namespace lockstep::test {
namespace {

constexpr std::chrono::seconds kLimitOfACase{120};
constexpr int kSkipped = 77;  // The exit code of a case that skipped itself.

struct Shard {
  int index = 0;
  int of = 1;
};

int number_of(const char* word) {
  int number = -1;
  const char* end = word + std::strlen(word);
  const auto [stop, error] = std::from_chars(word, end, number);
  return error == std::errc() && stop == end ? number : -1;
}

// Takes its words out of the command line: a death test starts the program again with the rest.
std::optional<Shard> take_shard(int& argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "--shard") != 0) {
    return std::nullopt;
  }
  const Shard shard{argc == 4 ? number_of(argv[2]) : -1, argc == 4 ? number_of(argv[3]) : -1};
  if (shard.index < 0 || shard.of <= shard.index) {
    std::fprintf(stderr, "usage: %s --shard INDEX OF, with 0 <= INDEX < OF\n", argv[0]);
    std::exit(2);
  }
  argv[1] = nullptr;
  argc = 1;
  return shard;
}

struct Case {
  std::string name;
  bool is_last = false;  // In its suite.
};

// The number of a case decides its shard, so that the cases of a slow suite are spread.
std::vector<Case> cases_of(const Shard& shard) {
  std::vector<Case> cases;
  const auto& program = *::testing::UnitTest::GetInstance();
  int number = 0;
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const auto& suite = *program.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      if (number++ % shard.of == shard.index) {
        cases.push_back({std::string(suite.name()) + "." + suite.GetTestInfo(j)->name(),
                         j + 1 == suite.total_test_count()});
      }
    }
  }
  return cases;
}

int run_case(const std::string& name) {
  GTEST_FLAG_SET(filter, name);
  const int code = RUN_ALL_TESTS();
  const auto& program = *::testing::UnitTest::GetInstance();
  // A name that GoogleTest takes for a pattern might choose nothing, which passes.
  if (program.test_to_run_count() + program.reportable_disabled_test_count() != 1) {
    std::printf("%s: %d cases ran, expected 1\n", name.c_str(), program.test_to_run_count());
    return 1;
  }
  return code == 0 && program.skipped_test_count() > 0 ? kSkipped : code;
}

// Ends with this process, as a case that ctest itself had started would.
[[noreturn]] void be_case(const Case& the_case, UniqueFd output, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent || ::dup2(output.get(), STDOUT_FILENO) < 0 ||
      ::dup2(output.get(), STDERR_FILENO) < 0) {
    ::_exit(1);
  }
  output.reset();  // Tests count descriptors.
  const int code = run_case(the_case.name);
  if (the_case.is_last) {
    std::exit(code);
  }
  std::fflush(nullptr);
  ::_exit(code);
}

// True if the process ended in time. Meanwhile it may ask for the oracle.
bool ends(const UniqueFd& process, OracleProcess& oracle) {
  const auto limit = std::chrono::steady_clock::now() + kLimitOfACase;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(limit - std::chrono::steady_clock::now());
    std::array<pollfd, 2> events{{{.fd = process.get(), .events = POLLIN, .revents = 0},
                                  {.fd = oracle.first_question(), .events = POLLIN, .revents = 0}}};
    if (left.count() <= 0 ||
        ::poll(events.data(), events.size(), static_cast<int>(left.count())) <= 0) {
      return false;
    }
    if (events[0].revents != 0) {
      return true;
    }
    oracle.start();
  }
}

// The wait status; nothing if the case had to be killed.
std::optional<int> wait_for_case(pid_t pid, OracleProcess& oracle) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const bool ended = process && ends(process, oracle);
  if (!ended) {
    ::kill(pid, SIGKILL);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return ended ? std::optional(status) : std::nullopt;
}

// Empty if it passed or skipped itself.
std::string why_failed(std::optional<int> status) {
  if (!status) {
    return "killed, as it had not ended after " + std::to_string(kLimitOfACase.count()) + " s";
  }
  if (WIFSIGNALED(*status)) {
    return std::string("ended by the signal ") + ::strsignal(WTERMSIG(*status));
  }
  const int code = WEXITSTATUS(*status);
  return code == 0 || code == kSkipped ? "" : "exit code " + std::to_string(code);
}

void print(const UniqueFd& output) {
  std::array<char, 65536> piece{};
  for (off_t at = 0;;) {
    const ssize_t size = ::pread(output.get(), piece.data(), piece.size(), at);
    if (size <= 0) {
      break;
    }
    std::fwrite(piece.data(), 1, static_cast<std::size_t>(size), stdout);
    at += size;
  }
}

// Empty if the case passed or skipped itself.
std::string failure_of(const Case& the_case, OracleProcess& oracle) {
  UniqueFd output(::memfd_create("output", MFD_CLOEXEC));
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (!output || pid < 0) {
    throw_errno("starting a test case");
  }
  if (pid == 0) {
    oracle.close_in_fork();
    be_case(the_case, std::move(output), parent);
  }
  const auto status = wait_for_case(pid, oracle);
  std::string reason = why_failed(status);
  if (!reason.empty()) {
    std::printf("\n%s: %s; it printed:\n", the_case.name.c_str(), reason.c_str());
    print(output);
  } else if (WEXITSTATUS(*status) == kSkipped) {
    std::printf("%s: skipped\n", the_case.name.c_str());
  }
  return reason;
}

int run_shard(const Shard& shard) {
  const auto cases = cases_of(shard);
  OracleProcess oracle;
  std::string failures;
  for (const auto& the_case : cases) {
    const std::string reason = failure_of(the_case, oracle);
    if (!reason.empty()) {
      failures += "[  FAILED  ] " + the_case.name + ": " + reason + "\n";
    }
  }
  std::printf("\n%zu cases ran, each in a process of its own.\n%s", cases.size(), failures.c_str());
  return failures.empty() ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::test

int main(int argc, char** argv) {
  const auto shard = lockstep::test::take_shard(argc, argv);
  ::testing::InitGoogleMock(&argc, argv);
  return shard ? lockstep::test::run_shard(*shard) : RUN_ALL_TESTS();
}
