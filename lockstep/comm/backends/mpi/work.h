// An operation of MPI as a c10d work; private to comm.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "lockstep/comm/backends/mpi/engine.h"

namespace lockstep::comm {

// In a fork of the process that started it, throws UsageError, unless it was done by then.
class MpiWork : public c10d::Work {
 public:
  MpiWork(MpiEngine& engine, std::shared_ptr<MpiOperation> operation, int rank, c10d::OpType type,
          std::vector<at::Tensor> outputs)
      : Work(rank, type),
        engine_(engine),
        operation_(std::move(operation)),
        outputs_(std::move(outputs)) {}

  bool isCompleted() override;
  bool isSuccess() const override { return operation_->is_done() && !operation_->error(); }
  std::exception_ptr exception() const override { return operation_->error(); }
  // With a timeout other than kNoTimeout, throws PeerError when that time is over. A collective
  // then goes on; a message is given up.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override {}
  std::vector<at::Tensor> result() override { return outputs_; }
  int sourceRank() const override { return operation_->status.MPI_SOURCE; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  MpiEngine& engine_;
  std::shared_ptr<MpiOperation> operation_;
  std::vector<at::Tensor> outputs_;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace lockstep::comm
