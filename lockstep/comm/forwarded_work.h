// One of Gloo's works in a group over several hosts, whose errors name a host.
#pragma once

#include <memory>
#include <string>

#include "lockstep/comm/host_links.h"

namespace lockstep::comm {

// A wait that fails ends the group on all ranks; one whose own timeout is over leaves a collective
// and the group as they are. (Gloo ends a message that was waited for in vain, and so the group.)
// All throw PeerError that begins with `what`.
class ForwardedWork : public c10d::Work {
 public:
  ForwardedWork(std::shared_ptr<HostLinks> links, c10::intrusive_ptr<c10d::Work> work,
                std::string what);

  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  int sourceRank() const override { return work_->sourceRank(); }
  std::vector<at::Tensor> result() override { return work_->result(); }
  void synchronize() override { work_->synchronize(); }
  void abort() override { work_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return work_->getFuture(); }
  bool wait(std::chrono::milliseconds timeout) override;

 private:
  std::shared_ptr<HostLinks> links_;
  c10::intrusive_ptr<c10d::Work> work_;
  std::string what_;
};

}  // namespace lockstep::comm
