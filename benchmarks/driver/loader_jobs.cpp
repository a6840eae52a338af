#include "benchmarks/driver/loader_jobs.h"

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

}  // namespace

std::optional<double> LoaderContender::median_seconds() const {
  return seconds.empty() ? std::nullopt : std::optional(median(seconds));
}

LoaderJobs::LoaderJobs(const LoaderFolders& folders, const std::string& python)
    : ours_(std::make_unique<RankGroup>(
          1, std::vector<std::string>{program_folder() / "benchmarks/loader_job", "orders",
                                      "{orders}", folders.photos, folders.files})) {
  if (!python.empty()) {
    peer_ = std::make_unique<RankGroup>(
        1, std::vector<std::string>{python, peer_program("loader.py"), "{orders}", folders.photos,
                                    folders.files});
  }
}

void LoaderJobs::take_turn(LoaderContender& contender) {
  RankGroup* job = contender.ours ? ours_.get() : peer_.get();
  if (job == nullptr) {
    contender.missing = "there is no Python that has torch";
    return;
  }
  job->tell(contender.row + " " + std::to_string(contender.workers));
  const auto answer = nlohmann::json::parse(job->answer());
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

void LoaderJobs::finish() {
  ours_->finish();
  if (peer_) {
    peer_->finish();
  }
}

}  // namespace lockstep::bench
