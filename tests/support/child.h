// Real child processes for tests of what happens to processes.
#pragma once

#include <sys/types.h>

#include <functional>

namespace lockstep::test {

// Forks a child that runs `body` and leaves with its result; an exception that escapes the body
// terminates the child as it would terminate a program. The child dumps no core, and a sanitizer's
// signal handlers are taken out of it, so that it starts as a plain program does.
pid_t fork_child(const std::function<int()>& body);

// The child's wait status. Blocks; a test has a timeout in ctest.
int wait_for(pid_t pid);

// fork_child() and wait_for() in one.
int run_in_child(const std::function<int()>& body);

bool is_alive(pid_t pid);

}  // namespace lockstep::test
