// A program outside lockstep's tree: it knows the installed headers and lockstep::lockstep, no
// more.
#include <lockstep/lockstep.h>

#include <cstdio>

int main() {
  auto world = lockstep::init_process_group();
  auto ones = torch::ones({4});
  world.all_reduce(ones).wait();

  const bool right = torch::equal(ones, torch::full({4}, static_cast<double>(world.size())));
  std::printf("rank %d of %d: %s\n", world.rank(), world.size(), right ? "right" : "wrong");
  return right ? 0 : 1;
}
