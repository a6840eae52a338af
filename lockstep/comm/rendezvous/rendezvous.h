// Brings the ranks of a job to one c10d store.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/cluster/discover.h"

namespace c10d {
class Store;
}

namespace lockstep::comm {

struct Rendezvous {
  Rendezvous();
  Rendezvous(Rendezvous&&) noexcept;
  Rendezvous& operator=(Rendezvous&&) noexcept;
  ~Rendezvous();

  c10::intrusive_ptr<c10d::Store> store;
  bool hosts_store = false;  // The store ends with this process.
  std::string master_host;   // Empty where the ranks meet in memory or in a file.
};

// How long a process serves the store at the master's address.
enum class StoreLife {
  kWithItsUsers,
  // Groups that this process forms there later use it again. They must have rounds (StoreRound).
  kWithTheProcess,
};

// Blocks until the store can be used: on rank 0 until it serves, on the others until they are
// connected. Throws UsageError if the port is taken or the address is not this machine's, and
// PeerError if the master cannot be reached before the deadline.
Rendezvous meet(const cluster::Membership& member, Deadline deadline,
                StoreLife life = StoreLife::kWithItsUsers);

// For a group that could not be formed: what its ranks left in a store that this process serves
// is not for the next one, which gets a new store unless another group still has this one.
void forget_store(Rendezvous rendezvous);

// The same through a file that all ranks can open. The last rank removes it.
Rendezvous meet_in_file(const std::string& path, const cluster::Membership& member,
                        Deadline deadline);

}  // namespace lockstep::comm
