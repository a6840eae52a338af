#include "lockstep/comm/rendezvous/rendezvous.h"

#include <fcntl.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <map>
#include <mutex>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/rendezvous/local_meeting.h"

namespace lockstep::comm {
namespace {

constexpr std::chrono::milliseconds kPatience{10'000};  // Before we say what we wait for.

std::string on_rank(const cluster::Membership& member) {
  return "init_process_group on rank " + std::to_string(member.rank) + ": ";
}

c10d::TCPStoreOptions store_options(const cluster::Membership& member, int port,
                                    Deadline deadline) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.numWorkers = static_cast<std::size_t>(member.world_size);
  options.timeout = deadline.as_timeout();
  return options;
}

c10::intrusive_ptr<c10d::Store> serve(const Endpoint& endpoint, Listener listener,
                                      const cluster::Membership& member, Deadline deadline) {
  auto options = store_options(member, listener.port, deadline);
  options.isServer = true;
  options.waitWorkers = false;  // Who is missing is said by name, later, by the group.
  options.masterListenFd = listener.fd.release();
  return c10::make_intrusive<c10d::TCPStore>(endpoint.host, options);
}

// One store for all groups that this process forms at an address, one after the other, for as long
// as it lives. Otherwise a rank that comes to the next group before this process has left the last
// one would find a store that ends.
class ServedStores {
 public:
  // Nothing is destroyed when the process ends: ranks may use the stores until the very end.
  static ServedStores& of_this_process() {
    static auto& stores = *new ServedStores();
    return stores;
  }

  c10::intrusive_ptr<c10d::Store> serve_from_now_on(const Endpoint& endpoint,
                                                    const cluster::Membership& member,
                                                    Deadline deadline) {
    const std::lock_guard lock(mutex_);
    auto& served = by_port_[endpoint.port];
    if (served.owner != ::getpid() || served.host != endpoint.host) {
      end(served);
      served.store = serve(endpoint, listen_on(endpoint), member, deadline);
      served.owner = ::getpid();
      served.host = endpoint.host;
    }
    return served.store;
  }

  // The port is free when no group uses the store there any more.
  void end_at(int port) {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_port_.find(port); found != by_port_.end()) {
      end(found->second);
      by_port_.erase(found);
    }
  }

  void end_if_unused(const c10::intrusive_ptr<c10d::Store>& store) {
    constexpr std::size_t kHereAndTheCallers = 2;
    const std::lock_guard lock(mutex_);
    std::erase_if(by_port_, [&](const auto& entry) {
      return entry.second.store == store && store.use_count() == kHereAndTheCallers;
    });
  }

 private:
  struct Served {
    pid_t owner = 0;  // A fork has no server.
    std::string host;
    c10::intrusive_ptr<c10d::Store> store;
  };
  static void end(Served& served) {
    if (served.owner != ::getpid()) {
      (void)served.store.release();  // Its destructor would wait for a thread of the parent.
    }
    served = {};
  }

  std::mutex mutex_;
  std::map<int, Served> by_port_;
};

// TCPStore would wait as long but not say what is wrong.
void wait_for_master(const Endpoint& endpoint, const cluster::Membership& member,
                     Deadline deadline) {
  const auto patience = std::min(deadline.remaining(), kPatience);
  try {
    connect_to(endpoint, Deadline::in(patience));
    return;
  } catch (const PeerError& error) {
    // A launcher's store listens before its workers start: one that is not there will not come.
    if (member.launcher_serves_store || patience < kPatience) {
      throw;
    }
    TORCH_WARN(on_rank(member), error.what(), "; going on trying for ",
               to_text(deadline.remaining()));
  }
  connect_to(endpoint, deadline);
}

c10::intrusive_ptr<c10d::Store> join(const Endpoint& endpoint, const cluster::Membership& member,
                                     Deadline deadline) {
  try {
    wait_for_master(endpoint, member, deadline);
  } catch (const PeerError& error) {
    throw PeerError(on_rank(member) + error.what() +
                    " (the address is that of MASTER_ADDR, MASTER_PORT or init_method)");
  }
  return c10::make_intrusive<c10d::TCPStore>(endpoint.host,
                                             store_options(member, endpoint.port, deadline));
}

Rendezvous meet_by_name(const cluster::Membership& member, Deadline deadline) {
  Rendezvous rendezvous;
  rendezvous.master_host = "127.0.0.1";
  if (member.rank != 0) {
    const int port = LocalMeeting::ask(member.meeting_name, member.rank, deadline);
    rendezvous.store = join({"127.0.0.1", port}, member, deadline);
    return rendezvous;
  }
  LocalMeeting meeting = LocalMeeting::open(member.meeting_name);
  Listener listener = listen_on({"127.0.0.1", 0});
  const int port = listener.port;
  rendezvous.store = serve({"127.0.0.1", port}, std::move(listener), member, deadline);
  rendezvous.hosts_store = true;
  meeting.announce(port, member.world_size, deadline);
  return rendezvous;
}

}  // namespace

Rendezvous::Rendezvous() = default;
Rendezvous::Rendezvous(Rendezvous&&) noexcept = default;
Rendezvous& Rendezvous::operator=(Rendezvous&&) noexcept = default;
Rendezvous::~Rendezvous() = default;

Rendezvous meet(const cluster::Membership& member, Deadline deadline, StoreLife life) {
  Rendezvous rendezvous;
  if (!member.master) {
    if (member.world_size > 1) {
      return meet_by_name(member, deadline);
    }
    rendezvous.store = c10::make_intrusive<c10d::HashStore>();
    return rendezvous;
  }
  const Endpoint& master = *member.master;
  rendezvous.master_host = master.host;
  if (member.rank == 0 && !member.launcher_serves_store) {
    auto& stores = ServedStores::of_this_process();
    try {
      if (life == StoreLife::kWithTheProcess) {
        rendezvous.store = stores.serve_from_now_on(master, member, deadline);
      } else {
        stores.end_at(master.port);  // What earlier groups left there is not for this one.
        rendezvous.store = serve(master, listen_on(master), member, deadline);
      }
    } catch (const UsageError& error) {
      throw UsageError(on_rank(member) + error.what() +
                       " (MASTER_ADDR, MASTER_PORT or init_method)");
    }
    rendezvous.hosts_store = true;
  } else {
    rendezvous.store = join(master, member, deadline);
  }
  return rendezvous;
}

void forget_store(Rendezvous rendezvous) {
  ServedStores::of_this_process().end_if_unused(rendezvous.store);
}

Rendezvous meet_in_file(const std::string& path, const cluster::Membership& member,
                        Deadline deadline) {
  if (path.empty() || path.front() != '/') {
    throw UsageError(on_rank(member) + "init_method is 'file://" + path +
                     "', expected file:///absolute/path that all ranks can write");
  }
  const UniqueFd probe(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!probe) {
    throw_errno(on_rank(member) + "opening the meeting file '" + path + "' of init_method");
  }
  Rendezvous rendezvous;
  auto store = c10::make_intrusive<c10d::FileStore>(path, member.world_size);
  store->setTimeout(deadline.as_timeout());
  rendezvous.store = std::move(store);
  return rendezvous;
}

}  // namespace lockstep::comm
