#include "lockstep/shm/handover.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/text.h"
#include "lockstep/shm/layout.h"
#include "lockstep/shm/unix_socket.h"

namespace lockstep::shm {
namespace {

// What comes with a descriptor.
struct Hello {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t rank = 0;
  std::array<char, 32> secret{};  // Of the rank that listens.
};
static_assert(std::has_unique_object_representations_v<Hello>);

// What a rank posts: one line each.
struct Notice {
  std::uint32_t version = kVersion;
  std::string socket;
  std::string secret;
  pid_t pid = 0;
  std::string host_id;
  std::string host;
};

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::string new_secret() {
  std::array<char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw_errno("shared memory: random bytes");
  }
  return to_hex({bytes.data(), bytes.size()});
}

std::string key_of(int rank) { return "shm/" + std::to_string(rank); }

std::string notice_text(const Notice& notice) {
  return std::to_string(notice.version) + "\n" + notice.socket + "\n" + notice.secret + "\n" +
         std::to_string(notice.pid) + "\n" + notice.host_id + "\n" + notice.host;
}

// nullopt for a text of another version or none of ours.
std::optional<Notice> parse_notice(const std::string& text) {
  const auto lines = split(text, '\n');
  constexpr std::size_t kLines = 6;
  if (lines.size() != kLines || parse_int(lines[0]) != kVersion) {
    return std::nullopt;
  }
  return Notice{.version = kVersion,
                .socket = lines[1],
                .secret = lines[2],
                .pid = static_cast<pid_t>(parse_int(lines[3]).value_or(0)),
                .host_id = lines[4],
                .host = lines[5]};
}

// Two containers may have one name: the identity tells them apart.
std::string host_of(const Notice& notice) {
  return "'" + notice.host + "' (" + notice.host_id + ")";
}

class Handover {
 public:
  Handover(Segment own, int rank, int size, Board& board, Deadline deadline)
      : rank_(rank),
        size_(size),
        board_(board),
        deadline_(deadline),
        segments_(static_cast<std::size_t>(size)),
        peers_(static_cast<std::size_t>(size)) {
    segments_[index(rank)] = std::move(own);
  }

  Ring run() {
    listener_ = listen_unix(size_ + 16);
    mine_ = {.socket = listener_.name,
             .secret = new_secret(),
             .pid = ::getpid(),
             .host_id = host_id(),
             .host = host_name()};
    peers_[index(rank_)] = {identify(::getpid()), mine_.host};
    board_.post(key_of(rank_), notice_text(mine_));
    read_notices();
    // Lower ranks are called, higher ones call: each pair meets once. Nobody waits for an answer
    // before it has called all, so no two ranks wait for each other.
    std::vector<UniqueFd> called;
    for (int other = 0; other < rank_; ++other) {
      called.push_back(call(other));
      send_own(called.back().get(), notices_[index(other)].secret, other);
    }
    for (int missing = size_ - 1 - rank_; missing > 0;) {
      missing -= answer_one() ? 1 : 0;
    }
    for (int other = 0; other < rank_; ++other) {
      receive_answer(called[index(other)].get(), other);
    }
    Ring ring;
    ring.peers = std::move(peers_);
    for (auto& segment : segments_) {
      ring.segments.push_back(std::move(*segment));
    }
    return ring;
  }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  [[nodiscard]] std::string who(int other) const {
    const auto& notice = notices_[index(other)];
    return "rank " + std::to_string(other) + " (pid " + std::to_string(notice.pid) + " on " +
           notice.host + ")";
  }
  [[nodiscard]] std::string what() const {
    return "shared memory on rank " + std::to_string(rank_) + " of " + std::to_string(size_) + ": ";
  }

  void read_notices() {
    for (int other = 0; other < size_; ++other) {
      const auto notice = parse_notice(board_.read(key_of(other), deadline_));
      if (!notice) {
        throw PeerError(what() + "rank " + std::to_string(other) +
                        " speaks another version of the protocol than this one (" +
                        std::to_string(kVersion) + "); use the same lockstep on all ranks");
      }
      notices_.push_back(*notice);
    }
    for (int other = 0; other < size_; ++other) {
      const auto& notice = notices_[index(other)];
      if (notice.host_id != mine_.host_id) {
        throw UsageError(
            what() + "this rank is on host " + host_of(mine_) + " and rank " +
            std::to_string(other) + " on " + host_of(notice) +
            ", which cannot share memory (another machine, network or pid namespace, or "
            "user); use the backend lockstep or gloo");
      }
    }
  }

  UniqueFd call(int other) {
    try {
      return connect_unix(notices_[index(other)].socket, deadline_);
    } catch (const PeerError& error) {
      throw PeerError(what() + who(other) + " cannot be reached (" + error.what() +
                      "); see its log");
    }
  }

  void send_own(int socket, const std::string& secret, int other) {
    Hello hello{.rank = static_cast<std::uint32_t>(rank_)};
    secret.copy(hello.secret.data(), hello.secret.size());
    if (!send_with_fd(socket, {reinterpret_cast<const char*>(&hello), sizeof hello},
                      segments_[index(rank_)]->fd())) {
      throw PeerError(what() + who(other) + " went away while the group was formed");
    }
  }

  // True once the socket can be read, false after `patience`. Throws if one of the others ends
  // or the deadline comes first.
  bool readable(int socket, const std::vector<int>& others, Deadline patience) {
    constexpr int kLook = 100;  // Milliseconds.
    while (true) {
      pollfd entry{.fd = socket, .events = POLLIN, .revents = 0};
      if (::poll(&entry, 1, std::min(kLook, patience.poll_timeout())) > 0 && !deadline_.passed()) {
        return true;
      }
      for (const int other : others) {
        if (state_of({.pid = notices_[index(other)].pid}).life == Life::kEnded) {
          throw PeerError(what() + who(other) + " ended while the group was formed; see its log");
        }
      }
      if (deadline_.passed()) {
        throw PeerError(what() + "rank " + join_numbers(others) +
                        " did not hand over its memory within " + to_text(deadline_.total()) +
                        "; see its log");
      }
      if (patience.passed()) {
        return false;
      }
    }
  }

  [[nodiscard]] std::vector<int> not_seen(int from) const {
    std::vector<int> ranks;
    for (int other = from; other < size_; ++other) {
      if (!segments_[index(other)]) {
        ranks.push_back(other);
      }
    }
    return ranks;
  }

  // False if a stranger called.
  bool answer_one() {
    const auto missing = not_seen(rank_ + 1);
    readable(listener_.fd.get(), missing, deadline_);
    const UniqueFd socket(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      throw_errno(what() + "accepting a peer");
    }
    if (!socket || credentials_of(socket.get()).uid != ::geteuid()) {
      return false;
    }
    // A rank sends as soon as it is connected; a stranger may never.
    if (!readable(socket.get(), missing, Deadline::in(std::chrono::seconds(2)))) {
      return false;
    }
    auto parcel = receive_with_fd(socket.get(), sizeof(Hello));
    const auto hello = parcel ? read_hello(parcel->message) : std::nullopt;
    if (!hello || std::string_view(hello->secret.data(), hello->secret.size()) != mine_.secret) {
      return false;
    }
    const int other = static_cast<int>(hello->rank);
    if (other <= rank_ || other >= size_ || segments_[index(other)]) {
      return false;
    }
    keep(other, std::move(parcel->fd), socket.get());
    send_own(socket.get(), notices_[index(other)].secret, other);
    return true;
  }

  void receive_answer(int socket, int other) {
    if (credentials_of(socket).uid != ::geteuid()) {
      throw PeerError(what() + "the socket of " + who(other) + " belongs to another user");
    }
    readable(socket, {other}, deadline_);
    auto parcel = receive_with_fd(socket, sizeof(Hello));
    const auto hello = parcel ? read_hello(parcel->message) : std::nullopt;
    if (!hello || static_cast<int>(hello->rank) != other) {
      throw PeerError(what() + who(other) + " went away while the group was formed; see its log");
    }
    keep(other, std::move(parcel->fd), socket);
  }

  static std::optional<Hello> read_hello(const std::string& message) {
    Hello hello;
    if (message.size() != sizeof hello) {
      return std::nullopt;
    }
    std::memcpy(&hello, message.data(), sizeof hello);
    return hello.magic == kMagic && hello.version == kVersion ? std::optional(hello) : std::nullopt;
  }

  void keep(int other, UniqueFd fd, int socket) {
    segments_[index(other)] = Segment::adopt(std::move(fd), sizeof(Control), what() + who(other));
    const pid_t pid = credentials_of(socket).pid;
    if (pid <= 0) {
      throw UsageError(what() + who(other) +
                       " is in another pid namespace, where its end could not be noticed; use the "
                       "backend gloo");
    }
    peers_[index(other)] = {identify(pid), notices_[index(other)].host};
  }

  int rank_;
  int size_;
  Board& board_;
  Deadline deadline_;
  std::vector<std::optional<Segment>> segments_;
  std::vector<Peer> peers_;
  UnixListener listener_;
  Notice mine_;
  std::vector<Notice> notices_;
};

}  // namespace

Ring hand_over(Segment own, int rank, int size, Board& board, Deadline deadline) {
  return Handover(std::move(own), rank, size, board, deadline).run();
}

}  // namespace lockstep::shm
