#include "lockstep/parallel/hooks/default_hooks.h"

namespace lockstep {
namespace {

TensorFuture average(const Group& group, const at::Tensor& tensor) {
  tensor.div_(group.size());  // First: a sum in half precision could overflow.
  return {group.all_reduce(tensor), tensor};
}

CommHook compress_hook(const Group& group, at::ScalarType type) {
  return [group, type](GradBucket& bucket) {
    const auto& buffer = bucket.buffer();
    return average(group, buffer.to(type)).then([buffer](const at::Tensor& sum) {
      return buffer.copy_(sum);
    });
  };
}

CommHook compress_wrapper(CommHook hook, at::ScalarType type) {
  return [hook = std::move(hook), type](GradBucket& bucket) {
    const auto buffer = bucket.buffer();
    bucket.set_buffer(buffer.to(type));
    return hook(bucket).then([buffer](const at::Tensor& value) { return buffer.copy_(value); });
  };
}

}  // namespace

CommHook allreduce_hook(const Group& group) {
  return [group](GradBucket& bucket) { return average(group, bucket.buffer()); };
}

CommHook fp16_compress_hook(const Group& group) { return compress_hook(group, at::kHalf); }
CommHook bf16_compress_hook(const Group& group) { return compress_hook(group, at::kBFloat16); }

CommHook fp16_compress_wrapper(CommHook hook) {
  return compress_wrapper(std::move(hook), at::kHalf);
}
CommHook bf16_compress_wrapper(CommHook hook) {
  return compress_wrapper(std::move(hook), at::kBFloat16);
}

CommHook noop_hook() {
  return [](GradBucket& bucket) { return TensorFuture(bucket.buffer()); };
}

}  // namespace lockstep
