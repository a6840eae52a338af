#include "lockstep/launch/command/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"

namespace lockstep::launch {
namespace {

bool is_executable_file(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

// Throws UsageError saying why the file cannot be used, if it cannot.
void require_usable(const std::string& path, int access_mode) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    throw UsageError("program '" + path + "': " + std::generic_category().message(errno));
  }
  if (S_ISDIR(info.st_mode)) {
    throw UsageError("program '" + path + "' is a directory");
  }
  if (::access(path.c_str(), access_mode) == 0) {
    return;
  }
  if (access_mode == X_OK) {
    throw UsageError("program '" + path + "' is not executable\nHINT: chmod +x '" + path + "'");
  }
  throw UsageError("program '" + path + "': " + std::generic_category().message(errno));
}

std::string find_python(const Environment& environment) {
  if (const auto chosen = environment.get("PYTHON_EXEC")) {
    std::string path = find_executable(*chosen, environment);
    if (!is_executable_file(path)) {
      throw UsageError("environment variable PYTHON_EXEC is '" + *chosen +
                       "', which cannot be executed");
    }
    return path;
  }
  if (const auto folder = environment.get("VIRTUAL_ENV")) {
    std::string path = *folder + "/bin/python3";
    if (is_executable_file(path)) {
      return path;
    }
  }
  for (const char* name : {"python3", "python"}) {
    std::string path = find_executable(name, environment);
    if (!path.empty()) {
      return path;
    }
  }
  throw UsageError("no python3 found in $VIRTUAL_ENV or $PATH, but the program is Python");
}

}  // namespace

std::string find_executable(const std::string& name, const Environment& environment) {
  if (name.find('/') != std::string::npos) {
    return name;
  }
  for (const auto& folder : split(environment.get("PATH").value_or("/usr/bin:/bin"), ':')) {
    std::string path = (folder.empty() ? "." : folder) + "/" + name;
    if (is_executable_file(path)) {
      return path;
    }
  }
  return "";
}

Program find_program(const RunOptions& options, const Environment& environment) {
  const std::string& name = options.command.front();
  if (options.module && options.no_python) {
    throw UsageError("--module and --no-python exclude each other");
  }
  Program program;
  if (options.module || (name.ends_with(".py") && !options.no_python)) {
    if (!options.module) {
      require_usable(name, R_OK);
    }
    program.path = find_python(environment);
    program.arguments = {program.path, "-u"};
    if (options.module) {
      program.arguments.emplace_back("-m");
    }
    program.arguments.insert(program.arguments.end(), options.command.begin(),
                             options.command.end());
    return program;
  }
  program.path = find_executable(name, environment);
  if (program.path.empty()) {
    const bool here = ::access(name.c_str(), F_OK) == 0;
    throw UsageError("program '" + name + "' is not in $PATH" +
                     (here ? "\nHINT: for the file in this folder write ./" + name : ""));
  }
  require_usable(program.path, X_OK);
  program.arguments = options.command;
  return program;
}

}  // namespace lockstep::launch
