// Ranks of a group in one process, which send each other numbers.
#pragma once

#include <gmock/gmock.h>

#include <memory>
#include <numeric>
#include <vector>

#include "lockstep/net/mailbox.h"
#include "tests/support/soon.h"

namespace lockstep::net {

using lockstep::testing::soon;
using Ints = std::vector<std::int32_t>;

struct Mailboxes {
  explicit Mailboxes(int size) {
    std::vector<std::string> addresses;
    for (int rank = 0; rank < size; ++rank) {
      boxes.push_back(std::make_unique<net::Mailbox>(rank, "127.0.0.1"));
      addresses.push_back(boxes.back()->own_address());
    }
    for (auto& box : boxes) {
      box->open(addresses);
    }
  }
  Mailbox& operator[](int rank) { return *boxes[static_cast<std::size_t>(rank)]; }
  std::vector<std::unique_ptr<Mailbox>> boxes;
};

inline MessagePointer send(Mailbox& box, int to, std::uint64_t tag, Ints values) {
  const auto owner = std::make_shared<Ints>(std::move(values));
  return box.send(to, tag, std::as_bytes(std::span(*owner)), owner);
}

struct Receive {
  Receive(Mailbox& the_box, int from, std::uint64_t tag, std::size_t count = 1)
      : box(the_box),
        values(std::make_shared<Ints>(count)),
        message(box.receive(from, tag, std::as_writable_bytes(std::span(*values)), values)) {}
  Ints wait(Deadline deadline = soon()) {
    if (!box.wait_until(*message, deadline)) {
      throw UsageError("it hangs");
    }
    if (message->error()) {
      std::rethrow_exception(message->error());
    }
    return *values;
  }
  Mailbox& box;
  std::shared_ptr<Ints> values;
  MessagePointer message;
};

inline Ints numbers(std::size_t count, int first) {
  Ints values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

// The sizes of small and large messages.
inline constexpr std::size_t kCounts[] = {1, 4096, 4097, 2000000};

}  // namespace lockstep::net
