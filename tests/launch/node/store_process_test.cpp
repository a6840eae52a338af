#include "lockstep/launch/node/store_process.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "lockstep/base/error.h"
#include "tests/launch/job.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const Endpoint kAnyPort{"127.0.0.1", 0};

class StoreProcessTest : public ::testing::Test {
 protected:
  // A program that notes its arguments and then waits.
  void install_store() {
    context_.store_program =
        folder_.write("store", "#!/bin/sh\necho $1 > " + folder_.file("arguments.new") + "; mv " +
                                   folder_.file("arguments.new") + " " + folder_.file("arguments") +
                                   "; exec sleep 100\n");
    ::chmod(context_.store_program.c_str(), 0700);
  }

  test::TemporaryFolder folder_;
  Signals signals_{{SIGTERM}};
  Context context_ = shell_context(folder_, signals_, "");
  EventLoop loop_;
};

TEST_F(StoreProcessTest, ClientsCanConnectBeforeTheProgramRuns) {
  install_store();
  StoreProcess store(context_, loop_);
  const int port = store.open(kAnyPort);
  EXPECT_TRUE(connect_to({"127.0.0.1", port}, Deadline::in(std::chrono::seconds(5))));
  while (!std::filesystem::exists(folder_.file("arguments"))) {
    ::usleep(1000);
  }
  EXPECT_EQ(folder_.read("arguments"), "--listen-fd\n");
}

TEST_F(StoreProcessTest, StopEndsTheProgramAndFreesThePort) {
  install_store();
  StoreProcess store(context_, loop_);
  const int port = store.open(kAnyPort);
  const pid_t pid = store.pid();
  store.stop();
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(store.pid(), 0);
  // What the stand-in for the store has forked dies a moment later than the program itself.
  const Deadline deadline = Deadline::in(std::chrono::seconds(5));
  bool is_free = false;
  while (!is_free && !deadline.passed()) {
    try {
      listen_on({"127.0.0.1", port});
      is_free = true;
    } catch (const UsageError&) {
      ::usleep(1000);
    }
  }
  EXPECT_TRUE(is_free);
}

TEST_F(StoreProcessTest, SignalsToTheWholeControlGroupPassItBy) {
  install_store();
  StoreProcess store(context_, loop_);
  store.open(kAnyPort);
  ASSERT_TRUE(wait_for_file(folder_.file("arguments")));
  std::ifstream status("/proc/" + std::to_string(store.pid()) + "/status");
  std::string word;
  while (word != "SigIgn:" && status >> word) {
  }
  std::uint64_t ignored = 0;
  status >> std::hex >> ignored;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    EXPECT_TRUE((ignored >> (signal - 1) & 1) == 1) << signal;
  }
}

TEST_F(StoreProcessTest, OpeningAgainIsANewStore) {
  install_store();
  StoreProcess store(context_, loop_);
  const int first = store.open(kAnyPort);
  const pid_t pid = store.pid();
  EXPECT_NE(store.open(kAnyPort), first);
  EXPECT_NE(store.pid(), pid);
}

TEST_F(StoreProcessTest, ATakenPortIsAUsageError) {
  const Listener taken = listen_on(kAnyPort);
  StoreProcess store(context_, loop_);
  EXPECT_THAT([&] { store.open({"127.0.0.1", taken.port}); },
              ThrowsMessage<UsageError>(HasSubstr("the port is taken")));
}

TEST_F(StoreProcessTest, AMissingProgramMattersOnlyToTheFirstClient) {
  StoreProcess store(context_, loop_);
  const int port = store.open(kAnyPort);
  loop_.run_once(Deadline::in(std::chrono::milliseconds(5)));
  const UniqueFd client = connect_to({"127.0.0.1", port}, Deadline::in(std::chrono::seconds(5)));
  EXPECT_THAT([&] { loop_.run_once(Deadline::in(std::chrono::seconds(5))); },
              ThrowsMessage<IoError>(HasSubstr("lockstep-store")));
}

}  // namespace
}  // namespace lockstep::launch
