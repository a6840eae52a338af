// The benchmarks of `lockstep bench`, one subcommand each: they add their flags to the program and
// run when they were chosen.
//
// They start other programs and load no LibTorch themselves, so that `--help` answers at once.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>

namespace lockstep::bench {

void add_startup(CLI::App& app);
void add_allreduce(CLI::App& app);
void add_loader(CLI::App& app);
void add_step(CLI::App& app);
void add_hosts(CLI::App& app);
void add_train(CLI::App& app);
void add_python(CLI::App& app);
void add_checkpoint(CLI::App& app);

// Where this program lies, and the programs that it starts.
std::filesystem::path program_folder();
// A script of benchmarks/peers. Throws UsageError if the source tree is gone.
std::filesystem::path peer_program(const std::string& name);

}  // namespace lockstep::bench
