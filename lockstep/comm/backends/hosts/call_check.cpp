#include "lockstep/comm/backends/hosts/call_check.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"

namespace lockstep::comm {
namespace {

// std::hash may differ between the hosts' libraries.
std::uint64_t fnv1a(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

struct Message {
  std::uint64_t hash;  // The whole text's.
  char call[120];      // As much of it as there is room for.
  std::byte payload[CallCheck::kPayloadBytes];
};
static_assert(sizeof(Message) == 2048 && offsetof(Message, payload) % 64 == 0);

const Message& message_of(const at::Tensor& all, int host) {
  return static_cast<const Message*>(all.const_data_ptr())[host];
}

}  // namespace

CallCheck::CallCheck(const c10::intrusive_ptr<c10d::Backend>& lane, const std::string& call,
                     const GlooWait& waiter, Deadline deadline, std::span<const std::byte> payload)
    : waiter_(waiter) {
  if (!lane) {
    return;
  }
  at::Tensor mine = at::zeros({sizeof(Message)}, at::kByte);
  auto& message = *static_cast<Message*>(mine.data_ptr());
  message.hash = fnv1a(call);
  std::copy_n(call.begin(), std::min(call.size(), sizeof message.call - 1), message.call);
  std::copy(payload.begin(), payload.end(), message.payload);
  all_ = at::empty({lane->getSize() * static_cast<std::int64_t>(sizeof(Message))}, at::kByte);
  c10d::AllgatherOptions options;
  options.timeout = deadline.as_timeout();
  work_ = waiter_.remember(lane->_allgather_base(all_, mine, options));
}

void CallCheck::require(const HostMap& map) const {
  if (!work_) {
    return;
  }
  waiter_.wait(*work_);
  bool differ = false;
  std::vector<std::string> calls;
  for (int host = 0; host < map.hosts(); ++host) {
    const Message& message = message_of(all_, host);
    differ = differ || message.hash != message_of(all_, 0).hash;
    calls.push_back(map.describe(host) + " calls " +
                    std::string(message.call, ::strnlen(message.call, sizeof message.call)));
  }
  if (differ) {
    throw PeerError("the hosts' calls do not match: " + join(calls, ", ") +
                    "; all ranks must run the same collectives in the same order");
  }
}

const std::byte* CallCheck::payload_of(int host) const { return message_of(all_, host).payload; }

}  // namespace lockstep::comm
