// Whatever is on the command line or in the PET_ variables: options or a UsageError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/launch/command/options.h"
#include "lockstep/launch/node/log_layout.h"

namespace {

void check(const std::vector<std::string>& arguments, const lockstep::Environment& environment) {
  try {
    const auto options = lockstep::launch::parse_run_options(arguments, environment, {.cores = 4});
    if (!options.help &&
        (options.workers < 1 || options.nodes.count < 1 || options.command.empty())) {
      std::abort();
    }
  } catch (const lockstep::UsageError&) {
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto words = lockstep::split(text, '\n');
  check(words, {});
  check({"--redirects", text, "x"}, {});
  check({"--rdzv-endpoint", text, "--nnodes=2", "--rdzv-backend=c10d", "x"}, {});
  check({"x"}, lockstep::Environment({{"PET_NNODES", text}, {"PET_NPROC_PER_NODE", words.back()}}));
  (void)lockstep::launch::expand_prefix(text, {});
  return 0;
}
