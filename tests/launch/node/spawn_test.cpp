#include "lockstep/launch/node/spawn.h"

#include <gtest/gtest.h>

#include "lockstep/base/process/tree.h"
#include "tests/launch/job.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launch {
namespace {

int wait_for(const Child& child) {
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Runs /bin/sh -c `script` and returns what it wrote to stdout and stderr.
std::string output_of(const std::string& script, const Environment& environment = {}) {
  const test::TemporaryFolder folder;
  const UniqueFd file = create_log_file(folder.file("out"));
  const Signals signals({SIGTERM});
  ChildSpec spec;
  spec.path = "/bin/sh";
  spec.arguments = {"sh", "-c", script};
  spec.environment = environment;
  spec.stdout_fd = spec.stderr_fd = file.get();
  wait_for(start_child(spec, signals));
  return folder.read("out");
}

TEST(StartChild, PassesArgumentsAndEnvironmentUntouched) {
  EXPECT_EQ(output_of("echo \"$ODD\"", Environment({{"ODD", "a  b\n$c"}})), "a  b\n$c\n");
}

TEST(StartChild, LeadsASessionOfItsOwn) {
  EXPECT_EQ(output_of("read -r pid name state ppid group session rest < /proc/self/stat\n"
                      "[ $$ = $group ] && [ $$ = $session ] && echo leads"),
            "leads\n");
}

TEST(StartChild, KeepsTheDescriptorThatItIsGiven) {
  const test::TemporaryFolder folder;
  const UniqueFd kept = create_log_file(folder.file("kept"));
  const Signals signals({});
  ChildSpec spec;
  spec.path = "/bin/sh";
  spec.arguments = {"sh", "-c", "echo x >&" + std::to_string(kept.get())};
  spec.kept_fd = kept.get();
  EXPECT_EQ(wait_for(start_child(spec, signals)), 0);
  EXPECT_EQ(folder.read("kept"), "x\n");
}

TEST(StartChild, SaysWhyAProgramCannotBeExecuted) {
  const test::TemporaryFolder folder;
  const UniqueFd file = create_log_file(folder.file("out"));
  const Signals signals({});
  ChildSpec spec;
  spec.path = folder.path;
  spec.arguments = {"x"};
  spec.stderr_fd = file.get();
  EXPECT_EQ(wait_for(start_child(spec, signals)), 126);
  EXPECT_EQ(folder.read("out"),
            "lockstep run: cannot execute '" + folder.path + "': Permission denied\n");
}

TEST(StartChild, DiesWithItsParent) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(exit_code_of([&] {
              const Signals signals({});
              ChildSpec spec;
              spec.path = "/bin/sh";
              spec.arguments = {"sh", "-c", "echo $$ > " + folder.file("pid") + "; exec sleep 100"};
              start_child(spec, signals);
              while (folder.read("pid").empty()) {
                ::usleep(1000);
              }
              return 0;
            }),
            0);
  const pid_t pid = std::stoi(folder.read("pid"));
  const Deadline deadline = Deadline::in(std::chrono::seconds(5));
  while (::kill(pid, 0) == 0 && !deadline.passed() &&
         std::filesystem::exists("/proc/" + std::to_string(pid) + "/exe")) {
    ::usleep(1000);
  }
  EXPECT_FALSE(deadline.passed());
}

int end_of_a_sleeper_told_to_stop() {
  const Signals signals({});
  ChildSpec spec;
  spec.path = "/bin/sleep";
  spec.arguments = {"sleep", "100"};
  const Child child = start_child(spec, signals);
  signal_child(child, SIGTERM);
  return wait_for(child);
}

TEST(SignalChild, ReachesItEvenBeforeItHasAGroup) {
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(end_of_a_sleeper_told_to_stop(), 128 + SIGTERM);
  }
}

// Starts a child that ends and leaves another process in its group, reaps the child, calls `act`
// and returns the signal by which the one left over ends when it is told to by SIGTERM.
int end_of_what_is_left_after(const std::function<void(Child)>& act) {
  const test::TemporaryFolder folder;
  return exit_code_of([&] {
    become_subreaper();
    const Signals signals({});
    ChildSpec spec;
    spec.path = "/bin/sh";
    spec.arguments = {"sh", "-c", "sleep 100 & echo $! > " + folder.file("pid")};
    Child child = start_child(spec, signals);
    wait_for(child);
    act(std::move(child));
    const pid_t left = std::stoi(folder.read("pid"));
    ::kill(left, SIGTERM);  // A SIGKILL that was sent before would come first.
    int status = 0;
    return ::waitpid(left, &status, 0) == left && WIFSIGNALED(status) ? WTERMSIG(status) : -1;
  });
}

TEST(SignalChild, ReachesNobodyForAChildThatWasNeverStarted) {
  EXPECT_EQ(exit_code_of([] {
              ::setpgid(0, 0);
              signal_child(Child{}, SIGKILL);
              signal_child(Child{}, SIGKILL, Reach::kProcess);
              return 7;
            }),
            7);
}

TEST(SignalChild, ReachesNobodyOnceTheChildWasReaped) {
  EXPECT_EQ(end_of_what_is_left_after([](const Child& child) { signal_child(child, SIGKILL); }),
            SIGTERM);
}

TEST(EndChild, LeavesAChildAloneThatWasReaped) {
  EXPECT_EQ(end_of_what_is_left_after([](Child child) { end_child(std::move(child)); }), SIGTERM);
}

TEST(EndChild, KillsAndReaps) {
  const Signals signals({});
  ChildSpec spec;
  spec.path = "/bin/sleep";
  spec.arguments = {"sleep", "100"};
  Child child = start_child(spec, signals);
  const pid_t pid = child.pid;
  end_child(std::move(child));
  EXPECT_EQ(::waitpid(pid, nullptr, 0), -1);
}

TEST(SignalChild, EndsItEvenWhereWeWereStartedWithSigtermIgnored) {
  std::signal(SIGTERM, SIG_IGN);
  EXPECT_EQ(end_of_a_sleeper_told_to_stop(), 128 + SIGTERM);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace
}  // namespace lockstep::launch
