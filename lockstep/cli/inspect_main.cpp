// lockstep-inspect: shows what is inside of a checkpoint. Loads no LibTorch, executes nothing.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/printable.h"
#include "lockstep/checkpoint/describe.h"
#include "lockstep/checkpoint/read.h"

int main(int argc, char** argv) try {
  CLI::App app{
      "What is inside of a checkpoint: of lockstep, of torch.save, or safetensors. Checksums are "
      "checked, and nothing in the file is executed."};
  app.name("lockstep inspect");
  std::vector<std::string> files;
  lockstep::checkpoint::DescribeOptions options;
  app.add_option("FILE", files, "Files to look at")->required();
  app.add_option("--items", options.items, "Items shown of each list")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const auto& file : files) {
    const auto document = lockstep::checkpoint::read_checkpoint(file);
    if (!lockstep::write_all(STDOUT_FILENO, file + ": " + describe(document, options))) {
      lockstep::throw_errno("writing to standard output");
    }
  }
  return 0;
} catch (const std::exception& error) {
  // Errors have names from the file in them.
  const std::string text = lockstep::printable(error.what(), "", "?");
  std::fprintf(stderr, "lockstep inspect: %s\n", text.c_str());
  return 1;
}
