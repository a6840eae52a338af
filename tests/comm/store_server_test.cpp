#include "lockstep/comm/store_server.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <string>

#include "lockstep/base/sockets/socket.h"

namespace lockstep::comm {
namespace {

TEST(StoreMain, ServesOnTheSocketItWasGivenUntilItIsEnded) {
  Listener listener = listen_on({"127.0.0.1", 0});
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::string words[] = {"store", kServeStore, std::to_string(listener.fd.get())};
    char* argv[] = {words[0].data(), words[1].data(), words[2].data()};
    ::_exit(store_main(3, argv));
  }
  {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(listener.port);
    c10d::TCPStore client("127.0.0.1", options);
    EXPECT_EQ(client.add("key", 7), 7);
  }
  ::kill(pid, SIGTERM);
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

TEST(StoreMain, RefusesOtherArguments) {
  std::string name = "store";
  char* argv[] = {name.data()};
  EXPECT_EQ(store_main(1, argv), 2);
}

}  // namespace
}  // namespace lockstep::comm
