#include "lockstep/comm/spawn.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "lockstep/base/process/tree.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Spawn, TheFirstExceptionEndsAllAndReachesTheCaller) {
  const auto start = std::chrono::steady_clock::now();
  try {
    spawn(3, [](int rank) {
      if (rank == 1) {
        throw std::runtime_error("no luck");
      }
      std::this_thread::sleep_for(std::chrono::minutes(5));
    });
    ADD_FAILURE() << "spawn returned";
  } catch (const SpawnError& error) {
    EXPECT_EQ(error.rank(), 1);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1"), HasSubstr("std::runtime_error: no luck")));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_TRUE(descendants_of(::getpid()).empty());
}

TEST(Spawn, ADeathBySignalIsNamed) {
  EXPECT_THAT(
      [] { spawn(2, [](int rank) { rank == 0 ? (void)::raise(SIGKILL) : (void)::pause(); }); },
      ThrowsMessage<SpawnError>(AllOf(HasSubstr("rank 0"), HasSubstr("SIGKILL"))));
}

TEST(Spawn, ARankThatIgnoresSigtermIsKilled) {
  EXPECT_THROW(spawn(2,
                     [](int rank) {
                       if (rank == 1) {
                         std::signal(SIGTERM, SIG_IGN);
                         std::this_thread::sleep_for(std::chrono::minutes(5));
                       }
                       std::this_thread::sleep_for(std::chrono::milliseconds(300));
                       throw std::runtime_error("first");
                     }),
               SpawnError);
  EXPECT_TRUE(descendants_of(::getpid()).empty());
}

TEST(Spawn, RefusesAProcessThatAlreadyHasThreads) {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_THAT([] { spawn(1, [](int) {}); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("2 threads"), HasSubstr("first"))));
  stop = true;
  other.join();
}

TEST(Spawn, WorksWhereTheCallerIgnoresSigchld) {
  std::signal(SIGCHLD, SIG_IGN);
  EXPECT_NO_THROW(spawn(2, [](int) {}));
  EXPECT_THROW(spawn(2, [](int) { throw std::runtime_error("x"); }), SpawnError);
  EXPECT_EQ(std::signal(SIGCHLD, SIG_DFL), SIG_IGN);
}

TEST(Spawn, DoesNotWaitForWhatARankForked) {
  const auto start = std::chrono::steady_clock::now();
  spawn(1, [](int) {
    if (::fork() == 0) {
      ::close(STDOUT_FILENO);  // But not the test runner's.
      ::close(STDERR_FILENO);
      ::sleep(20);  // Holds all other descriptors of the rank.
      std::_Exit(0);
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(Spawn, RefusesFewerThanOneRank) {
  EXPECT_THROW(spawn(0, [](int) {}), UsageError);
}

TEST(Spawn, RanksDieWithTheProgram) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t program = ::fork();
  if (program == 0) {
    ::close(ends[0]);
    spawn(2, [&](int) {
      (void)!::write(ends[1], "x", 1);
      ::pause();
    });
  }
  ::close(ends[1]);
  char ready[2];
  ASSERT_EQ(::read(ends[0], ready, 1), 1);
  ASSERT_EQ(::read(ends[0], ready, 1), 1);
  ::kill(program, SIGKILL);
  EXPECT_EQ(::read(ends[0], ready, 1), 0);  // End of file: nobody holds the pipe any more.
}

}  // namespace
}  // namespace lockstep
