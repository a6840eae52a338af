// A program that speaks c10d and knows of lockstep nothing but one call: make_backend().
//
// Once per rank, with a file of no content or none yet that all ranks can reach:
//
//   build/bin/examples/plain_libtorch FILE RANK SIZE [BACKEND]
//
// With the backend mpi, mpirun starts them and its variables say who is who:
//
//   mpirun -n 2 sh -c 'plain_libtorch FILE $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_SIZE mpi'
#include <ATen/ops/full.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "lockstep/comm/make_backend.h"

// Nothing but the number: "2x" and "rank" are none.
static bool read_number(const char* text, int& number) {
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  return error == std::errc() && stop == end;
}

int main(int argc, char** argv) try {
  int rank = 0;
  int size = 0;
  if (argc < 4 || !read_number(argv[2], rank) || !read_number(argv[3], size)) {
    std::fprintf(stderr, "usage: plain_libtorch FILE RANK SIZE [BACKEND], RANK and SIZE numbers\n");
    return 2;
  }
  const auto store = c10::make_intrusive<c10d::FileStore>(argv[1], size);
  const auto backend =
      lockstep::make_backend(store, rank, size, {.name = argc > 4 ? argv[4] : "lockstep"});

  std::vector<at::Tensor> tensors{at::full({4}, rank + 1.0)};
  backend->allreduce(tensors)->wait();
  const auto sum = tensors[0][0].item<double>();
  backend->broadcast(tensors)->wait();
  backend->barrier()->wait();

  // The same backend behind c10d's own front, for code that takes a ProcessGroup.
  const auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(c10::kCPU, c10d::ProcessGroup::CUSTOM, backend);
  group->setDefaultBackend(c10d::ProcessGroup::CUSTOM);
  c10d::AllreduceOptions largest;
  largest.reduceOp = c10d::ReduceOp::MAX;
  tensors[0].fill_(rank);
  group->allreduce(tensors, largest)->wait();

  std::printf("rank %d of %d through %s: the sum is %g, the largest rank %g\n", rank, size,
              backend->getBackendName().c_str(), sum, tensors[0][0].item<double>());
} catch (const std::exception& error) {
  std::fprintf(stderr, "plain_libtorch: %s\n", error.what());
  return 1;
}
