// A store that does not answer: its host's process is stopped.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/sockets/socket.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"

namespace lockstep::testing {

// The store is in the process of rank 0.
inline void meet_at(const std::string& port) {
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("MASTER_PORT", port.c_str(), 1);
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
}

inline bool is_stopped(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto name_end = text.rfind(')');
  return name_end != std::string::npos && text.substr(name_end, 3) == ") T";
}

// Both ranks make one. On rank 0 it stops the process; on rank 1 it waits until it is stopped, and
// lets it go on at its end.
class StoppedHost {
 public:
  explicit StoppedHost(const Group& world) : is_host_(world.rank() == 0) {
    const auto store = world.store();
    if (is_host_) {
      store->set("pid of host", std::to_string(::getpid()));
      store->wait({"stop"});
      ::raise(SIGSTOP);
      return;
    }
    host_ = static_cast<pid_t>(std::stol(store->get_to_str("pid of host")));
    store->set("stop", "1");
    while (!is_stopped(host_)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  StoppedHost(const StoppedHost&) = delete;
  StoppedHost& operator=(const StoppedHost&) = delete;
  ~StoppedHost() {
    if (!is_host_) {
      ::kill(host_, SIGCONT);
    }
  }

 private:
  bool is_host_;
  pid_t host_ = 0;
};

// Two ranks run `body`, one of which hosts the store.
inline void with_host(const std::function<void(Group world)>& body) {
  const auto port = std::to_string(listen_on({"127.0.0.1", 0}).port);
  spawn(2, [&](int) {
    meet_at(port);
    body(init_process_group());
  });
}

}  // namespace lockstep::testing
