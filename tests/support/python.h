// Runs a program of the tests with the Python that has torch: the oracle of parity tests.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep::test {

// `script` is relative to tests/. What it prints is seen; throws if it does not end with 0.
inline void run_python(const std::string& script, const std::vector<std::string>& arguments) {
  std::string command = "'" LOCKSTEP_TEST_PYTHON "' '" LOCKSTEP_TESTS_FOLDER "/" + script + "'";
  for (const auto& argument : arguments) {
    command += " '" + argument + "'";
  }
  const int status = std::system(command.c_str());
  if (status != 0) {
    throw std::runtime_error(command + ": status " + std::to_string(status));
  }
}

}  // namespace lockstep::test
