// Runs a fuzz target without libFuzzer: over the files named on the command line, or else over
// made-up inputs from a fixed seed, so that the target is compiled and tried in every build.
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "lockstep/base/fd.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::string made_up_input(std::mt19937& random) {
  // Mostly characters that text formats are made of, so that some inputs get past the first check.
  constexpr std::string_view kCommon = "0123456789[](){}:,.-=/ \n\"abc";
  std::string input(random() % 64, '\0');
  for (char& c : input) {
    c = random() % 8 == 0 ? static_cast<char>(random()) : kCommon[random() % kCommon.size()];
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    run(lockstep::read_file(argv[i]));
  }
  if (argc == 1) {
    std::mt19937 random(1);  // NOLINT(bugprone-random-generator-seed): the same inputs every time.
    for (int i = 0; i < 1000; ++i) {
      run(made_up_input(random));
    }
  }
  return 0;
}
