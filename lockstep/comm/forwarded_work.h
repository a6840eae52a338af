// One of Gloo's messages in a group over several hosts, whose errors name a host.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "lockstep/comm/host_links.h"

namespace lockstep::comm {

// A wait that fails ends the group on all ranks, also one whose own timeout is over: Gloo ends a
// message that was waited for in vain. All throw PeerError that begins with `what`; in a fork of
// the process that started it, UsageError.
class ForwardedWork : public c10d::Work {
 public:
  // `finish`, which may be null, puts the message in place: once, when it has come.
  ForwardedWork(std::shared_ptr<HostLinks> links, c10::intrusive_ptr<c10d::Work> work,
                std::string what, std::vector<at::Tensor> tensors,
                std::function<void()> finish = nullptr);
  ~ForwardedWork() override;
  ForwardedWork(const ForwardedWork&) = delete;
  ForwardedWork& operator=(const ForwardedWork&) = delete;

  bool isCompleted() override;
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  int sourceRank() const override { return work_->sourceRank(); }
  std::vector<at::Tensor> result() override { return tensors_; }
  void synchronize() override { work_->synchronize(); }
  void abort() override { work_->abort(); }
  bool wait(std::chrono::milliseconds timeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void put_in_place();

  std::shared_ptr<HostLinks> links_;
  c10::intrusive_ptr<c10d::Work> work_;
  std::string what_;
  std::vector<at::Tensor> tensors_;
  std::mutex mutex_;
  std::function<void()> finish_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace lockstep::comm
