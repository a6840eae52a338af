// A c10d store as the board on which ranks of a shared-memory group meet.
#pragma once

#include <algorithm>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/shm/handover.h"

namespace lockstep::comm {

class StoreBoard : public shm::Board {
 public:
  explicit StoreBoard(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void post(const std::string& key, const std::string& text) override {
    store_->set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
  }
  std::string read(const std::string& key, Deadline deadline) override {
    // A store takes no time left for all the time there is.
    store_->wait({key}, std::max(deadline.remaining(), std::chrono::milliseconds(1)));
    const auto bytes = store_->get(key);
    return {bytes.begin(), bytes.end()};
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace lockstep::comm
