#include "lockstep/base/sockets/unix_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "lockstep/base/error.h"
#include "tests/support/ordinary_user.h"
#include "tests/support/soon.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::soon;
using ::testing::ThrowsMessage;

struct Ends {
  UniqueFd near;
  UniqueFd far;
};
Ends make_ends() {
  const UnixListener listener = listen_unix(4);
  UniqueFd near = connect_unix(listener.name, soon());
  return {std::move(near), UniqueFd(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC))};
}

ino_t inode_of(int fd) {
  struct stat info{};
  ::fstat(fd, &info);
  return info.st_ino;
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

// Sends any number of descriptors with a message, as send_with_fd() never does.
void send_with_fds(int socket, std::string message, const std::vector<int>& fds) {
  iovec part{.iov_base = message.data(), .iov_len = message.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  ASSERT_EQ(::sendmsg(socket, &header, 0), static_cast<ssize_t>(message.size()));
}

TEST(ListenUnix, NamesDifferAndAreNotInTheFileSystem) {
  const auto first = listen_unix(1);
  const auto second = listen_unix(1);
  EXPECT_FALSE(first.name.empty());
  EXPECT_NE(first.name, second.name);
  EXPECT_FALSE(std::filesystem::exists(first.name));
}

TEST(ListenUnix, ANameBelongsToOneAtATime) {
  const std::string name = "lockstep/test/" + std::to_string(::getpid());
  {
    const auto first = listen_unix(1, name);
    EXPECT_EQ(first.name, name);
    EXPECT_FALSE(listen_unix(1, name).fd);
    EXPECT_TRUE(connect_unix(name, soon()));
  }
  EXPECT_TRUE(listen_unix(1, name).fd);
}

TEST(ListenUnix, AnsweringNobodyDoesNotBlock) {
  const auto listener = listen_unix(1);
  EXPECT_EQ(::accept(listener.fd.get(), nullptr, nullptr), -1);
}

TEST(ConnectUnix, ANameWithoutAListenerIsAPeerErrorAtOnce) {
  std::string name;
  {
    name = listen_unix(1).name;
  }
  const auto deadline = soon();
  EXPECT_THROW(connect_unix(name, deadline), PeerError);
  EXPECT_FALSE(deadline.passed());
}

TEST(ConnectUnix, NamesThatCannotBeAreAPeerError) {
  EXPECT_THROW(connect_unix("", soon()), PeerError);
  EXPECT_THROW(connect_unix(std::string(200, 'x'), soon()), PeerError);
}

TEST(ConnectUnix, WaitsForAPlaceInAFullQueueUntilTheDeadline) {
  const auto listener = listen_unix(0);
  std::vector<UniqueFd> connected;
  const auto connect_many = [&] {
    for (int i = 0; i < 10; ++i) {
      connected.push_back(connect_unix(listener.name, Deadline::in(std::chrono::milliseconds(50))));
    }
  };
  EXPECT_THROW(connect_many(), PeerError);
  EXPECT_FALSE(connected.empty());
}

TEST(ConnectedPair, EndsHearEachOtherUntilOneIsClosed) {
  auto [one, other] = connected_pair("connecting two ends");
  char byte = 'a';
  ASSERT_EQ(::write(one.get(), &byte, 1), 1);
  ASSERT_EQ(::read(other.get(), &byte, 1), 1);
  ASSERT_EQ(::write(other.get(), &byte, 1), 1);
  ASSERT_EQ(::read(one.get(), &byte, 1), 1);
  EXPECT_NE(::fcntl(one.get(), F_GETFD) & FD_CLOEXEC, 0);
  one.reset();
  EXPECT_EQ(::read(other.get(), &byte, 1), 0);
}

TEST(Credentials, AreThoseOfTheProcessAtTheOtherEnd) {
  const auto listener = listen_unix(1);
  const pid_t child = ::fork();
  if (child == 0) {
    const UniqueFd socket = connect_unix(listener.name, soon());
    ::_exit(credentials_of(socket.get()).pid == ::getppid() ? 0 : 1);
  }
  pollfd entry{.fd = listener.fd.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&entry, 1, 30000), 1);
  const UniqueFd socket(::accept(listener.fd.get(), nullptr, nullptr));
  const auto peer = credentials_of(socket.get());
  EXPECT_EQ(peer.pid, child);
  EXPECT_EQ(peer.uid, ::geteuid());
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(ReceiveWithFd, GetsMessageAndDescriptor) {
  const auto ends = make_ends();
  const Pipe pipe = make_pipe();
  ASSERT_EQ(send_with_fd(ends.near.get(), "hello", pipe.write_end.get()), Sent::kSent);
  const auto parcel = receive_with_fd(ends.far.get(), 64);
  ASSERT_TRUE(parcel);
  EXPECT_EQ(parcel->message, "hello");
  EXPECT_NE(parcel->fd.get(), pipe.write_end.get());
  EXPECT_EQ(inode_of(parcel->fd.get()), inode_of(pipe.write_end.get()));
  EXPECT_NE(::fcntl(parcel->fd.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(ReceiveWithFd, MessagesStayApart) {
  const auto ends = make_ends();
  ASSERT_EQ(send_with_fd(ends.near.get(), "one", 0), Sent::kSent);
  ASSERT_EQ(send_with_fd(ends.near.get(), "two", 0), Sent::kSent);
  EXPECT_EQ(receive_with_fd(ends.far.get(), 64)->message, "one");
  EXPECT_EQ(receive_with_fd(ends.far.get(), 64)->message, "two");
}

TEST(ReceiveWithFd, NothingFromAPeerThatClosed) {
  auto ends = make_ends();
  ends.near.reset();
  EXPECT_FALSE(receive_with_fd(ends.far.get(), 64));
}

TEST(ReceiveWithFd, NothingWithoutADescriptor) {
  const auto ends = make_ends();
  send_with_fds(ends.near.get(), "hello", {});
  EXPECT_FALSE(receive_with_fd(ends.far.get(), 64));
}

TEST(ReceiveWithFd, NothingFromAMessageThatIsTooLong) {
  const auto ends = make_ends();
  ASSERT_EQ(send_with_fd(ends.near.get(), std::string(65, 'x'), 0), Sent::kSent);
  EXPECT_FALSE(receive_with_fd(ends.far.get(), 64));
}

TEST(ReceiveWithFd, KeepsNoDescriptorOfAMessageThatItRefuses) {
  const auto ends = make_ends();
  const auto before = open_descriptors();
  for (std::size_t fds = 2; fds <= 16; ++fds) {
    send_with_fds(ends.near.get(), "hello", std::vector<int>(fds, 0));
    EXPECT_FALSE(receive_with_fd(ends.far.get(), 64)) << fds;
  }
  ASSERT_EQ(send_with_fd(ends.near.get(), std::string(65, 'x'), 0), Sent::kSent);
  EXPECT_FALSE(receive_with_fd(ends.far.get(), 64));
  EXPECT_EQ(open_descriptors(), before);
}

TEST(ReceiveWithFd, NoDescriptorLeftIsAnIoErrorThatSaysSo) {
  const auto ends = make_ends();
  ASSERT_EQ(send_with_fd(ends.near.get(), "hello", 0), Sent::kSent);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  std::exception_ptr thrown;  // Looked at later: UBSan's look at an object needs descriptors.
  try {
    receive_with_fd(ends.far.get(), 64);
  } catch (...) {
    thrown = std::current_exception();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(thrown);
  EXPECT_THAT([&] { std::rethrow_exception(thrown); },
              ThrowsMessage<IoError>(HasSubstr("ulimit -n")));
}

TEST(SendWithFd, SaysThatThePeerIsGoneAndRaisesNoSignal) {
  auto ends = make_ends();
  ends.far.reset();
  EXPECT_EQ(send_with_fd(ends.near.get(), "hello", 0), Sent::kPeerGone);
}

// The kernel limits ordinary users alone, so the test becomes one.
TEST(SendWithFd, SaysThatTooManyAreInFlightUntilSomeWereReceived) {
  const auto ends = make_ends();
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit few{.rlim_cur = 20, .rlim_max = 20};
    ::setrlimit(RLIMIT_NOFILE, &few);
    if (!testing::become_ordinary_user()) {
      ::_exit(2);
    }
    int sent = 0;
    while (sent < 1000 && send_with_fd(ends.near.get(), "hello", 0) == Sent::kSent) {
      ++sent;
    }
    const bool full = send_with_fd(ends.near.get(), "hello", 0) == Sent::kTooManyInFlight;
    while (sent-- > 0) {
      (void)receive_with_fd(ends.far.get(), 64);
    }
    ::_exit(full && send_with_fd(ends.near.get(), "hello", 0) == Sent::kSent ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace lockstep
