#include "lockstep/shm/peers/segment_exchange.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/sockets/unix_socket.h"
#include "lockstep/base/text/text.h"
#include "lockstep/shm/peers/notice.h"
#include "lockstep/shm/segments/layout.h"

namespace lockstep::shm {
namespace {

using Clock = Deadline::Clock;

// The kernel limits the descriptors that a user has in flight. A rank has at most this many calls
// open, each with at most one descriptor in flight, so 256 ranks stay below the usual 1,024.
constexpr std::size_t kCallsAtOnce = 4;
// Callers that are served at once; the others wait in the socket's queue.
constexpr std::size_t kCallersAtOnce = 64;
// A rank says who it is as soon as it is connected; a stranger may never.
constexpr std::chrono::seconds kStrangersPatience{2};
// How often a rank checks that the ranks it waits for are alive.
constexpr std::chrono::milliseconds kLookEvery{200};
// How soon a rank tries again after the kernel had no room.
constexpr std::chrono::milliseconds kTryAgain{5};

constexpr char kGotIt = 1;  // The answer to a descriptor of one that called.

// A connection, and what comes next on it. The caller says hello, gets the other's descriptor,
// sends its own and waits until the other has it, so nothing stays in flight.
struct Line {
  enum class Next { kHello, kSend, kReceive, kConfirm };
  UniqueFd socket;
  int other = -1;  // Nobody yet.
  Next next = Next::kHello;
  Deadline patience;
  bool ready = false;  // There is something to read.
};

class SegmentExchange {
 public:
  SegmentExchange(Segment own, int rank, int size, Board& board, Deadline deadline)
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
    board_.post(notice_key(rank_), notice_text(mine_));
    notices_ = read_notices(board_, size_, mine_, {what(), deadline_});
    for (int other = 0; other < rank_; ++other) {
      to_call_.push_back(other);
    }
    // Lower ranks are called, higher ones call: each pair meets once. All lines go on at the same
    // time, so no two ranks wait for each other.
    while (!missing().empty()) {
      call_some();
      wait_for_lines();
      std::erase_if(lines_, [this](Line& line) { return !advance(line); });
      look_after_peers();
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
  [[nodiscard]] bool calls(int other) const { return other >= 0 && other < rank_; }

  [[nodiscard]] std::string who(int other) const {
    const auto& notice = notices_[index(other)];
    return "rank " + std::to_string(other) + " (pid " + std::to_string(notice.pid) + " on " +
           notice.host + ")";
  }
  [[nodiscard]] std::string what() const {
    return "shared memory on rank " + std::to_string(rank_) + " of " + std::to_string(size_) + ": ";
  }

  // The ranks whose segment is not here yet, or that do not have this rank's segment yet.
  [[nodiscard]] std::vector<int> missing() const {
    std::vector<int> ranks = to_call_;
    for (const auto& line : lines_) {
      if (calls(line.other)) {
        ranks.push_back(line.other);
      }
    }
    for (int other = rank_ + 1; other < size_; ++other) {
      if (!segments_[index(other)]) {
        ranks.push_back(other);
      }
    }
    return ranks;
  }

  void call_some() {
    const auto open = static_cast<std::size_t>(std::count_if(
        lines_.begin(), lines_.end(), [this](const Line& line) { return calls(line.other); }));
    const bool may_call = Clock::now() >= next_call_;
    for (auto free = may_call ? kCallsAtOnce - open : 0; free > 0 && !to_call_.empty(); --free) {
      UniqueFd socket = call(to_call_.front());
      if (!socket) {
        next_call_ = Clock::now() + kTryAgain;  // Its queue is full.
        return;
      }
      lines_.push_back({.socket = std::move(socket),
                        .other = to_call_.front(),
                        .next = Line::Next::kReceive,
                        .patience = deadline_});
      to_call_.erase(to_call_.begin());
    }
  }

  UniqueFd call(int other) {
    UniqueFd socket;
    try {
      socket = try_connect_unix(notices_[index(other)].socket);
    } catch (const PeerError& error) {
      throw PeerError(what() + who(other) + " cannot be reached (" + error.what() +
                      "); see its log");
    }
    if (socket && credentials_of(socket.get()).uid != ::geteuid()) {
      throw PeerError(what() + "the socket of " + who(other) + " belongs to another user");
    }
    if (socket) {
      const std::string hello = hello_to(other);
      if (::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL) < 0) {
        socket.reset();  // Called again.
      }
    }
    return socket;
  }

  [[nodiscard]] std::string hello_to(int other) const {
    return hello_text({.rank = rank_, .secret = notices_[index(other)].secret});
  }

  // Waits until a line can be read or a call can be tried again. Accepts one caller.
  void wait_for_lines() {
    const bool room = lines_.size() < kCallsAtOnce + kCallersAtOnce;
    std::vector<pollfd> entries{
        {.fd = room ? listener_.fd.get() : -1, .events = POLLIN, .revents = 0}};
    auto limit = kLookEvery;
    for (const auto& line : lines_) {
      const bool sends = line.next == Line::Next::kSend;
      entries.push_back({.fd = sends ? -1 : line.socket.get(), .events = POLLIN, .revents = 0});
      limit = sends ? kTryAgain : limit;
    }
    if (next_call_ > Clock::now()) {
      limit = kTryAgain;
    }
    ::poll(entries.data(), entries.size(),
           std::min(static_cast<int>(limit.count()), deadline_.poll_timeout()));
    std::size_t at = 0;
    for (auto& line : lines_) {
      line.ready = entries[++at].revents != 0;
    }
    if (entries[0].revents != 0) {
      accept_one();
    }
  }

  void accept_one() {
    UniqueFd socket(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      throw_errno(what() + "accepting a peer");
    }
    if (socket && credentials_of(socket.get()).uid == ::geteuid()) {
      lines_.push_back({.socket = std::move(socket), .patience = Deadline::in(kStrangersPatience)});
    }
  }

  // Returns false when the line is no longer needed.
  bool advance(Line& line) {
    if (line.next == Line::Next::kSend) {
      return send_own(line);
    }
    if (!line.ready) {
      return line.next != Line::Next::kHello || !line.patience.passed();
    }
    switch (line.next) {
      case Line::Next::kHello:
        return hear_hello(line);
      case Line::Next::kSend:
        break;
      case Line::Next::kReceive:
        return receive(line);
      case Line::Next::kConfirm:
        return hear_confirmation(line);
    }
    return false;
  }

  // What there is to read; empty if the peer closed.
  static std::string read(int socket) {
    std::string text(kHelloBytes + 1, '\0');
    const auto length = ::recv(socket, text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    return text;
  }

  // Turns strangers away. If two callers claim to be the same rank, the first whose segment arrives
  // counts.
  bool hear_hello(Line& line) {
    const auto hello = parse_hello(read(line.socket.get()));
    if (!hello || hello->secret != mine_.secret || hello->rank <= rank_ || hello->rank >= size_) {
      return false;
    }
    line.other = hello->rank;
    line.next = Line::Next::kSend;
    return send_own(line);
  }

  bool send_own(Line& line) {
    const auto sent =
        send_with_fd(line.socket.get(), hello_to(line.other), segments_[index(rank_)]->fd());
    if (sent == Sent::kPeerGone && calls(line.other)) {
      throw PeerError(what() + who(line.other) + closed());
    }
    if (sent == Sent::kSent) {
      line.next = calls(line.other) ? Line::Next::kConfirm : Line::Next::kReceive;
    }
    return sent != Sent::kPeerGone;
  }

  bool receive(Line& line) {
    auto parcel = receive_with_fd(line.socket.get(), kHelloBytes);
    const auto hello = parcel ? parse_hello(parcel->message) : std::nullopt;
    const bool right = hello && hello->rank == line.other;
    if (!right && calls(line.other)) {
      to_call_.push_back(line.other);  // It took this rank for a stranger that says nothing.
      next_call_ = Clock::now() + kLookEvery;
    }
    if (!right || segments_[index(line.other)]) {
      return false;
    }
    keep(line.other, std::move(parcel->fd), line.socket.get());
    if (calls(line.other)) {
      line.next = Line::Next::kSend;
      return send_own(line);
    }
    ::send(line.socket.get(), &kGotIt, 1, MSG_NOSIGNAL);
    return false;
  }

  bool hear_confirmation(const Line& line) {
    if (read(line.socket.get()).empty()) {
      throw PeerError(what() + who(line.other) + closed());
    }
    return false;
  }

  static std::string closed() {
    return " closed the connection while the group was formed; see its log";
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

  // Throws if one of those that are missing has ended, or at the deadline.
  void look_after_peers() {
    if (Clock::now() < next_look_ && !deadline_.passed()) {
      return;
    }
    next_look_ = Clock::now() + kLookEvery;
    const auto others = missing();
    for (const int other : others) {
      if (state_of({.pid = notices_[index(other)].pid}).life != Life::kEnded) {
        continue;
      }
      if (ended_ == other) {
        throw PeerError(what() + who(other) + " ended while the group was formed; see its log");
      }
      ended_ = other;  // It may have been done: what it said last is read first.
      next_look_ = Clock::now();
      return;
    }
    if (deadline_.passed() && !others.empty()) {
      throw_late(others);
    }
  }

  [[noreturn]] void throw_late(const std::vector<int>& others) const {
    if (std::any_of(lines_.begin(), lines_.end(),
                    [](const Line& line) { return line.next == Line::Next::kSend; })) {
      rlimit limit{};
      ::getrlimit(RLIMIT_NOFILE, &limit);
      throw IoError(what() + "the kernel took no further descriptor within " +
                    to_text(deadline_.total()) +
                    ", because too many are on their way between this user's processes (at most " +
                    std::to_string(limit.rlim_cur) +
                    "); raise `ulimit -n`, or form fewer groups at the same time");
    }
    throw PeerError(what() + "rank " + join_numbers(others) +
                    " did not hand over its memory within " + to_text(deadline_.total()) +
                    "; see its log");
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
  std::vector<int> to_call_;
  std::list<Line> lines_;
  std::optional<int> ended_;
  Clock::time_point next_call_ = Clock::now();
  Clock::time_point next_look_ = Clock::now() + kLookEvery;
};

}  // namespace

Ring exchange_segments(Segment own, int rank, int size, Board& board, Deadline deadline) {
  return SegmentExchange(std::move(own), rank, size, board, deadline).run();
}

}  // namespace lockstep::shm
