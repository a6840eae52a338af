// What `lockstep bench allreduce` found, and how it is shown.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::bench {

// Who takes part, in the order of the table.
enum Contender : std::size_t {
  kBare,
  kInPlace,
  kStaged,
  kGloo,
  kMpi,
  kCopy,
  kRewrite,
  kContenders
};

struct ContenderName {
  const char* name;     // In orders and in JSON.
  const char* heading;  // In the table.
};
inline constexpr std::array<ContenderName, kContenders> kContenderNames{{{"bare", "bare"},
                                                                         {"in_place", "in place"},
                                                                         {"staged", "staged"},
                                                                         {"gloo", "Gloo"},
                                                                         {"mpi", "Open MPI"},
                                                                         {"copy", "copy"},
                                                                         {"rewrite", "rewrite"}}};

struct Measured {
  std::vector<double> rounds;  // Seconds, the median of each round.
  int operations = 0;          // All of them, those before the first round too.
  int checked = 0;             // Results; one per operation and rank.
  int samples = 0;             // Operations whose time was taken.

  [[nodiscard]] std::optional<double> seconds() const;  // Nothing if it did not take part.
};

struct AllreduceRow {
  int ranks = 0;
  std::size_t bytes = 0;
  std::array<Measured, kContenders> measured;

  // How many times longer it takes than ours in place through c10d.
  [[nodiscard]] std::optional<double> times_ours(Contender contender) const;
};

// What the columns are.
inline constexpr const char* kAllreduceNotes =
    R"(Microseconds of one sum of float32 on rank 0, from the end of a barrier among its ranks. Every operation
has new values; first, middle and last element were checked on every rank.
  bare      shm::all_reduce on memory from the team's arena
  in place  the same through c10d::Backend, on a tensor from allocateTensor(): "ours" in the ratios
  staged    through c10d::Backend, on an ordinary tensor
  Gloo      LibTorch's ProcessGroupGloo through c10d::Backend, on an ordinary tensor
  Open MPI  MPI_Allreduce from C, in place
Limits of this machine, until the last rank is done with memory of its own, all ranks at once:
  copy      memcpy of as many bytes from one buffer to another
  rewrite   as many bytes read and written where they are
A sum in place has to read and to write that much per rank and moves no byte twice. It writes where it
has just read and so touches half the memory that a copy does: it can be below copy, not below rewrite.
)";

void print_allreduce_header(int rounds);
void print_allreduce_row(const AllreduceRow& row);
void print_allreduce_json(const AllreduceRow& row);

}  // namespace lockstep::bench
