#include "lockstep/cli/step_sides.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/bench.h"
#include "lockstep/cli/timed_run.h"

namespace lockstep::cli {
namespace {

// Relative. bfloat16 has 8 bits, and cuDNN chooses its algorithms by their speed in each process.
constexpr double kCpuTolerance = 1e-4;
constexpr double kGpuTolerance = 2e-2;

using Command = std::vector<std::string>;

bool is_plain(StepSide side) { return side == kPlainCpp || side == kPlainPython; }
bool is_python(StepSide side) { return side == kPytorch || side == kPlainPython; }

std::string backend_of(StepSide side, const StepSidesOptions& options) {
  if (is_plain(side)) {
    return "plain";
  }
  return side == kOurs ? options.backend : options.device == "cuda" ? "nccl" : "gloo";
}

// One launcher for both libraries: it is not what is measured here.
Command command_of(StepSide side, const StepSidesOptions& options) {
  Command command;
  if (!is_plain(side)) {
    command = {program_folder() / "lockstep", "run", "--nproc-per-node",
               std::to_string(options.ranks)};
  }
  if (is_python(side)) {
    command.insert(command.end(), {options.python, peer_program("step.py")});
  } else {
    command.push_back(program_folder() / "benchmarks/step_ranks");
  }
  command.insert(command.end(), {backend_of(side, options), "{orders}", options.model,
                                 std::to_string(options.batch_size), options.device});
  if (options.spoiled == kStepSideNames[side].name) {
    command.emplace_back("spoiled");
  }
  return command;
}

}  // namespace

StepSides::StepSides(const StepSidesOptions& options, int checked_steps) : device_(options.device) {
  for (std::size_t i = 0; i < kStepSides; ++i) {
    start(static_cast<StepSide>(i), options);
  }
  for (std::size_t i = 0; i < kStepSides; ++i) {
    for (const auto& answer : tell(jobs_[i], "check " + std::to_string(checked_steps))) {
      const auto json = nlohmann::json::parse(answer);
      missing_[i] = json.value("missing", "");
      losses_[i] = json.value("losses", std::vector<double>());
    }
  }
  const auto all = static_cast<std::size_t>(checked_steps);
  require_equal(kOurs, kPlainCpp, 1);
  require_equal(kOurs, kPytorch, all);
  require_equal(kPlainCpp, kPlainPython, all);
}

void StepSides::start(StepSide side, const StepSidesOptions& options) {
  if (is_python(side) && options.python.empty()) {
    missing_[side] = "there is no Python that has torch";
    return;
  }
  const int jobs = is_plain(side) ? options.ranks : 1;
  for (int n = 0; n < jobs; ++n) {
    jobs_[side].push_back(
        std::make_unique<RankGroup>(options.ranks / jobs, command_of(side, options)));
  }
}

std::vector<std::string> StepSides::tell(Jobs& jobs, const std::string& order) {
  for (const auto& job : jobs) {
    job->tell(order);
  }
  std::vector<std::string> answers;
  for (const auto& job : jobs) {
    answers.push_back(job->answer());
  }
  return answers;
}

void StepSides::require_equal(StepSide one, StepSide other, std::size_t steps) const {
  if (!missing_[one].empty() || !missing_[other].empty()) {
    return;
  }
  const double tolerance = device_ == "cuda" ? kGpuTolerance : kCpuTolerance;
  for (std::size_t i = 0; i < steps; ++i) {
    const double a = losses_[one].at(i);
    const double b = losses_[other].at(i);
    if (!(std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b)))) {
      throw Error("step: the loss of step " + std::to_string(i + 1) + " is " + std::to_string(a) +
                  " for '" + kStepSideNames[one].name + "' and " + std::to_string(b) + " for '" +
                  kStepSideNames[other].name +
                  "', expected the same: one of them does something else, so times mean nothing");
    }
  }
}

void StepSides::take_turn(StepSide side, const Turn& turn, StepRow& row) {
  const auto answers =
      tell(jobs_[side], "time " + std::to_string(turn.warm) + " " + std::to_string(turn.steps));
  auto& measured = row.measured[side];
  double sum = 0;
  for (const auto& answer : answers) {
    const auto json = nlohmann::json::parse(answer);
    sum += median(json.at("seconds"));
    measured.peak_bytes = std::max<std::int64_t>(measured.peak_bytes, json.at("peak_bytes"));
    if (!json.at("loss").is_number()) {
      jobs_[side].front()->reject("came to a loss that is no number: '" + answer + "'");
    }
    measured.loss = json.at("loss");
    if (side == kOurs) {
      row.bytes = json.at("bytes");
      row.copied = json.at("copied");
      row.buckets = json.at("buckets");
      row.hidden.push_back(json.at("hidden"));
    }
  }
  measured.steps = turn.steps;
  measured.rounds.push_back(sum / static_cast<double>(answers.size()));
}

void StepSides::finish() {
  for (const auto& jobs : jobs_) {
    for (const auto& job : jobs) {
      job->finish();
    }
  }
}

}  // namespace lockstep::cli
