// TCP connections that a library opened for us: finding them, noticing silent peers, cutting them.
//
// A host that loses power or its link sends nothing any more, not even an end: a connection to it
// would wait for a quarter of an hour. A process that is stopped or slow is no such case: its
// kernel goes on answering.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::comm {

// Thread-safe.
class Connections {
 public:
  Connections() = default;
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  // Runs `open` and adds the connections to these addresses that this process has afterwards and
  // did not have before. Returns the ports at which it listens since.
  std::vector<int> add_opened_by(const std::function<void()>& open,
                                 const std::vector<std::string>& addresses);

  // Forgets those that have none of these ports at their ends: another thread opened them at the
  // same time.
  struct Ports {
    std::vector<int> own_ports;
    std::vector<int> peer_ports;
  };
  void keep_at(const Ports& ports);

  // From now on a connection whose peer's kernel has not answered for about 3 s is cut. That
  // includes all that this process has to one of these addresses, whoever opened them: a store may
  // have its server there.
  void watch(const std::vector<std::string>& addresses = {});
  // Addresses of the peers that were cut by watch().
  [[nodiscard]] std::vector<std::string> silent() const;

  // Ends those that were added: whoever waits for one gets an error, here and at the other end.
  void cut();

  [[nodiscard]] std::size_t size() const;
  // Whether one that was added is not open any more, by whomever it was closed.
  [[nodiscard]] bool has_closed_one() const;

 private:
  struct Connection {
    int fd = -1;
    ino_t inode = 0;   // The descriptor may be closed and be another file's by now.
    int port = 0;      // The local one.
    std::string peer;  // Empty if it listens.
    int peer_port = 0;
  };
  [[nodiscard]] static std::vector<Connection> all_of_this_process();
  [[nodiscard]] static bool is_open(const Connection& connection);
  [[nodiscard]] static bool has(const std::vector<Connection>& list, const Connection& connection);
  void look();

  mutable std::mutex mutex_;
  std::vector<Connection> added_;
  std::vector<Connection> watched_;
  std::vector<Connection> cut_;  // Because they were silent.
  std::vector<std::string> watched_addresses_;
  std::vector<std::string> silent_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread watcher_;
};

}  // namespace lockstep::comm
