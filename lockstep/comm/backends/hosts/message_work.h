// A message between two ranks of a group over several hosts, as a c10d work.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "lockstep/comm/backends/hosts/links.h"

namespace lockstep::comm {

// A receive that timed out, in a wait or in its future, is complete and stays failed: the
// message, should it come, is for the next receive, and the group goes on. Any other wait that
// fails ends the group on all ranks. All throw PeerError that begins with the name of the call; in
// a fork of the process that started it, UsageError. Its future is completed by the group's
// callback thread, not by its network thread, and does not keep the group.
class MessageWork : public c10d::Work {
 public:
  struct Call {
    c10d::OpType type;
    std::string name;
    std::vector<at::Tensor> tensors;
    std::chrono::milliseconds timeout;  // Where a wait has none of its own.
    std::function<void()> finish;       // Puts the message in place; may be null.
  };
  MessageWork(std::shared_ptr<HostLinks> links, net::MessagePointer message, Call call);

  bool isCompleted() override;
  bool isSuccess() const override { return message_->is_done() && !message_->error(); }
  std::exception_ptr exception() const override { return message_->error(); }
  int sourceRank() const override { return message_->from(); }
  std::vector<at::Tensor> result() override { return arrival_->call.tensors; }
  void synchronize() override {}
  bool wait(std::chrono::milliseconds timeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  // Throws what became of it; ends the group, unless it is a receive that is only late.
  [[noreturn]] static void fail(HostLinks& links, const net::Message& message, const Call& call,
                                const std::exception_ptr& error);

  // What the callback thread needs, too.
  struct Arrival {
    explicit Arrival(Call the_call) : call(std::move(the_call)) {}
    void put_in_place();  // Once.

    Call call;
    std::mutex mutex;
  };

  std::shared_ptr<HostLinks> links_;
  net::MessagePointer message_;
  std::shared_ptr<Arrival> arrival_;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace lockstep::comm
