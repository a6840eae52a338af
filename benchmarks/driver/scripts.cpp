// `lockstep bench hosts`, `train` and `python`: hand over to scripts, which start whole jobs.
#include <unistd.h>

#include "benchmarks/driver/bench.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"

namespace lockstep::bench {
namespace {

[[noreturn]] void become_script(const std::string& script,
                                const std::vector<std::string>& arguments) {
  const std::string python =
      *LOCKSTEP_BENCH_PYTHON == '\0' ? "python3" : std::string(LOCKSTEP_BENCH_PYTHON);
  std::vector<std::string> words{python, peer_program(script), "--bin", program_folder()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (auto& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  throw_errno("bench: starting '" + python + "'");
}

void add_script(CLI::App& app, const char* name, const char* description, const char* script) {
  auto* command = app.add_subcommand(name, description);
  command->prefix_command();
  command->set_help_flag();  // Its own --help.
  command->callback([command, script] { become_script(script, command->remaining()); });
}

}  // namespace

void add_hosts(CLI::App& app) {
  add_script(app, "hosts", "training, or an all_reduce, on several hosts (network namespaces)",
             "../hosts.py");
}

void add_python(CLI::App& app) {
  add_script(app, "python", "the backend in Python, with and without the arena, beside Gloo",
             "../python.py");
}

void add_train(CLI::App& app) {
  add_script(app, "train", "whole runs of lockstep train, beside the same training in Python",
             "../train/main.py");
}

}  // namespace lockstep::bench
