#include "benchmarks/driver/step_jobs.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "benchmarks/driver/bench.h"
#include "benchmarks/driver/timed_run.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"

namespace lockstep::bench {
namespace {

// Relative. bfloat16 has 8 bits, and cuDNN chooses its algorithms by their speed in each process.
constexpr double kCpuTolerance = 1e-4;
constexpr double kGpuTolerance = 2e-2;

using Command = std::vector<std::string>;

bool is_plain(StepContender contender) {
  return contender == kPlainCpp || contender == kPlainPython;
}
bool is_python(StepContender contender) {
  return contender == kPytorch || contender == kPlainPython;
}

// One process has all replicas.
bool is_data_parallel(StepContender contender, const StepJobsOptions& options) {
  return contender == kOurs && options.variant == "data_parallel";
}

std::string backend_of(StepContender contender, const StepJobsOptions& options) {
  if (is_plain(contender) || is_data_parallel(contender, options)) {
    return "plain";
  }
  return contender == kOurs ? options.backend : options.device == "cuda" ? "nccl" : "gloo";
}

// One launcher for both libraries: it is not what is measured here.
Command command_of(StepContender contender, const std::string& backend,
                   const StepJobsOptions& options) {
  Command command;
  if (!is_plain(contender) && !is_data_parallel(contender, options)) {
    command = {program_folder() / "lockstep", "run", "--nproc-per-node",
               std::to_string(options.ranks)};
  }
  if (is_python(contender)) {
    command.insert(command.end(), {options.python, peer_program("step.py")});
  } else {
    command.push_back(program_folder() / "benchmarks/step_ranks");
  }
  command.insert(command.end(), {backend, "{orders}", options.model,
                                 std::to_string(options.batch_size), options.device});
  if (options.device == "cuda") {
    command.push_back(options.precision);
  }
  if (options.cuda_graph && !is_python(contender)) {
    command.emplace_back("cuda-graph");
  }
  if (options.reduce_alone && contender == kOurs) {
    command.emplace_back("reduce-alone");
  }
  if (is_data_parallel(contender, options)) {
    command.emplace_back("replicas=" + std::to_string(options.ranks));
  }
  if (options.variant == "zero" && !is_plain(contender)) {
    command.push_back(options.variant);
  }
  if (options.variant == "in_backward" && contender == kOurs) {
    command.push_back(options.variant);
  }
  return command;
}

Command spoiled_if_asked(Command command, const std::string& name, const std::string& spoiled) {
  if (name == spoiled) {
    command.emplace_back("spoiled");
  }
  return command;
}

// The losses of one contender's first steps, by the name that an error gives it.
struct Losses {
  std::string name;
  std::vector<double> values;
};

// Gloo adds along a ring and shared memory by rank: with more than two ranks the sums differ in
// their last bits, and after some steps of ResNet-18 the losses by more than the tolerance.
bool adds_in_another_order(const StepJobsOptions& options) {
  return options.device == "cpu" && options.ranks > 2 && options.backend != "gloo" &&
         options.backend != "barrier";
}

// A job that is there for its losses alone.
Losses losses_of(const std::string& name, StepContender contender, const std::string& backend,
                 const StepJobsOptions& options, int steps) {
  RankGroup job(options.ranks,
                spoiled_if_asked(command_of(contender, backend, options), name, options.spoiled));
  job.tell("check " + std::to_string(steps));
  const auto json = nlohmann::json::parse(job.answer());
  job.finish();
  return {name, json.at("losses")};
}

void require_equal(const Losses& one, const Losses& other, std::size_t steps,
                   const std::string& device) {
  const double tolerance = device == "cuda" ? kGpuTolerance : kCpuTolerance;
  for (std::size_t i = 0; i < steps; ++i) {
    const double a = one.values.at(i);
    const double b = other.values.at(i);
    if (!(std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b)))) {
      throw Error("step: the loss of step " + std::to_string(i + 1) + " is " + std::to_string(a) +
                  " for '" + one.name + "' and " + std::to_string(b) + " for '" + other.name +
                  "', expected the same: one of them does something else, so times mean nothing");
    }
  }
}

}  // namespace

StepJobs::StepJobs(const StepJobsOptions& options, int checked_steps) {
  for (std::size_t i = 0; i < kStepContenders; ++i) {
    start(static_cast<StepContender>(i), options);
  }
  for (std::size_t i = 0; i < kStepContenders; ++i) {
    for (const auto& answer : tell(jobs_[i], "check " + std::to_string(checked_steps))) {
      const auto json = nlohmann::json::parse(answer);
      missing_[i] = json.value("missing", "");
      losses_[i] = json.value("losses", std::vector<double>());
    }
  }
  const auto named = [&](StepContender contender) {
    return Losses{kStepContenderNames[contender].name, losses_[contender]};
  };
  require_equal(named(kOurs), named(kPlainCpp), 1, options.device);
  if (missing_[kPytorch].empty()) {
    compare_with_pytorch(options, checked_steps);
    require_equal(named(kPlainCpp), named(kPlainPython), static_cast<std::size_t>(checked_steps),
                  options.device);
  }
}

void StepJobs::compare_with_pytorch(const StepJobsOptions& options, int checked_steps) const {
  // Ranks that only wait for each other average nothing: they agree before the first update.
  const auto all = static_cast<std::size_t>(options.backend == "barrier" ? 1 : checked_steps);
  const Losses ours{kStepContenderNames[kOurs].name, losses_[kOurs]};
  const Losses pytorch{kStepContenderNames[kPytorch].name, losses_[kPytorch]};
  if (!adds_in_another_order(options)) {
    require_equal(ours, pytorch, all, options.device);
    return;
  }
  require_equal(losses_of("ours_over_gloo", kOurs, "gloo", options, checked_steps), pytorch, all,
                options.device);
  require_equal(ours, losses_of("pytorch_by_rank", kPytorch, "rank_order", options, checked_steps),
                all, options.device);
}

void StepJobs::start(StepContender contender, const StepJobsOptions& options) {
  if (is_python(contender) && options.python.empty()) {
    missing_[contender] = "there is no Python that has torch";
    return;
  }
  const int jobs = is_plain(contender) ? options.ranks : 1;
  const int ranks = is_data_parallel(contender, options) ? 1 : options.ranks / jobs;
  for (int n = 0; n < jobs; ++n) {
    jobs_[contender].push_back(std::make_unique<RankGroup>(
        ranks, spoiled_if_asked(command_of(contender, backend_of(contender, options), options),
                                kStepContenderNames[contender].name, options.spoiled)));
  }
}

std::vector<std::string> StepJobs::tell(Jobs& jobs, const std::string& order) {
  for (const auto& job : jobs) {
    job->tell(order);
  }
  std::vector<std::string> answers;
  for (const auto& job : jobs) {
    answers.push_back(job->answer());
  }
  return answers;
}

void StepJobs::take_turn(StepContender contender, const Turn& turn, StepRow& row) {
  const auto answers = tell(jobs_[contender],
                            "time " + std::to_string(turn.warm) + " " + std::to_string(turn.steps));
  auto& measured = row.measured[contender];
  double sum = 0;
  for (const auto& answer : answers) {
    const auto json = nlohmann::json::parse(answer);
    sum += median(json.at("seconds"));
    measured.peak_bytes = std::max<std::int64_t>(measured.peak_bytes, json.at("peak_bytes"));
    measured.optimizer_bytes = json.at("optimizer_bytes");
    if (!json.at("loss").is_number()) {
      jobs_[contender].front()->reject("came to a loss that is no number: '" + answer + "'");
    }
    measured.loss = json.at("loss");
    if (contender == kOurs && json.contains("bytes")) {
      row.bytes = json.at("bytes");
      row.copied = json.at("copied");
      row.buckets = json.at("buckets");
      row.hidden.push_back(json.at("hidden"));
    }
  }
  measured.steps = turn.steps;
  measured.rounds.push_back(sum / static_cast<double>(answers.size()));
}

void StepJobs::finish() {
  for (const auto& jobs : jobs_) {
    for (const auto& job : jobs) {
      job->finish();
    }
  }
}

}  // namespace lockstep::bench
