// lockstep-bench: our numbers beside the peers', measured in the same run.
#include <cstdio>

#include "benchmarks/driver/bench.h"
#include "lockstep/base/error.h"

namespace lockstep::bench {

std::filesystem::path program_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

std::filesystem::path peer_program(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(LOCKSTEP_PEERS) / name;
  if (!std::filesystem::exists(path)) {
    throw UsageError("bench: the peer program '" + path.string() +
                     "' is gone; run bench from the folder that lockstep was built in");
  }
  return path;
}

namespace {

int main_of(int argc, char** argv) {
  CLI::App app{"Our numbers beside the peers', measured in the same run."};
  app.name("lockstep bench");
  app.require_subcommand(1);
  add_allreduce(app);
  add_startup(app);
  add_step(app);
  add_loader(app);
  add_hosts(app);
  add_train(app);
  add_python(app);
  add_checkpoint(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) try {
  return lockstep::bench::main_of(argc, argv);
} catch (const lockstep::UsageError& error) {
  std::fprintf(stderr, "lockstep bench: %s\n", error.what());
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "lockstep bench: %s\n", error.what());
  return 1;
}
