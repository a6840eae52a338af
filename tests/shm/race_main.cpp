// Collectives on threads over one mapping, for ThreadSanitizer to watch. Built twice: with the
// meeting as it is, where nothing must be reported, and with a relaxed store in it, where the race
// must be. Without the second, silence would prove nothing.
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include "lockstep/shm/collectives/collectives.h"

namespace lockstep::shm {
namespace {

constexpr int kRanks = 2;  // As many as run at the same time on the smallest machine.
constexpr int kRounds = 200;
constexpr Fold kSum{.reduction = {DType::kInt32, ReduceOp::kSum}};

struct Way {
  std::size_t count;
  bool in_arena;
};

void run(Team& team, const Way& way) {
  std::vector<std::int32_t> values(way.count);
  const auto piece = allocate(team.memory(), team.rank(), way.count * sizeof(std::int32_t));
  std::byte* data = way.in_arena ? piece.get() : reinterpret_cast<std::byte*>(values.data());
  for (int round = 0; round < kRounds; ++round) {
    std::memset(data, round % 100, way.count * sizeof(std::int32_t));
    all_reduce(team, {data, way.count}, kSum, Deadline::in(std::chrono::seconds(60)));
  }
}

int main_of(const std::string& name) {
  const std::map<std::string, Way> ways{
      {"small", {1, false}}, {"staged", {30000, false}}, {"in_place", {30000, true}}};
  const auto way = ways.find(name);
  if (way == ways.end()) {
    std::fprintf(stderr, "usage: shm_race small|staged|in_place\n");
    return 2;
  }
  const auto teams = Team::in_process(
      kRanks, {.staging_bytes = 4096, .arena_bytes = std::size_t{1} << 20, .notice = nullptr});
  std::vector<std::thread> threads;
  for (const auto& team : teams) {
    threads.emplace_back([&] { run(*team, way->second); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::shm

int main(int argc, char** argv) { return lockstep::shm::main_of(argc == 2 ? argv[1] : ""); }
