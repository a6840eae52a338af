// Connections whose other ends have not yet said who they are.
//
// Anybody who reaches the port can connect. So their number and their time are bounded, and nothing
// but a greeting is read from them.
#pragma once

#include <poll.h>

#include <list>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/net/link.h"

namespace lockstep::net {

// For one thread.
class PendingConnections {
 public:
  static constexpr std::chrono::seconds kGreetWithin{2};
  static constexpr std::size_t kMostPending = 64;  // More take the place of the oldest.

  explicit PendingConnections(Listener listener);

  // What poll() shall look at, and for how many milliseconds at most.
  void add_to(std::vector<pollfd>& ready) const;
  [[nodiscard]] int patience() const;

  struct Greeted {
    std::unique_ptr<Link> link;
    Frame hello;
  };
  // Takes what poll() said of that; returns the connections that have greeted.
  std::vector<Greeted> look(std::span<const pollfd> ready);
  // Closes all of them, and lets in no more.
  void close();
  [[nodiscard]] std::size_t size() const { return silent_.size(); }

 private:
  struct Silent {
    std::unique_ptr<Link> link;
    Deadline greet_by;
  };
  void accept_some();
  [[nodiscard]] bool accepts() const;

  Listener listener_;
  std::list<Silent> silent_;
  Deadline accept_after_;
};

}  // namespace lockstep::net
