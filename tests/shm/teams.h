// Runs a test body on all ranks of a team: as threads over one mapping, or as processes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/shm/collectives/collectives.h"
#include "lockstep/shm/peers/team.h"
#include "tests/support/ordinary_user.h"
#include "tests/support/soon.h"

namespace lockstep::shm::testing {

using lockstep::testing::become_ordinary_user;
using lockstep::testing::soon;

// Small buffers, so that small tensors take several chunks.
TeamOptions small_options();

using Body = std::function<void(Team&)>;

void on_threads(int size, const Body& body, const TeamOptions& options = small_options());

// Forks; an expectation that fails or an exception in a rank fails the test. A rank that was killed
// is no failure if `killed` names it.
void on_processes(int size, const Body& body, const TeamOptions& options = small_options(),
                  const std::vector<int>& killed = {});

// Texts by key in a folder of its own, which goes with it. Any user may post.
class FolderBoard : public Board {
 public:
  FolderBoard();
  ~FolderBoard() override;
  void post(const std::string& key, const std::string& text) override;
  std::string read(const std::string& key, Deadline deadline) override;

 private:
  [[nodiscard]] std::string path_of(const std::string& key) const;
  std::string folder_;
  int owner_;
};

// Values of rank `rank` that differ by rank and place and sum without rounding.
template <class T>
std::vector<T> pattern(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>((i * 7 + static_cast<std::size_t>(rank) * 13) % 11);
  }
  return values;
}

template <class T>
Tensor tensor_of(std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size()};
}
template <class T>
Input input_of(const std::vector<T>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)};
}
template <class T>
Output output_of(std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace lockstep::shm::testing
