// `lockstep bench hosts`: hands over to benchmarks/hosts.py, which makes the hosts.
#include <unistd.h>

#include "benchmarks/driver/bench.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"

namespace lockstep::bench {
namespace {

void hosts(const std::vector<std::string>& arguments) {
  const std::string python =
      *LOCKSTEP_BENCH_PYTHON == '\0' ? "python3" : std::string(LOCKSTEP_BENCH_PYTHON);
  std::vector<std::string> words{python, peer_program("../hosts.py"), "--bin", program_folder()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (auto& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  throw_errno("bench hosts: starting '" + python + "'");
}

}  // namespace

void add_hosts(CLI::App& app) {
  auto* command = app.add_subcommand(
      "hosts", "training, or an all_reduce, on several hosts (network namespaces)");
  command->prefix_command();
  command->set_help_flag();  // Its own --help.
  command->callback([command] { hosts(command->remaining()); });
}

}  // namespace lockstep::bench
