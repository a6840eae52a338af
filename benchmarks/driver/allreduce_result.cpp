#include "benchmarks/driver/allreduce_result.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "benchmarks/driver/result_text.h"
#include "benchmarks/driver/timed_run.h"
#include "lockstep/base/host.h"
#include "lockstep/base/memory.h"

namespace lockstep::bench {

std::optional<double> Measured::seconds() const {
  return rounds.empty() ? std::nullopt : std::optional(median(rounds));
}

std::optional<double> AllreduceRow::times_ours(Contender contender) const {
  const auto ours = measured[kInPlace].seconds();
  const auto other = measured[contender].seconds();
  return ours && other ? std::optional(*other / *ours) : std::nullopt;
}

void print_allreduce_header(int rounds) {
  std::printf("all_reduce, us, medians of %d interleaved rounds, %d cores, %s\n\n", rounds,
              usable_cores(), architecture().c_str());
  std::printf("%5s %10s", "ranks", "size");
  for (const auto& contender : kContenderNames) {
    std::printf(" %9s", contender.heading);
  }
  std::printf(" %10s %9s\n", "Gloo/ours", "MPI/ours");
  std::fflush(stdout);
}

void print_allreduce_row(const AllreduceRow& row) {
  std::printf("%5d %10s", row.ranks, size_text(row.bytes).c_str());
  for (const auto& measured : row.measured) {
    std::printf(" %9s", number_text(scaled(measured.seconds(), 1e6)).c_str());
  }
  std::printf(" %10s %9s\n", number_text(row.times_ours(kGloo), "x").c_str(),
              number_text(row.times_ours(kMpi), "x").c_str());
  std::fflush(stdout);
}

void print_allreduce_json(const AllreduceRow& row) {
  nlohmann::json line = {{"bench", "allreduce"},
                         {"ranks", row.ranks},
                         {"bytes", row.bytes},
                         {"cores", usable_cores()},
                         {"arch", architecture()},
                         {"gloo_over_ours", as_json(row.times_ours(kGloo))},
                         {"mpi_over_ours", as_json(row.times_ours(kMpi))},
                         {"copy_over_ours", as_json(row.times_ours(kCopy))},
                         {"rewrite_over_ours", as_json(row.times_ours(kRewrite))}};
  for (std::size_t i = 0; i < kContenders; ++i) {
    const auto& measured = row.measured[i];
    line["contenders"][kContenderNames[i].name] = {{"median_s", as_json(measured.seconds())},
                                                   {"rounds_s", measured.rounds},
                                                   {"samples", measured.samples},
                                                   {"operations", measured.operations},
                                                   {"checked", measured.checked}};
  }
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

}  // namespace lockstep::bench
