// A c10d store as the board on which ranks of a shared-memory group meet.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/shm/peers/segment_exchange.h"

namespace lockstep::comm {

class StoreBoard : public shm::Board {
 public:
  explicit StoreBoard(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void post(const std::string& key, const std::string& text) override {
    store_->set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
  }
  std::string read(const std::string& key, Deadline deadline) override {
    store_->wait({key}, deadline.as_timeout());
    const auto bytes = store_->get(key);
    return {bytes.begin(), bytes.end()};
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace lockstep::comm
