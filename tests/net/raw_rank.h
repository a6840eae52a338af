// A mailbox of rank 0, and ranks whose every byte the test writes and reads.
#pragma once

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "lockstep/net/mailbox.h"
#include "tests/net/mailboxes.h"

namespace lockstep::net {

using Kind = Frame::Kind;

class RawRank {
 public:
  // Connects with the mailbox, which knows it by this rank.
  RawRank(const net::Mailbox& box, int rank) {
    const auto box_address = net::RankAddress::from_text(box.own_address());
    socket_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int small = 64 << 10;  // Soon full: what the mailbox sends stays with it.
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(box_address.endpoint.port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    write({.kind = Kind::kHello, .tag = box_address.token, .id = static_cast<std::uint64_t>(rank)});
    EXPECT_EQ(read().kind, Kind::kWelcome);
  }

  void write(const Frame& frame) { write(&frame, sizeof frame); }
  void write(const void* data, std::size_t bytes) {
    EXPECT_EQ(::send(socket_.get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  }
  // The next frame; kHello if none comes for long.
  Frame read() {
    Frame frame;
    read(&frame, sizeof frame);
    return frame;
  }
  Ints read_ints(std::size_t bytes) {
    Ints values(bytes / sizeof(std::int32_t));
    read(values.data(), bytes);
    return values;
  }
  void close() { socket_.reset(); }

 private:
  void read(void* data, std::size_t bytes) {
    for (std::size_t got = 0; got < bytes;) {
      pollfd ready{socket_.get(), POLLIN, 0};
      ASSERT_EQ(::poll(&ready, 1, 30000), 1);
      const auto count = ::recv(socket_.get(), static_cast<char*>(data) + got, bytes - got, 0);
      ASSERT_GT(count, 0);
      got += static_cast<std::size_t>(count);
    }
  }
  UniqueFd socket_;
};

// They connect with rank 0 when they are made, before it wants to connect with them.
struct RawRanks {
  explicit RawRanks(int size) {
    std::vector<std::string> addresses{box.own_address()};
    for (int rank = 1; rank < size; ++rank) {
      addresses.push_back(net::RankAddress{.endpoint = {"127.0.0.1", 1}, .token = 100}.to_text());
    }
    box.open(addresses);
  }
  Mailbox box{0, "127.0.0.1"};
};

}  // namespace lockstep::net
