// Runs a fuzz target without libFuzzer, so that it is compiled and tried in every build: over the
// files named on the command line; with --seeds FOLDER, over its files and over changed copies of
// them; or else over made-up inputs. The same inputs every time.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <vector>

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

std::string changed_copy(std::string input, std::mt19937& random) {
  for (unsigned edits = random() % 4 + 1; edits > 0 && !input.empty(); --edits) {
    const std::size_t place = random() % input.size();
    switch (random() % 8) {
      case 0:
        input.resize(place);
        break;
      case 1:
        input.erase(place, random() % 8);
        break;
      case 2:
        input.insert(place, random() % 8, static_cast<char>(random()));
        break;
      default:
        input[place] = static_cast<char>(random());
    }
  }
  return input;
}

void run_seeds(const char* folder, std::mt19937& random) {
  std::vector<std::string> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    seeds.push_back(lockstep::read_file(entry.path().string()));
  }
  std::sort(seeds.begin(), seeds.end());  // Folders have no order.
  for (const std::string& seed : seeds) {
    run(seed);
    for (int i = 0; i < 300; ++i) {
      run(changed_copy(seed, random));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::mt19937 random(1);  // NOLINT(bugprone-random-generator-seed): the same inputs every time.
  if (argc == 3 && std::string_view(argv[1]) == "--seeds") {
    run_seeds(argv[2], random);
    return 0;
  }
  for (int i = 1; i < argc; ++i) {
    run(lockstep::read_file(argv[i]));
  }
  if (argc == 1) {
    for (int i = 0; i < 1000; ++i) {
      run(made_up_input(random));
    }
  }
  return 0;
}
