// Kills a random rank at a random moment of a random collective, again and again.
//
//   shm_kills [KILLS] [RANKS] [SEED]
//
// Every survivor must get an error that names the victim; where there are three or more ranks the
// survivors then form a group, in the same processes, and their next all_reduce must be right.
// Prints one line with the times from kill to error; exit code 1 if anything went wrong.
#include <ATen/ops/full.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kMostRanks = 16;

double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// Written by the ranks, read by the parent.
struct Report {
  std::atomic<int> ready;
  std::atomic<double> killed_at;
  struct Rank {
    double error_after;
    bool named;
    bool formed_again;
    bool slow;  // Computed while the others found out; its own time says nothing.
    char text[400];
  } ranks[kMostRanks];
};

void survive(lockstep::Group& world, int victim, Report& report) {
  auto& mine = report.ranks[world.rank()];
  std::mt19937 random(static_cast<unsigned>(victim) + 17);  // The same collectives on all ranks.
  const auto placed = world.backend()->allocateTensor(1 << 20, at::TensorOptions(at::kFloat));
  ++report.ready;
  const bool slow = world.size() > 2 && world.rank() == (victim + 1) % world.size();
  try {
    while (true) {
      if (slow && report.killed_at > 0 && !mine.slow) {
        mine.slow = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      }
      const auto count = static_cast<std::int64_t>(1 << random() % 18);
      const auto tensor = random() % 2 == 0 ? at::full({count}, 1.0F) : placed.narrow(0, 0, count);
      switch (random() % 4) {
        case 0:
          world.all_reduce(tensor).wait();
          break;
        case 1:
          world.broadcast(tensor, static_cast<int>(random() % static_cast<unsigned>(world.size())))
              .wait();
          break;
        case 2: {
          const auto other = at::full({10}, 1.0F);
          auto first = world.all_reduce(tensor);
          world.all_reduce(other).wait();
          first.wait();
          break;
        }
        default:
          (void)world.all_gather_bytes("x");
      }
    }
  } catch (const lockstep::PeerError& error) {
    mine.error_after = now() - report.killed_at;
    const std::string text = error.what();
    mine.named = text.find("rank " + std::to_string(victim) + " (pid ") != std::string::npos;
    text.copy(mine.text, sizeof mine.text - 1);
  }
  if (world.size() < 3) {
    mine.formed_again = true;
    return;
  }
  std::vector<int> survivors;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank != victim) {
      survivors.push_back(rank);
    }
  }
  const auto group = world.new_group(survivors);
  const auto tensor = at::full({1000}, 1.0F);
  group.all_reduce(tensor).wait();
  mine.formed_again = tensor.sum().item<float>() == 1000.0F * static_cast<float>(group.size());
}

void run_rank(int rank, int ranks, int victim, const std::string& file, Report& report) {
  try {
    auto world = lockstep::init_process_group({.backend = "shm",
                                               .init_method = "file://" + file,
                                               .rank = rank,
                                               .world_size = ranks,
                                               .timeout = std::chrono::seconds(20)});
    survive(world, victim, report);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    std::_Exit(1);
  }
  std::_Exit(0);
}

// One job; the number of survivors that did not do as they should.
int kill_one(int ranks, std::mt19937& random, std::vector<double>& times) {
  auto* report = static_cast<Report*>(
      ::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
  std::string folder = (std::filesystem::temp_directory_path() / "lockstep-kills-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    throw std::runtime_error("no folder " + folder);
  }
  std::vector<pid_t> pids;
  for (int rank = 0; rank < ranks; ++rank) {
    pids.push_back(::fork());
    if (pids.back() == 0) {
      run_rank(rank, ranks, victim, folder + "/store", *report);
    }
  }
  const auto patience = Clock::now() + std::chrono::seconds(30);
  while (report->ready < ranks && Clock::now() < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
  report->killed_at = now();
  ::kill(pids[static_cast<std::size_t>(victim)], SIGKILL);
  int wrong = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& mine = report->ranks[rank];
    int status = 0;
    while (::waitpid(pids[static_cast<std::size_t>(rank)], &status, WNOHANG) == 0) {
      if (Clock::now() > patience) {
        std::fprintf(stderr, "rank %d hangs\n", rank);
        ::kill(pids[static_cast<std::size_t>(rank)], SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (rank == victim) {
      continue;
    }
    if (!mine.slow) {
      times.push_back(mine.error_after);
    }
    if (status != 0 || !mine.named || !mine.formed_again) {
      std::fprintf(stderr, "victim %d, rank %d: status %d, named %d, formed again %d: %s\n", victim,
                   rank, status, mine.named, mine.formed_again, mine.text);
      ++wrong;
    }
  }
  ::munmap(report, sizeof(Report));
  std::filesystem::remove_all(folder);
  return wrong;
}

// Segments of ours that any process still holds.
int segments_left() {
  int count = 0;
  std::error_code ignored;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    const auto folder = process.path() / "fd";
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      const auto target = std::filesystem::read_symlink(entry.path(), ignored).string();
      count += target.starts_with("/memfd:lockstep") ? 1 : 0;
    }
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  const int kills = argc > 1 ? std::atoi(argv[1]) : 20;
  const int ranks = argc > 2 ? std::atoi(argv[2]) : 4;
  const unsigned seed =
      argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : std::random_device{}();
  if (kills < 1 || ranks < 2 || ranks > kMostRanks) {
    std::fprintf(stderr, "usage: shm_kills [KILLS] [RANKS 2..%d] [SEED]\n", kMostRanks);
    return 2;
  }
  std::mt19937 random(seed);
  std::vector<double> times;
  const int before = segments_left();  // Other jobs of this machine have them.
  int wrong = 0;
  for (int i = 0; i < kills; ++i) {
    wrong += kill_one(ranks, random, times);
  }
  std::sort(times.begin(), times.end());
  const double p99 = times[times.size() * 99 / 100];
  const int left = segments_left() - before;
  std::printf(
      "%d kills at %d ranks (seed %u): %d wrong, %d segments left; kill to error: median %.0f "
      "ms, p99 %.0f ms, most %.0f ms\n",
      kills, ranks, seed, wrong, left, times[times.size() / 2] * 1e3, p99 * 1e3,
      times.back() * 1e3);
  return wrong == 0 && left == 0 && p99 < 1.0 ? 0 : 1;
}
