// Those who have connected and not yet said who they are.
//
// Anybody who reaches the port can connect. So it is a bounded number at a time, each for a bounded
// time, and nothing but a greeting is read of them.
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
class Door {
 public:
  static constexpr std::chrono::seconds kGreetWithin{2};
  static constexpr std::size_t kGuests = 64;  // More take the place of the oldest.

  explicit Door(Listener listener);

  // What poll() shall look at, and for how many milliseconds at most.
  void add_to(std::vector<pollfd>& ready) const;
  [[nodiscard]] int patience() const;

  struct Guest {
    std::unique_ptr<Link> link;
    Frame hello;
  };
  // What poll() said of that; returns those who have greeted.
  std::vector<Guest> look(std::span<const pollfd> ready);
  // Whoever is here or comes is sent away.
  void close();
  [[nodiscard]] std::size_t guests() const { return silent_.size(); }

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
