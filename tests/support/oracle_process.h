// oracle.py as a process beside the test cases, which ask it through python.h.
#pragma once

#include <sys/types.h>

#include "lockstep/base/fd.h"

namespace lockstep::test {

// Its address is in the environment of this process and of its forks. Ends with this process.
class OracleProcess {
 public:
  OracleProcess();
  OracleProcess(const OracleProcess&) = delete;
  OracleProcess& operator=(const OracleProcess&) = delete;
  ~OracleProcess();

  // Readable when a case asks for the first time; start() is due then. -1 after that.
  [[nodiscard]] int first_question() const { return listener_.get(); }
  void start();
  // For a fork that runs a case.
  void close_in_fork() { listener_.reset(); }

 private:
  UniqueFd listener_;
  pid_t pid_ = -1;
};

}  // namespace lockstep::test
