// A child that a rank forks beside its training, such as a worker of a loader.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/parallel/trial.h"

namespace lockstep {
namespace {

using testing::on_ranks;
using testing::Trial;

// Over shared memory, where the parent's gradients lie in pages that ranks share.
TEST(ForkedChild, CannotChangeTheGradientsOfItsParent) {
  on_ranks([](Group& world) {
    Trial trial(world);
    trial.steps(0, 3);
    const pid_t child = ::fork();
    if (child == 0) {
      bool written = true;
      for (const auto& weight : trial.wrapped().weights) {
        written = weight.grad().fill_(77).eq(77).all().item<bool>() && written;
      }
      ::_exit(written ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    trial.expect_averages(2);
    trial.steps(3, 5);
  });
}

}  // namespace
}  // namespace lockstep
