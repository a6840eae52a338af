#include "lockstep/base/sockets/tcp_liveness.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <sys/socket.h>

#include <chrono>
#include <thread>

#include "lockstep/base/sockets/socket.h"

namespace lockstep {
namespace {

struct Connection {
  Connection()
      : listener(listen_on({"127.0.0.1", 0})),
        here(connect_to({"127.0.0.1", listener.port}, Deadline::in(std::chrono::seconds(30)))),
        there(accept_on(listener).fd) {}

  // From now on the kernel drops what comes to the other end, as if its host had lost power.
  void cut_off() const {
    sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog program{1, &drop_all};
    ASSERT_EQ(::setsockopt(there.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
  }
  [[nodiscard]] bool becomes_silent() const {
    const auto deadline = Deadline::in(std::chrono::seconds(20));
    while (!is_silent(here.get()) && !deadline.passed()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return !deadline.passed();
  }

  Listener listener;
  UniqueFd here;
  UniqueFd there;
};

TEST(IsSilent, AHostThatAcknowledgesNothingIsSilent) {
  const Connection connection;
  connection.cut_off();
  ASSERT_EQ(::send(connection.here.get(), "x", 1, 0), 1);
  EXPECT_FALSE(is_silent(connection.here.get()));
  EXPECT_TRUE(connection.becomes_silent());
}

TEST(IsSilent, AHostThatAnswersNoProbeOfAnIdleConnectionIsSilent) {
  const Connection connection;
  keep_alive(connection.here.get());
  connection.cut_off();
  EXPECT_TRUE(connection.becomes_silent());
}

TEST(IsSilent, APeerThatReadsNothingIsNotSilent) {
  const Connection connection;
  keep_alive(connection.here.get());
  const std::string much(1 << 20, 'x');
  while (::send(connection.here.get(), much.data(), much.size(), MSG_DONTWAIT) > 0) {
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(4);
  while (std::chrono::steady_clock::now() < end) {
    ASSERT_FALSE(is_silent(connection.here.get()));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

TEST(IsSilent, WhatIsNoTcpConnectionIsNotSilent) { EXPECT_FALSE(is_silent(-1)); }

}  // namespace
}  // namespace lockstep
