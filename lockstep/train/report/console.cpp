#include "lockstep/train/report/console.h"

#include <array>
#include <cstdio>
#include <limits>
#include <utility>

#include "lockstep/base/memory.h"

namespace lockstep::train {
namespace {

constexpr int kAnyWidth = std::numeric_limits<int>::max();

std::string fixed(double number, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, number);
  return text.data();
}

}  // namespace

Console::Console(int fd, int epochs, const BatchPlan& batches, std::string unit, OutputLog* copy)
    : writer_(fd), copy_(copy), batches_(batches), unit_(std::move(unit)) {
  progress_.phase = "epoch";
  progress_.epochs = epochs;
  progress_.steps = batches.steps_per_epoch;
  progress_.unit = unit_ == "images" ? "img" : unit_;
}

void Console::keep(const std::string& line) {
  if (copy_ != nullptr) {
    copy_->write(line + "\n");
  }
}

void Console::say(const std::string& text) {
  writer_.say(text);
  keep(text);
}

void Console::show(const Position& position) {
  progress_.epoch = position.epoch + 1;
  progress_.step = position.step_in_epoch;
  const std::chrono::duration<double> taken = Clock::now() - begun_;
  const auto left =
      static_cast<double>(progress_.epochs * batches_.steps_per_epoch - position.step);
  if (steps_here_ > 0) {
    progress_.seconds_left = left * taken.count() / static_cast<double>(steps_here_);
  }
  writer_.show(progress_);
}

void Console::on_step(const Position& position) {
  ++steps_here_;
  if (writer_.is_terminal() && writer_.is_due()) {
    show(position);
  }
}

void Console::on_interval(const Interval& interval) {
  progress_.loss = interval.train.loss;
  progress_.top1 = interval.train.top1;
  progress_.lr = interval.lr;
  progress_.samples_per_second = interval.samples_per_second;
  progress_.data_wait = interval.data_wait;
  progress_.communication_wait = interval.communication_wait;
  progress_.gpu = interval.gpu;
  progress_.memory_bytes = resident_bytes();
  show(interval.position);
  keep(plain_line(progress_));
  if (!interval.slow_rank.empty()) {
    say(interval.slow_rank);
  }
}

void Console::on_epoch(const Epoch& epoch) {
  const auto number = std::to_string(epoch.position.epoch + 1);
  const auto epochs = std::to_string(progress_.epochs);
  const auto top1 = fixed(epoch.validation.top1, 2) + " %";
  const auto top5 = fixed(epoch.validation.top5, 2) + " %";
  const auto validation = fixed(epoch.validation.loss, 4);
  const auto rate = fixed(epoch.samples_per_second, 0) + " ";
  std::vector<LinePart> parts{
      {"epoch " + number + " of " + epochs + ": loss " + fixed(epoch.train.loss, 4), {}, 0},
      {"accuracy " + top1, "acc " + top1, 1},
      {"top-5 " + top5, "top5 " + top5, 4},
      {"validation loss " + validation, "val loss " + validation, 3}};
  if (epoch.samples_per_second > 0) {
    parts.push_back({rate + unit_ + "/s", rate + progress_.unit + "/s", 5});
  }
  if (epoch.is_best) {
    parts.push_back({"best", {}, 2});
  }
  const int width = writer_.is_terminal() ? writer_.line_width() : kAnyWidth;
  writer_.say(fitted_line(parts, width, ", "));
  keep(fitted_line(std::move(parts), kAnyWidth, ", "));
}

void Console::on_test(const Position& /*position*/, const Scores& test) {
  say("test: accuracy " + fixed(test.top1, 2) + " %, top-5 " + fixed(test.top5, 2) + " %, loss " +
      fixed(test.loss, 4) + " of " + std::to_string(test.samples) + " " + unit_);
}

std::vector<std::string> Console::warnings() const {
  std::vector<std::string> texts;
  for (const auto& [warning, count] : warnings_) {
    texts.push_back(count > 1 ? std::to_string(count) + " times: " + warning : warning);
  }
  return texts;
}

void Console::on_warning(const std::string& warning) {
  // The summary counts the others.
  if (++warnings_[warning] == 1) {
    say("WARNING: " + warning);
  }
}

}  // namespace lockstep::train
