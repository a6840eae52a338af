// Ranks are killed in the middle of an epoch and started again, with as many or other ranks: the
// order of all samples must be that of an undisturbed run.
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <sstream>

#include "lockstep/base/deadline.h"
#include "lockstep/data/datasets/tensor_dataset.h"
#include "lockstep/data/loader/data_loader.h"
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data::kill_and_resume {
namespace {

constexpr std::int64_t kMostRanks = 3;
constexpr std::int64_t kEpochs = 2;

// The ranks of a run wait for each other after each step, as training does.
struct Shared {
  std::array<std::atomic<std::int64_t>, kMostRanks> done{};      // Steps of each rank.
  std::atomic<std::int64_t> saved = 0;                           // Steps whose state is on disk.
  std::int64_t most = std::numeric_limits<std::int64_t>::max();  // Before it is killed.
};

class SharedMemory {
 public:
  SharedMemory()
      : shared_(new(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared) {}
  ~SharedMemory() { ::munmap(shared_, sizeof(Shared)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  Shared* operator->() const { return shared_; }

 private:
  Shared* shared_;
};

struct Job {
  std::int64_t dataset_size = 0;
  std::int64_t global_batch = 0;
  std::uint64_t seed = 0;
};

template <class Condition>
void wait_until(const Condition& condition) {
  const auto deadline = Deadline::in(std::chrono::seconds(60));
  while (!condition()) {
    if (deadline.passed()) {
      ::_exit(9);
    }
    ::sched_yield();
  }
}

SamplerPosition read_state(const test::TemporaryFolder& folder) {
  SamplerPosition state;
  std::ifstream(folder.file("state")) >> state.seed >> state.epoch >> state.consumed;
  return state;
}

void write_state(const test::TemporaryFolder& folder, const SamplerPosition& state) {
  std::ofstream(folder.file("state.new"))
      << state.seed << ' ' << state.epoch << ' ' << state.consumed << std::flush;
  std::filesystem::rename(folder.file("state.new"), folder.file("state"));
}

// A rank's program. For each step it writes a line: the position behind the step, and its samples.
int run_rank(const Job& job, std::int64_t ranks, std::int64_t rank,
             const test::TemporaryFolder& folder, const SharedMemory& shared) {
  DataLoader loader(
      TensorDataset(at::arange(job.dataset_size, at::kLong)),
      {.batch_size = job.global_batch / ranks,
       .sampler = DistributedSampler(job.dataset_size, ranks, rank, {.seed = job.seed}),
       .num_workers = 2});
  if (std::filesystem::exists(folder.file("state"))) {
    loader.load_state_dict(read_state(folder));
  }
  std::ofstream log(folder.file("log." + std::to_string(rank)));
  for (std::int64_t step = 1;;) {
    for (auto& [samples, none] : loader) {
      const SamplerPosition state = loader.state_dict();
      std::ostringstream line;
      line << state.epoch << ' ' << state.consumed;
      for (std::int64_t i = 0; i < samples.size(0); ++i) {
        line << ' ' << samples[i].item<std::int64_t>();
      }
      log << line.str() << std::endl;
      shared->done[static_cast<std::size_t>(rank)] = step;
      if (rank == 0) {
        wait_until([&] {
          return std::all_of(shared->done.begin(), shared->done.begin() + ranks,
                             [&](const auto& done) { return done >= step; });
        });
        write_state(folder, state);
        shared->saved = step;
      }
      wait_until([&] { return shared->saved >= step && step < shared->most; });
      ++step;
    }
    if (loader.state_dict().epoch + 1 == kEpochs) {
      return 0;
    }
  }
}

// Appends the samples of all steps that the saved state has, as all ranks together see them.
void append_order(const test::TemporaryFolder& folder, std::int64_t ranks,
                  std::vector<std::int64_t>& order) {
  const SamplerPosition state = read_state(folder);
  std::vector<std::ifstream> logs;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    logs.emplace_back(folder.file("log." + std::to_string(rank)));
  }
  for (;;) {
    std::vector<std::vector<std::int64_t>> step;
    for (auto& log : logs) {
      std::string line;
      if (!std::getline(log, line)) {
        return;
      }
      std::istringstream fields(line);
      SamplerPosition behind;
      fields >> behind.epoch >> behind.consumed;
      if (std::pair(behind.epoch, behind.consumed) > std::pair(state.epoch, state.consumed)) {
        return;  // Done, but not saved: the next run does it again.
      }
      step.emplace_back(std::istream_iterator<std::int64_t>(fields),
                        std::istream_iterator<std::int64_t>());
    }
    for (std::size_t i = 0; i < step.front().size(); ++i) {
      for (const auto& of_rank : step) {
        order.push_back(of_rank.at(i));
      }
    }
  }
}

// Runs until the end, or until `steps` steps are saved and everybody is killed.
void run(const Job& job, std::int64_t ranks, std::int64_t steps,
         const test::TemporaryFolder& folder, std::vector<std::int64_t>& order) {
  const SharedMemory shared;
  const bool killed = steps > 0;
  if (killed) {
    shared->most = steps + 2;  // Else it could be over before it is killed.
  }
  std::vector<pid_t> pids;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    pids.push_back(
        test::fork_child([&, rank] { return run_rank(job, ranks, rank, folder, shared); }));
  }
  if (killed) {
    wait_until([&] { return shared->saved >= steps; });
    for (const pid_t pid : pids) {
      ::kill(pid, SIGKILL);
    }
  }
  for (const pid_t pid : pids) {
    const int status = test::wait_for(pid);
    if (killed) {
      ASSERT_TRUE(WIFSIGNALED(status)) << "it was over before it was killed";
    } else {
      ASSERT_EQ(status, 0);
    }
  }
  append_order(folder, ranks, order);
}

std::vector<std::int64_t> undisturbed(const Job& job, std::int64_t ranks) {
  const test::TemporaryFolder folder;
  std::vector<std::int64_t> order;
  run(job, ranks, 0, folder, order);
  return order;
}

// Each part but the last is killed, the whole within the first epoch.
std::vector<std::int64_t> disturbed(const Job& job, const std::vector<std::int64_t>& parts,
                                    std::mt19937& random) {
  const test::TemporaryFolder folder;
  std::vector<std::int64_t> order;
  const std::int64_t steps = job.dataset_size / job.global_batch;
  const std::int64_t most = (steps - 2) / static_cast<std::int64_t>(parts.size());
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const bool last = part + 1 == parts.size();
    const std::int64_t kill_at = 1 + static_cast<std::int64_t>(random()) % most;
    run(job, parts[part], last ? 0 : kill_at, folder, order);
  }
  return order;
}

void expect_undisturbed(const Job& job, const std::vector<std::int64_t>& parts, int times) {
  std::mt19937 random(static_cast<unsigned>(job.seed));
  const auto expected = undisturbed(job, parts.back());
  ASSERT_GE(expected.size(), static_cast<std::size_t>(kEpochs * job.dataset_size));
  for (int i = 0; i < times; ++i) {
    ASSERT_EQ(disturbed(job, parts, random), expected) << "in round " << i;
  }
}

// 25 + 25 + 25 + 2 * 13 kills.
TEST(KilledAndResumed, OneRankGoesOnWithTheSameOrder) {
  expect_undisturbed({.dataset_size = 131, .global_batch = 6, .seed = 1}, {1, 1}, 25);
}

TEST(KilledAndResumed, TwoRanksGoOnWithTheSameOrder) {
  expect_undisturbed({.dataset_size = 131, .global_batch = 6, .seed = 2}, {2, 2}, 25);
}

TEST(KilledAndResumed, ThreeRanksGoOnWithTheSameOrder) {
  expect_undisturbed({.dataset_size = 131, .global_batch = 6, .seed = 3}, {3, 3}, 25);
}

TEST(KilledAndResumed, TwoThenThreeThenOneRankGoOnWithTheSameOrder) {
  expect_undisturbed({.dataset_size = 131, .global_batch = 6, .seed = 4}, {2, 3, 1}, 13);
}

}  // namespace
}  // namespace lockstep::data::kill_and_resume
