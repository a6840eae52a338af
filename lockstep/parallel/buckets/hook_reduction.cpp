#include "lockstep/parallel/buckets/hook_reduction.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/library_errors.h"
#include "lockstep/device/stream.h"
#include "lockstep/parallel/hooks/hook_error.h"

namespace lockstep::parallel {
namespace {

// Runs a part of the hook. Errors of its collectives come out as they are.
template <class Function>
auto run_hook(Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (comm::is_of_a_peer(error)) {
      throw;
    }
    throw HookError(comm::words_of(error), std::current_exception());
  } catch (...) {
    // Autograd's threads let no other exception through.
    throw HookError("an exception that is no std::exception", nullptr);
  }
}

// Nothing but wait() is asked of it.
class HookWork : public c10d::Work {
 public:
  HookWork(TensorFuture future, at::Tensor flat)
      : future_(std::move(future)),
        flat_(std::move(flat)),
        stream_(device::current_stream(flat_.device())) {}

  bool wait(std::chrono::milliseconds /*timeout*/) override {
    // The hook ran on a stream beside the current one.
    device::make_wait(device::current_stream(flat_.device()), stream_);
    const at::NoGradGuard no_grad;
    const auto result = run_hook([this] { return future_.wait(); });
    if (!result.defined() || result.numel() != flat_.numel()) {
      throw UsageError("a communication hook made " +
                       (result.defined() ? std::to_string(result.numel()) + " elements"
                                         : std::string("an undefined tensor")) +
                       " of a bucket, expected its " + std::to_string(flat_.numel()) +
                       " gradients; return a tensor like bucket.buffer()");
    }
    if (!result.is_same(flat_)) {
      flat_.copy_(result.view(flat_.sizes()));
    }
    return true;
  }

 private:
  TensorFuture future_;
  at::Tensor flat_;
  c10::Stream stream_;
};

}  // namespace

void HookReduction::copy_in(std::size_t /*i*/, const at::Tensor& place,
                            const at::Tensor& gradient) {
  place.copy_(gradient.detach());
}

void HookReduction::copy_all_in(const std::vector<at::Tensor>& places,
                                const std::vector<at::Tensor>& gradients) {
  at::_foreach_copy_(places, gradients);
}

Reduction::WorkPointer HookReduction::start(const at::Tensor& flat,
                                            const std::vector<at::Tensor>& /*places*/) {
  const at::NoGradGuard no_grad;
  GradBucket bucket(position_, flat, parameters_, strides_);
  auto future = run_hook([&] { return hook_(bucket); });
  return c10::make_intrusive<HookWork>(std::move(future), flat);
}

}  // namespace lockstep::parallel
