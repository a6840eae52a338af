// The collectives of HostsBackend that move tensors and compute nothing, and its messages.
#include "lockstep/comm/backends/hosts/backend.h"
#include "lockstep/comm/backends/hosts/message_work.h"
#include "lockstep/comm/backends/support/arguments.h"
#include "lockstep/comm/backends/support/tensor_lists.h"

namespace lockstep::comm {

WorkPointer HostsBackend::start_broadcast(Call call, const at::Tensor& tensor, int root) {
  return enqueue(std::move(call), [tensor, root, gives = root == getRank()](
                                      const HostCollectives& hosts, Deadline deadline) {
    const at::Tensor dense = without_gaps(tensor);
    hosts.broadcast(dense, root, deadline);
    if (!gives) {
      put_back({dense}, {tensor});
    }
  });
}

WorkPointer HostsBackend::start_all_gather(Call call, const TensorLists& outputs,
                                           const Tensors& inputs) {
  return enqueue(std::move(call),
                 [outputs, inputs](const HostCollectives& hosts, Deadline deadline) {
                   for (std::size_t i = 0; i < inputs.size(); ++i) {
                     const auto dense = without_gaps(outputs[i]);
                     hosts.all_gather(dense, without_gaps(inputs[i]), deadline);
                     put_back(dense, outputs[i]);
                   }
                 });
}

WorkPointer HostsBackend::start_all_gather_into(Call call, const Tensors& outputs,
                                                const Tensors& inputs) {
  return enqueue(std::move(call), [outputs, inputs, ranks = getSize()](const HostCollectives& hosts,
                                                                       Deadline deadline) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor dense = without_gaps(outputs[i]);
      hosts.all_gather(parts_of(dense, ranks, "all_gather"), without_gaps(inputs[i]), deadline);
      put_back({dense}, {outputs[i]});
    }
  });
}

WorkPointer HostsBackend::start_gather(Call call, const Tensors& outputs, const at::Tensor& input,
                                       int root) {
  return enqueue(std::move(call),
                 [outputs, input, root](const HostCollectives& hosts, Deadline deadline) {
                   const auto dense = without_gaps(outputs);
                   hosts.gather(dense, without_gaps(input), root, deadline);
                   put_back(dense, outputs);
                 });
}

WorkPointer HostsBackend::start_scatter(Call call, const at::Tensor& output, const Tensors& inputs,
                                        int root) {
  return enqueue(std::move(call),
                 [output, inputs, root](const HostCollectives& hosts, Deadline deadline) {
                   const at::Tensor dense = without_gaps(output);
                   hosts.scatter(dense, without_gaps(inputs), root, deadline);
                   put_back({dense}, {output});
                 });
}

WorkPointer HostsBackend::start_all_to_all(Call call, const Tensors& outputs,
                                           const Tensors& inputs) {
  return enqueue(std::move(call),
                 [outputs, inputs](const HostCollectives& hosts, Deadline deadline) {
                   const auto dense = without_gaps(outputs);
                   hosts.all_to_all(dense, without_gaps(inputs), deadline);
                   put_back(dense, outputs);
                 });
}

WorkPointer HostsBackend::start_send(Call call, const at::Tensor& tensor, int destination,
                                     int tag) {
  shared_->links.throw_if_broken(call.what);
  auto message = post_send(shared_->links.mailbox(), destination, static_cast<std::uint64_t>(tag),
                           without_gaps(tensor));
  return c10::make_intrusive<MessageWork>(
      std::shared_ptr<HostLinks>(shared_, &shared_->links), std::move(message),
      MessageWork::Call{call.type, call.what, {tensor}, call.timeout, nullptr});
}

WorkPointer HostsBackend::start_receive(Call call, const at::Tensor& tensor,
                                        std::optional<int> source, int tag) {
  shared_->links.throw_if_broken(call.what);
  const at::Tensor dense = without_gaps(tensor);
  auto message = post_receive(shared_->links.mailbox(), source.value_or(net::kAnySource),
                              static_cast<std::uint64_t>(tag), dense);
  return c10::make_intrusive<MessageWork>(
      std::shared_ptr<HostLinks>(shared_, &shared_->links), std::move(message),
      MessageWork::Call{
          call.type, call.what, {tensor}, call.timeout, copy_back({dense}, {tensor})});
}

}  // namespace lockstep::comm
