// The collectives of the shm backend that move tensors and compute nothing.
#include "lockstep/comm/backends/shm/backend.h"

namespace lockstep::comm {

WorkPointer ShmBackend::start_broadcast(Call call, const at::Tensor& tensor, int root) {
  return enqueue(std::move(call), [tensor, root](shm::Team& team, Deadline deadline) {
    const bool gives = team.rank() == root;
    const Packed packed(tensor, gives ? Packed::Use::kRead : Packed::Use::kWrite);
    shm::broadcast(team, packed.tensor(), shm_dtype(tensor.scalar_type()), root, deadline);
    if (!gives) {
      packed.write_back();
    }
  });
}

WorkPointer ShmBackend::start_all_gather(Call call, const TensorLists& outputs,
                                         const Tensors& inputs) {
  return enqueue(std::move(call), [outputs, inputs](shm::Team& team, Deadline deadline) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto results = packed(outputs[i], Packed::Use::kWrite);
      shm::all_gather(team, outputs_of(results), Packed(inputs[i], Packed::Use::kRead).input(),
                      shm_dtype(inputs[i].scalar_type()), deadline);
      write_back(results);
    }
  });
}

WorkPointer ShmBackend::start_all_gather_into(Call call, const Tensors& outputs,
                                              const Tensors& inputs) {
  return enqueue(std::move(call), [outputs, inputs](shm::Team& team, Deadline deadline) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Packed result(outputs[i], Packed::Use::kWrite);
      const Packed input(inputs[i], Packed::Use::kRead);
      std::vector<shm::Output> parts;
      for (int rank = 0; rank < team.size(); ++rank) {
        parts.push_back(
            {result.data() + static_cast<std::size_t>(rank) * input.bytes(), input.bytes()});
      }
      shm::all_gather(team, parts, input.input(), shm_dtype(inputs[i].scalar_type()), deadline);
      result.write_back();
    }
  });
}

WorkPointer ShmBackend::start_gather(Call call, const Tensors& outputs, const at::Tensor& input,
                                     int root) {
  return enqueue(std::move(call), [outputs, input, root](shm::Team& team, Deadline deadline) {
    const auto results = packed(outputs, Packed::Use::kWrite);
    shm::gather(team, outputs_of(results), Packed(input, Packed::Use::kRead).input(),
                shm_dtype(input.scalar_type()), root, deadline);
    write_back(results);
  });
}

WorkPointer ShmBackend::start_scatter(Call call, const at::Tensor& output, const Tensors& inputs,
                                      int root) {
  return enqueue(std::move(call), [output, inputs, root](shm::Team& team, Deadline deadline) {
    const Packed result(output, Packed::Use::kWrite);
    const auto given = packed(inputs, Packed::Use::kRead);
    shm::scatter(team, result.output(), inputs_of(given), shm_dtype(output.scalar_type()), root,
                 deadline);
    result.write_back();
  });
}

WorkPointer ShmBackend::start_all_to_all(Call call, const Tensors& outputs, const Tensors& inputs) {
  return enqueue(std::move(call), [outputs, inputs](shm::Team& team, Deadline deadline) {
    const auto results = packed(outputs, Packed::Use::kWrite);
    const auto given = packed(inputs, Packed::Use::kRead);
    shm::all_to_all(team, outputs_of(results), inputs_of(given), shm_dtype(inputs[0].scalar_type()),
                    deadline);
    write_back(results);
  });
}

}  // namespace lockstep::comm
