#include "lockstep/launch/command/program.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "lockstep/base/error.h"
#include "tests/launch/job.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class FindProgram : public ::testing::Test {
 protected:
  FindProgram() {
    ::mkdir(folder_.file("bin").c_str(), 0700);
    python_ = executable("bin/python3");
    tool_ = executable("bin/tool");
    environment_ = Environment({{"PATH", folder_.file("bin")}});
  }

  std::string executable(const std::string& name) const {
    const std::string path = folder_.write(name, "#!/bin/sh\n");
    ::chmod(path.c_str(), 0700);
    return path;
  }

  Program find(std::vector<std::string> command) {
    options_.command = std::move(command);
    return find_program(options_, environment_);
  }

  test::TemporaryFolder folder_;
  std::string python_;
  std::string tool_;
  Environment environment_;
  RunOptions options_;
};

TEST_F(FindProgram, ProgramsAreFoundInPathAndByPath) {
  EXPECT_EQ(find({"tool", "a"}).path, tool_);
  EXPECT_THAT(find({"tool", "a"}).arguments, ElementsAre("tool", "a"));
  EXPECT_EQ(find({tool_}).path, tool_);
}

TEST_F(FindProgram, ScriptsAndModulesRunWithUnbufferedPython) {
  const std::string script = folder_.write("s.py", "");
  EXPECT_THAT(find({script, "a"}).arguments, ElementsAre(python_, "-u", script, "a"));
  options_.module = true;
  EXPECT_THAT(find({"some.module", "a"}).arguments,
              ElementsAre(python_, "-u", "-m", "some.module", "a"));
}

TEST_F(FindProgram, VirtualEnvironmentAndPythonExecGoFirst) {
  const std::string script = folder_.write("s.py", "");
  ::mkdir(folder_.file("venv").c_str(), 0700);
  ::mkdir(folder_.file("venv/bin").c_str(), 0700);
  const std::string in_venv = executable("venv/bin/python3");
  environment_.set("VIRTUAL_ENV", folder_.file("venv"));
  EXPECT_EQ(find({script}).path, in_venv);
  environment_.set("PYTHON_EXEC", "tool");
  EXPECT_EQ(find({script}).path, tool_);
  environment_.set("PYTHON_EXEC", "absent");
  EXPECT_THAT([&] { find({script}); }, ThrowsMessage<UsageError>(HasSubstr("PYTHON_EXEC")));
}

TEST_F(FindProgram, NoPythonExecutesTheScriptItself) {
  options_.no_python = true;
  const std::string script = executable("direct.py");
  EXPECT_THAT(find({script}).arguments, ElementsAre(script));
  options_.module = true;
  EXPECT_THAT([&] { find({script}); }, ThrowsMessage<UsageError>(HasSubstr("--no-python")));
}

TEST_F(FindProgram, WhatCannotRunIsRefusedBeforehand) {
  EXPECT_THAT([&] { find({"absent"}); }, ThrowsMessage<UsageError>(HasSubstr("not in $PATH")));
  EXPECT_THAT([&] { find({"/absent/x"}); },
              ThrowsMessage<UsageError>(HasSubstr("No such file or directory")));
  EXPECT_THAT([&] { find({folder_.file("bin")}); },
              ThrowsMessage<UsageError>(HasSubstr("is a directory")));
  EXPECT_THAT([&] { find({folder_.write("plain", "")}); },
              ThrowsMessage<UsageError>(HasSubstr("chmod +x")));
  EXPECT_THAT([&] { find({"absent.py"}); }, ThrowsMessage<UsageError>(HasSubstr("absent.py")));
}

TEST_F(FindProgram, MissingPythonIsAnError) {
  environment_.set("PATH", folder_.file("empty"));
  const std::string script = folder_.write("s.py", "");
  EXPECT_THAT([&] { find({script}); }, ThrowsMessage<UsageError>(HasSubstr("no python3")));
}

}  // namespace
}  // namespace lockstep::launch
