// lockstep-inspect: shows what is inside of a checkpoint. Loads no LibTorch, executes nothing.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/checkpoint/describe.h"
#include "lockstep/checkpoint/read.h"

namespace {

// Errors have names from the file in them.
void print_error(const std::string& what) {
  const std::string text = lockstep::printable(what, "", "?");
  std::fprintf(stderr, "lockstep inspect: %s\n", text.c_str());
}

// False, and an error is shown, if it cannot be read.
bool show(const std::string& file, const lockstep::checkpoint::DescribeOptions& options) {
  std::string text;
  try {
    text = file + ": " + describe(lockstep::checkpoint::read_checkpoint(file), options);
  } catch (const lockstep::IoError& error) {
    print_error(error.what());
    return false;
  } catch (const std::bad_alloc&) {
    print_error("'" + file + "' needs more memory than this process can have");
    return false;
  }
  if (!lockstep::write_all(STDOUT_FILENO, text)) {
    lockstep::throw_errno("writing to standard output");
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app{
      "What is inside of a checkpoint: of lockstep, of torch.save, or safetensors. Checksums are "
      "checked, and nothing in the file is executed."};
  app.name("lockstep inspect");
  std::vector<std::string> files;
  lockstep::checkpoint::DescribeOptions options;
  app.add_option("FILE", files, "Files to look at")->required();
  app.add_option("--items", options.items, "Items shown of each list")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  bool all_shown = true;
  for (const auto& file : files) {
    all_shown = show(file, options) && all_shown;
  }
  return all_shown ? 0 : 1;
} catch (const std::exception& error) {
  print_error(error.what());
  return 1;
}
