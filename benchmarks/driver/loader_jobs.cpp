#include "benchmarks/driver/loader_jobs.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "benchmarks/driver/bench.h"
#include "benchmarks/driver/timed_run.h"
#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

std::string name_of(const LoaderContender& contender) {
  return (contender.ours ? "ours with " : "PyTorch with ") +
         (contender.workers < 0 ? "automatic" : std::to_string(contender.workers)) + " workers";
}

void require_same_sum(const std::vector<LoaderContender>& contenders) {
  for (const auto& one : contenders) {
    for (const auto& other : contenders) {
      const bool comparable = one.row == other.row && one.missing.empty() && other.missing.empty();
      if (comparable && (one.sum != other.sum || one.samples != other.samples)) {
        throw Error("loader: in row '" + one.row + "' " + name_of(one) + " came to " +
                    std::to_string(one.samples) + " samples and the sum " +
                    std::to_string(one.sum) + ", " + name_of(other) + " to " +
                    std::to_string(other.samples) + " and " + std::to_string(other.sum) +
                    ", expected the same: one of them does something else, so times mean nothing");
      }
    }
  }
}

// With what both sides are told.
std::vector<std::string> command_of(std::vector<std::string> program, const LoaderWork& work) {
  program.insert(program.end(), {"{orders}", work.photos, work.files, work.large,
                                 std::to_string(work.shortest_turn)});
  return program;
}

std::vector<std::string> our_command(const LoaderWork& work) {
  return command_of({program_folder() / "benchmarks/loader_job", "orders"}, work);
}

nlohmann::json asked(RankGroup& job, const std::string& order) {
  job.tell(order);
  return nlohmann::json::parse(job.answer());
}

}  // namespace

std::optional<double> LoaderContender::median_seconds() const {
  return seconds.empty() ? std::nullopt : std::optional(median(seconds));
}

LoaderJobs::LoaderJobs(const LoaderWork& work, const std::string& python)
    : work_(work), ours_(std::make_unique<RankGroup>(1, our_command(work))) {
  if (!python.empty()) {
    peer_ = std::make_unique<RankGroup>(1, command_of({python, peer_program("loader.py")}, work));
  }
}

void LoaderJobs::take_turn(LoaderContender& contender) {
  RankGroup* job = contender.ours ? ours_.get() : peer_.get();
  if (job == nullptr) {
    contender.missing = "there is no Python that has torch";
    return;
  }
  const auto answer = asked(*job, contender.row + " " + std::to_string(contender.workers));
  contender.missing = answer.value("missing", "");
  if (contender.missing.empty()) {
    contender.seconds.push_back(answer.at("seconds"));
    contender.samples = answer.at("samples");
    contender.sum = answer.at("sum");
  }
}

void LoaderJobs::take_turns(std::vector<LoaderContender>& contenders, int rounds) {
  for (int round = 0; round <= rounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      auto& contender = contenders[round % 2 == 0 ? i : contenders.size() - 1 - i];
      if (!contender.missing.empty()) {
        continue;
      }
      take_turn(contender);
      if (round == 0) {
        contender.seconds.clear();
      }
    }
    require_same_sum(contenders);
  }
}

LoaderDecoder LoaderJobs::decoder() {
  // libjpeg-turbo does not tell whether it was built with SIMD, but leaves it out when asked to.
  auto without_simd = our_command(work_);
  without_simd.insert(without_simd.begin(), {"/usr/bin/env", "JSIMD_FORCENONE=1"});
  RankGroup slow(1, without_simd);
  LoaderDecoder decoder;
  double with = std::numeric_limits<double>::infinity();
  double without = with;
  for (int turn = 0; turn < 3; ++turn) {  // The best of each: one that was disturbed says nothing.
    const auto answer = asked(*ours_, "decode 0");
    decoder.library = answer.at("library");
    with = std::min(with, answer.at("seconds").get<double>());
    without = std::min(without, asked(slow, "decode 0").at("seconds").get<double>());
  }
  slow.finish();
  decoder.simd_times_as_fast = without / with;
  return decoder;
}

LoaderConsumer LoaderJobs::consumer(const std::string& row) {
  const auto answer = asked(*ours_, row + " -1");
  const double seconds = answer.at("seconds");
  return {.rate = answer.at("rate"),
          .seconds = seconds,
          .samples = answer.at("samples"),
          .data_wait = answer.at("wait").get<double>() / seconds};
}

void LoaderJobs::finish() {
  ours_->finish();
  if (peer_) {
    peer_->finish();
  }
}

}  // namespace lockstep::bench
