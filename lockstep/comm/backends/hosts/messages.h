// Messages between the ranks of several hosts: where they go, and how they are awaited.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "lockstep/comm/backends/hosts/host_map.h"
#include "lockstep/net/mailbox.h"

namespace lockstep::comm {

// The numeric address at which the other hosts reach this one: of the first of these interfaces,
// or as Gloo chooses: what this host's name stands for if that is an address of its own, else
// loopback. Throws UsageError for an interface that has none.
std::string message_address(const std::vector<std::string>& interfaces);

// The tensor, which is on the CPU and has no gaps, is kept as long as it is needed.
net::MessagePointer post_send(net::Mailbox& mailbox, int to, std::uint64_t tag,
                              const at::Tensor& tensor);
net::MessagePointer post_receive(net::Mailbox& mailbox, int from, std::uint64_t tag,
                                 const at::Tensor& tensor);

// Blocks until it is done. Throws what the message failed with; at the deadline, a PeerError that
// names the other rank. `has_ended` says whether the group is of no use any more and is asked every
// half second; if so, throws PeerError: a rank that is silent may be why.
void await(net::Mailbox& mailbox, const net::Message& message, const HostMap& map,
           const std::function<bool()>& has_ended, Deadline deadline);

}  // namespace lockstep::comm
