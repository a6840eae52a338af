#include "lockstep/train/report/interval.h"

#include <cstring>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/train/run/slow_rank.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kMostRows = 16;  // In a table that people read.

std::string packed(const IntervalPart& part) {
  std::vector<double> numbers(part.sums.begin(), part.sums.end());
  numbers.insert(numbers.end(), {part.times.total, part.times.data, part.times.communication});
  numbers.insert(numbers.end(), part.work.begin(), part.work.end());
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)};
}

IntervalPart part_from_bytes(const std::string& bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
  IntervalPart part;
  if (numbers.size() < part.sums.size() + 3) {
    throw PeerError("a rank sent " + std::to_string(bytes.size()) +
                    " bytes of scores, expected more; is it another version of this program?");
  }
  std::copy_n(numbers.begin(), part.sums.size(), part.sums.begin());
  const auto times = numbers.begin() + static_cast<std::ptrdiff_t>(part.sums.size());
  part.times = {times[0], times[1], times[2]};
  part.work.assign(times + 3, numbers.end());
  return part;
}

}  // namespace

Interval interval_of(const std::vector<IntervalPart>& parts) {
  Interval interval;
  Tally::Sums sums{};
  PhaseTimes times;
  std::vector<WorkTimes> work;
  for (const auto& part : parts) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] += part.sums[i];
    }
    times.total += part.times.total;
    times.data += part.times.data;
    times.communication += part.times.communication;
    work.push_back(part.work);
  }
  interval.train = scores_of(sums);
  if (times.total > 0) {
    interval.samples_per_second = sums[3] * static_cast<double>(parts.size()) / times.total;
    interval.data_wait = times.data / times.total;
    interval.communication_wait = times.communication / times.total;
  }
  if (const auto slow = find_slow_rank(work)) {
    interval.slow_rank = describe(*slow);
  }
  return interval;
}

std::string SlowRankWatch::look(const Group& group, const std::vector<double>& work) {
  if (group.size() < 2) {
    return "";
  }
  IntervalPart own;
  own.work = work;
  return look(gather(group, own));
}

std::string SlowRankWatch::look(const std::vector<IntervalPart>& parts) {
  std::vector<WorkTimes> ranks;
  for (const auto& part : parts) {
    ranks.push_back(part.work);
  }
  const auto slow = find_slow_rank(ranks);
  const int before = std::exchange(slow_, slow ? slow->rank : -1);
  if (!slow || slow->rank == before) {
    return "";
  }
  return describe(*slow) + (ranks.size() <= kMostRows ? "\n" + lag_table(ranks) : "");
}

std::vector<IntervalPart> gather(const Group& group, const IntervalPart& part) {
  std::vector<IntervalPart> parts;
  for (const auto& bytes : group.all_gather_bytes(packed(part))) {
    parts.push_back(part_from_bytes(bytes));
  }
  return parts;
}

}  // namespace lockstep::train
