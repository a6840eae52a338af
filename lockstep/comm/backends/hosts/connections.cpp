#include "lockstep/comm/backends/hosts/connections.h"

#include <dirent.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>

#include "lockstep/base/sockets/tcp_liveness.h"

namespace lockstep::comm {
namespace {

constexpr std::chrono::milliseconds kLook{500};

bool is_tcp(int fd) {
  int protocol = 0;
  socklen_t length = sizeof protocol;
  return ::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 &&
         protocol == IPPROTO_TCP;
}

bool listens(int fd) {
  int on = 0;
  socklen_t length = sizeof on;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &length) == 0 && on != 0;
}

struct End {
  std::string host;  // Empty if there is none.
  int port = 0;
};

using NameOf = int (*)(int, sockaddr*, socklen_t*);  // getsockname() or getpeername().

End end_of(int fd, NameOf name_of) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (name_of(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), length, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  const std::string text = host;
  return {.host = text.starts_with("::ffff:") ? text.substr(7) : text, .port = std::atoi(port)};
}

template <class One>
bool is_among(const One& one, const std::vector<One>& list) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

}  // namespace

bool Connections::has(const std::vector<Connection>& list, const Connection& connection) {
  return std::any_of(list.begin(), list.end(),
                     [&](const auto& one) { return one.inode == connection.inode; });
}

Connections::~Connections() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) {
    watcher_.join();
  }
}

std::vector<Connections::Connection> Connections::all_of_this_process() {
  std::vector<Connection> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), &::closedir);
  if (!folder) {
    return found;
  }
  while (const dirent* entry = ::readdir(folder.get())) {
    const int fd = std::atoi(entry->d_name);
    struct stat status{};
    if (fd <= 2 || ::fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode)) {
      continue;
    }
    if (!is_tcp(fd)) {
      continue;
    }
    auto peer = end_of(fd, &::getpeername);
    if (!peer.host.empty() || listens(fd)) {
      found.push_back({.fd = fd,
                       .inode = status.st_ino,
                       .port = end_of(fd, &::getsockname).port,
                       .peer = std::move(peer.host),
                       .peer_port = peer.port});
    }
  }
  return found;
}

bool Connections::is_open(const Connection& connection) {
  struct stat status{};
  return ::fstat(connection.fd, &status) == 0 && status.st_ino == connection.inode &&
         S_ISSOCK(status.st_mode);
}

std::vector<int> Connections::add_opened_by(const std::function<void()>& open,
                                            const std::vector<std::string>& addresses) {
  const auto before = all_of_this_process();
  open();
  std::vector<int> ports;
  const std::lock_guard lock(mutex_);
  for (auto& connection : all_of_this_process()) {
    const bool is_new = std::none_of(before.begin(), before.end(), [&](const auto& old) {
      return old.inode == connection.inode;
    });
    if (is_new && connection.peer.empty()) {
      ports.push_back(connection.port);
    } else if (is_new && is_among(connection.peer, addresses)) {
      added_.push_back(std::move(connection));
    }
  }
  return ports;
}

void Connections::keep_at(const Ports& ports) {
  const std::lock_guard lock(mutex_);
  std::erase_if(added_, [&](const Connection& connection) {
    return !is_among(connection.port, ports.own_ports) &&
           !is_among(connection.peer_port, ports.peer_ports);
  });
}

void Connections::watch(const std::vector<std::string>& addresses) {
  const std::lock_guard lock(mutex_);
  watched_addresses_ = addresses;
  look();
  if (!watcher_.joinable()) {
    watcher_ = std::thread([this] {
      std::unique_lock waiting(mutex_);
      while (!changed_.wait_for(waiting, kLook, [this] { return stop_; })) {
        look();
      }
    });
  }
}

// The lock is held.
void Connections::look() {
  std::erase_if(watched_, [](const Connection& connection) { return !is_open(connection); });
  for (auto& connection : all_of_this_process()) {
    const bool counts = has(added_, connection) || is_among(connection.peer, watched_addresses_);
    if (counts && !has(watched_, connection) && !has(cut_, connection)) {
      keep_alive(connection.fd);
      watched_.push_back(std::move(connection));
    }
  }
  std::erase_if(watched_, [this](const Connection& connection) {
    if (!is_open(connection) || !is_silent(connection.fd)) {
      return false;
    }
    silent_.push_back(connection.peer);
    cut_.push_back(connection);
    ::shutdown(connection.fd, SHUT_RDWR);
    return true;
  });
}

std::vector<std::string> Connections::silent() const {
  const std::lock_guard lock(mutex_);
  return silent_;
}

void Connections::cut() {
  const std::lock_guard lock(mutex_);
  for (const auto& connection : added_) {
    if (is_open(connection)) {
      ::shutdown(connection.fd, SHUT_RDWR);
    }
  }
}

bool Connections::has_closed_one() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(added_.begin(), added_.end(), [](const Connection& connection) {
    tcp_info info{};
    socklen_t length = sizeof info;
    return !is_open(connection) ||
           ::getsockopt(connection.fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
           info.tcpi_state != TCP_ESTABLISHED;
  });
}

std::size_t Connections::size() const {
  const std::lock_guard lock(mutex_);
  return added_.size();
}

}  // namespace lockstep::comm
