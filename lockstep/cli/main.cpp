// The program `lockstep`: loads no LibTorch and starts in milliseconds.
//
// `lockstep run` is built in; `lockstep X` executes the program `lockstep-X` beside this one.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/heap.h"
#include "lockstep/base/process/stop_notice.h"
#include "lockstep/base/text/nearest.h"
#include "lockstep/base/text/text.h"
#include "lockstep/launch/run.h"

namespace lockstep {
namespace {

constexpr std::string_view kPrefix = "lockstep-";

// A closed stdout would give its number to the next file we open, and output would go there.
void open_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
      ::open("/dev/null", O_RDWR);  // The lowest free number: this one.
    }
  }
}

std::string own_folder() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "." : path.parent_path().string();
}

// "run" and every X for which there is a lockstep-X that can be executed.
std::vector<std::string> commands_in(const std::string& folder) {
  std::vector<std::string> commands{"run"};
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename();
    if (name.starts_with(kPrefix) && it->is_regular_file(error) &&
        ::access(it->path().c_str(), X_OK) == 0) {
      commands.push_back(name.substr(kPrefix.size()));
    }
  }
  std::sort(commands.begin(), commands.end());
  return commands;
}

std::string usage(const std::string& folder) {
  return "usage: lockstep COMMAND [ARGS...]   (lockstep COMMAND --help)\n"
         "commands: " +
         join(commands_in(folder), ", ") + "\n";
}

int execute_sibling(const std::string& folder, const std::string& command, char** argv) {
  const bool plain = !command.empty() && command.find('/') == std::string::npos;
  const std::string path = folder + "/" + std::string(kPrefix) + command;
  if (plain && ::access(path.c_str(), X_OK) == 0) {
    ::execv(path.c_str(), argv);
    throw_errno("executing '" + path + "'");
  }
  const auto meant = nearest_name(command, commands_in(folder));
  throw UsageError("there is no command '" + command + "'\n" + usage(folder) +
                   (meant ? "HINT: did you mean: lockstep " + *meant
                          : "HINT: to start a program on several ranks: lockstep run " + command));
}

int run_main(int argc, char** argv) {
  const std::string folder = own_folder();
  std::string help = "--help";
  if (argc == 3 && std::string(argv[1]) == "help") {  // As "lockstep COMMAND --help".
    argv[1] = argv[2];
    argv[2] = help.data();
  }
  if (argc < 2) {
    write_all(STDERR_FILENO, usage(folder));
    return 2;
  }
  const std::string command = argv[1];
  if (command == "--help" || command == "-h" || command == "help") {
    write_all(STDOUT_FILENO, usage(folder));
    return 0;
  }
  if (command == "--version") {
    write_all(STDOUT_FILENO, "lockstep " LOCKSTEP_VERSION "\n");
    return 0;
  }
  if (command == "run") {
    return launch::run({argv + 2, argv + argc}, {.folder = folder});
  }
  if (command == "train") {
    keep_freed_memory_of_mimalloc();
    hold_back_stop_notice();  // The trainer looks at it when it can save.
  }
  return execute_sibling(folder, command, argv + 1);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  lockstep::open_standard_streams();
  const bool run = argc > 1 && std::string(argv[1]) == "run";
  const std::string name = run ? "lockstep run: " : "lockstep: ";
  try {
    return lockstep::run_main(argc, argv);
  } catch (const lockstep::UsageError& error) {
    lockstep::write_all(STDERR_FILENO, name + error.what() + "\n");
    return 2;
  } catch (const std::exception& error) {
    lockstep::write_all(STDERR_FILENO, name + error.what() + "\n");
    return 1;
  }
}
