// What is ours in `lockstep bench loader`, which starts it.
//
//   loader_job orders PIPE PHOTOS FILES LARGE SHORTEST-TURN
//   loader_job make-photos FOLDER COUNT
//   loader_job make-large-photos FOLDER COUNT
//   loader_job make-files FOLDER COUNT
//
// Orders and answers are those of benchmarks/peers/loader.py; rows that it has not are in rows.h.
#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <span>

#include "benchmarks/loader/photos.h"
#include "benchmarks/loader/rows.h"
#include "benchmarks/orders.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/text/text.h"

namespace lockstep::bench {
namespace {

void carry_out_orders(const char* pipe, const LoaderData& data) {
  LoaderRows rows(data);
  const UniqueFd orders(::open(pipe, O_RDONLY | O_CLOEXEC));
  char line[kOrderBytes + 1];
  int got = 0;
  while ((got = read_order_line(orders.get(), line)) == 1) {
    char row[kOrderBytes];
    int workers = 0;
    if (std::sscanf(line, "%47s %d", row, &workers) != 2) {
      throw Error("'" + std::string(trim(line)) + "' is no order");
    }
    std::printf("%s\n", rows.carry_out(row, workers).dump().c_str());
    std::fflush(stdout);
  }
  if (got < 0) {
    throw Error("an order is cut off");
  }
}

int main_of(std::span<char*> arguments) {
  const std::string what = arguments.size() > 1 ? arguments[1] : "";
  if (what == "orders" && arguments.size() == 7) {
    carry_out_orders(arguments[2], {.photos = arguments[3],
                                    .files = arguments[4],
                                    .large = arguments[5],
                                    .shortest_turn = std::atof(arguments[6])});
  } else if (what == "make-photos" && arguments.size() == 4) {
    make_photos(arguments[2], std::atoi(arguments[3]));
  } else if (what == "make-large-photos" && arguments.size() == 4) {
    make_large_photos(arguments[2], std::atoi(arguments[3]));
  } else if (what == "make-files" && arguments.size() == 4) {
    make_small_files(arguments[2], std::atoi(arguments[3]));
  } else {
    throw UsageError(
        "expected orders PIPE PHOTOS FILES LARGE SHORTEST-TURN, or make-photos, make-large-photos "
        "or make-files "
        "FOLDER COUNT");
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) try {
  return lockstep::bench::main_of({argv, static_cast<std::size_t>(argc)});
} catch (const std::exception& error) {
  std::fprintf(stderr, "loader_job: %s\n", error.what());
  return 1;
}
