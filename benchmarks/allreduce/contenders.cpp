#include "benchmarks/allreduce/contenders.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "benchmarks/allreduce/job.h"
#include "lockstep/comm/backends/shm/store_board.h"
#include "lockstep/shm/collectives/collectives.h"

namespace lockstep::bench {
namespace {

auto sum_over(const Group& group) {
  return [ranks = group.size()](long operation, std::size_t element) {
    return pattern_sum(ranks, operation, element);
  };
}

Contender bare(const Group& group, std::size_t count) {
  comm::StoreBoard board(c10::make_intrusive<c10d::PrefixStore>("bare", group.store()));
  const auto timeout = group.timeout();
  const std::shared_ptr<shm::Team> team =
      shm::Team::join(group.rank(), group.size(), board, Deadline::in(timeout));
  const auto memory = shm::allocate(team->memory(), team->rank(), count * sizeof(float));
  auto* data = reinterpret_cast<float*>(memory.get());
  return {.name = "bare",
          .input = data,
          .output = data,
          .barrier = [team, timeout] { shm::barrier(*team, Deadline::in(timeout)); },
          .operation =
              [team, timeout, memory](std::size_t elements) {
                return [team, timeout, tensor = shm::Tensor{memory.get(), elements}] {
                  shm::all_reduce(*team, tensor, {}, Deadline::in(timeout));
                };
              },
          .expected = sum_over(group)};
}

Contender through_c10d(const std::string& name, const Group& group, const at::Tensor& tensor) {
  const auto backend = group.backend();
  auto* data = tensor.data_ptr<float>();
  return {
      .name = name,
      .input = data,
      .output = data,
      .barrier = [backend] { backend->barrier()->wait(); },
      .operation =
          [backend, tensor](std::size_t elements) {
            std::vector<at::Tensor> tensors{tensor.narrow(0, 0, static_cast<int64_t>(elements))};
            return [backend, tensors]() mutable { backend->allreduce(tensors)->wait(); };
          },
      .expected = sum_over(group)};
}

Contender copy(const Group& group, const at::Tensor& from, const at::Tensor& to) {
  Contender contender = through_c10d("copy", group, from);
  contender.output = to.data_ptr<float>();
  contender.operation = [from, to](std::size_t elements) {
    return [from, to, elements] {
      std::memcpy(to.data_ptr(), from.data_ptr(), elements * sizeof(float));
    };
  };
  contender.expected = [rank = group.rank()](long operation, std::size_t element) {
    return pattern(rank, operation, element);
  };
  contender.is_limit = true;
  return contender;
}

Contender rewrite(const Group& group, const at::Tensor& tensor) {
  Contender contender = through_c10d("rewrite", group, tensor);
  contender.operation = [data = contender.input](std::size_t elements) {
    return [data, elements] {
      for (std::size_t i = 0; i < elements; ++i) {
        data[i] = -data[i];
      }
    };
  };
  contender.expected = [rank = group.rank()](long operation, std::size_t element) {
    return -pattern(rank, operation, element);
  };
  contender.is_limit = true;
  return contender;
}

}  // namespace

std::vector<Contender> contenders_of(const Group& group, const std::string& backend,
                                     std::size_t count) {
  const auto size = static_cast<int64_t>(count);
  const auto ordinary = at::empty({size}, at::kFloat);
  if (backend != "shm") {
    return {through_c10d(backend, group, ordinary)};
  }
  const auto placed = group.backend()->allocateTensor(size, at::kFloat);
  return {bare(group, count), through_c10d("in_place", group, placed),
          through_c10d("staged", group, ordinary),
          copy(group, ordinary, at::empty({size}, at::kFloat)), rewrite(group, ordinary)};
}

}  // namespace lockstep::bench
