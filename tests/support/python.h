// Runs a program of the tests with the Python that has torch: the oracle of parity tests.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep::test {

// The socket of a process that has imported torch already and forks; torch_test_main.cpp sets it.
inline constexpr const char* kOracle = "LOCKSTEP_TEST_ORACLE";

// An address without a file: it is gone with the socket.
inline sockaddr_un address_of_oracle(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  return address;
}

// All that the program prints, then the line that says how it ended; empty without an oracle.
inline std::string ask_oracle(const std::string& name, const std::string& words) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto address = address_of_oracle(name);
  std::string answer;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::send(fd, words.data(), words.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(words.size()) &&
      ::shutdown(fd, SHUT_WR) == 0) {
    std::array<char, 4096> piece{};
    for (ssize_t size = 0; (size = ::read(fd, piece.data(), piece.size())) > 0;) {
      answer.append(piece.data(), static_cast<std::size_t>(size));
    }
  }
  ::close(fd);
  return answer;
}

// `script` is relative to tests/. What it prints is seen; throws if it does not end with 0.
inline void run_python(const std::string& script, const std::vector<std::string>& arguments) {
  const std::string path = LOCKSTEP_TESTS_FOLDER "/" + script;
  std::string command = "'" LOCKSTEP_TEST_PYTHON "' '" + path + "'";
  std::string words = path + '\0';
  for (const auto& argument : arguments) {
    command += " '" + argument + "'";
    words += argument + '\0';
  }
  if (const char* oracle = std::getenv(kOracle)) {
    const std::string answer = ask_oracle(oracle, words);
    std::fputs(answer.c_str(), stdout);
    if (!answer.ends_with("\nexit code 0\n")) {
      throw std::runtime_error(command + (answer.empty()
                                              ? ": oracle.py gave no answer; see what it printed"
                                              : ": see what it printed"));
    }
    return;
  }
  const int status = std::system(command.c_str());
  if (status != 0) {
    throw std::runtime_error(command + ": status " + std::to_string(status));
  }
}

}  // namespace lockstep::test
