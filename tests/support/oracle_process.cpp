#include "tests/support/oracle_process.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "tests/support/python.h"

namespace lockstep::test {

OracleProcess::OracleProcess() : listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const std::string name = "lockstep-test-oracle-" + std::to_string(::getpid());
  const auto address = address_of_oracle(name);
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_.get(), 16) != 0) {
    throw_errno("listening for test cases that ask Python");
  }
  ::setenv(kOracle, name.c_str(), 1);
}

OracleProcess::~OracleProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

void OracleProcess::start() {
  pid_ = ::fork();
  if (pid_ < 0) {
    throw_errno("starting Python for test cases");
  }
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(listener_.get(), STDIN_FILENO);
    ::execlp(LOCKSTEP_TEST_PYTHON, LOCKSTEP_TEST_PYTHON, LOCKSTEP_TESTS_FOLDER "/support/oracle.py",
             static_cast<char*>(nullptr));
    ::_exit(127);
  }
  listener_.reset();
}

}  // namespace lockstep::test
