#include "benchmarks/driver/step_result.h"

#include <cstdio>

#include "benchmarks/driver/result_text.h"
#include "benchmarks/driver/timed_run.h"
#include "lockstep/base/host.h"
#include "lockstep/base/memory.h"

namespace lockstep::bench {
namespace {

// DistributedDataParallel's contenders.
constexpr std::array kParallel{kOurs, kPytorch};

StepContender plain_of(StepContender contender) {
  return contender == kOurs ? kPlainCpp : kPlainPython;
}

void print_place(const StepRow& row) {
  const auto name = row.variant.empty() ? row.model : row.model + " " + row.variant;
  std::printf("%-22s %5d %5d", name.c_str(), row.batch_size, row.ranks);
}

void print_headings() {
  std::printf("%-22s %5s %5s", "model", "batch", "ranks");
  for (const auto& contender : kStepContenderNames) {
    std::printf(" %10s", contender.heading);
  }
}

std::string fixed(std::optional<double> value, int digits, const char* unit = "") {
  if (!value) {
    return "-";
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.*f%s", digits, *value, unit);
  return text;
}

std::string percent(std::optional<double> value) { return fixed(scaled(value, 100), 1, "%"); }

}  // namespace

std::optional<double> StepMeasured::seconds() const {
  return rounds.empty() ? std::nullopt : std::optional(median(rounds));
}

std::optional<double> StepMeasured::peak() const {
  return rounds.empty() ? std::nullopt : std::optional(static_cast<double>(peak_bytes));
}

std::optional<double> StepMeasured::optimizer() const {
  return rounds.empty() ? std::nullopt : std::optional(static_cast<double>(optimizer_bytes));
}

std::optional<double> StepRow::ratio(StepContender first, StepContender second) const {
  const auto& above = measured[first].rounds;
  const auto& below = measured[second].rounds;
  if (above.empty() || above.size() != below.size()) {
    return std::nullopt;
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < above.size(); ++i) {
    ratios.push_back(above[i] / below[i]);
  }
  return median(ratios);
}

std::optional<double> StepRow::hidden_median() const {
  return hidden.empty() ? std::nullopt : std::optional(median(hidden));
}

std::optional<double> StepRow::samples_per_second(StepContender contender) const {
  const auto seconds = measured[contender].seconds();
  return seconds ? std::optional(ranks * batch_size / *seconds) : std::nullopt;
}

std::optional<double> StepRow::efficiency(StepContender contender) const {
  return ratio(plain_of(contender), contender);
}

std::optional<double> StepRow::overhead(StepContender contender) const {
  const auto times = ratio(contender, plain_of(contender));
  return times ? std::optional(*times - 1) : std::nullopt;
}

void print_step_header(int rounds) {
  std::printf("training steps, ms, medians of %d interleaved rounds, %d cores, %s\n\n", rounds,
              usable_cores(), architecture().c_str());
  print_headings();
  std::printf(" %12s", "PyTorch/ours");
  for (const char* heading : {"effic.", "PyTorch's", "overhead", "PyTorch's"}) {
    std::printf(" %9s", heading);
  }
  std::printf("\n");
  std::fflush(stdout);
}

void print_step_row(const StepRow& row) {
  print_place(row);
  for (const auto& measured : row.measured) {
    std::printf(" %10s", fixed(scaled(measured.seconds(), 1e3), 3).c_str());
  }
  std::printf(" %12s", fixed(row.ratio(kPytorch, kOurs), 2).c_str());
  for (const StepContender contender : kParallel) {
    std::printf(" %9s", percent(row.efficiency(contender)).c_str());
  }
  for (const StepContender contender : kParallel) {
    std::printf(" %9s", percent(row.overhead(contender)).c_str());
  }
  std::printf("\n");
  std::fflush(stdout);
}

void print_step_memory(const std::vector<StepRow>& rows) {
  std::printf(
      "\npeak memory and the optimizer's state, MiB; what our ranks exchange; samples a "
      "second\n\n");
  print_headings();
  std::printf(" %9s %9s %12s %12s %8s %8s %11s %11s\n", "state", "PyTorch's", "bytes", "copied",
              "buckets", "hidden", "samples/s", "PyTorch's");
  for (const auto& row : rows) {
    print_place(row);
    for (const auto& measured : row.measured) {
      std::printf(" %10s", fixed(scaled(measured.peak(), 1.0 / (1 << 20)), 1).c_str());
    }
    for (const StepContender contender : kParallel) {
      const auto state = row.measured[contender].optimizer();
      std::printf(" %9s", fixed(scaled(state, 1.0 / (1 << 20)), 2).c_str());
    }
    std::printf(" %12s %12s %8lld %8s", size_text(static_cast<std::uint64_t>(row.bytes)).c_str(),
                size_text(static_cast<std::uint64_t>(row.copied)).c_str(),
                static_cast<long long>(row.buckets), percent(row.hidden_median()).c_str());
    for (const StepContender contender : kParallel) {
      std::printf(" %11s", fixed(row.samples_per_second(contender), 0).c_str());
    }
    std::printf("\n");
  }
}

void print_step_json(const StepRow& row) {
  nlohmann::json line = {{"bench", "step"},
                         {"model", row.model},
                         {"variant", row.variant},
                         {"device", row.device},
                         {"precision", row.precision},
                         {"cuda_graph", row.cuda_graph},
                         {"reduce_alone", row.reduce_alone},
                         {"ranks", row.ranks},
                         {"batch_size", row.batch_size},
                         {"cores", usable_cores()},
                         {"arch", architecture()},
                         {"pytorch_over_ours", as_json(row.ratio(kPytorch, kOurs))},
                         {"bytes_per_step", row.bytes},
                         {"copied_bytes_per_step", row.copied},
                         {"buckets", row.buckets},
                         {"hidden", as_json(row.hidden_median())}};
  for (const StepContender contender : kParallel) {
    line["efficiency"][kStepContenderNames[contender].name] = as_json(row.efficiency(contender));
    line["overhead"][kStepContenderNames[contender].name] = as_json(row.overhead(contender));
  }
  for (std::size_t i = 0; i < kStepContenders; ++i) {
    const auto& measured = row.measured[i];
    line["sides"][kStepContenderNames[i].name] = {
        {"median_s", as_json(measured.seconds())},
        {"rounds_s", measured.rounds},
        {"steps", measured.steps},
        {"samples_per_s", as_json(row.samples_per_second(static_cast<StepContender>(i)))},
        {"peak_bytes", as_json(measured.peak())},
        {"optimizer_bytes", as_json(measured.optimizer())},
        {"loss", as_json(measured.loss)}};
  }
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

}  // namespace lockstep::bench
